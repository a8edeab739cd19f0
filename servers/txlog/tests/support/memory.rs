//! A directory in memory that can fail, and that loses unsynced data in a crash.
//!
//! In a crash, each sector of each unsynced write survives or not, at random and independently of
//! the others; so does each change of a length, and each name that was created or removed since the
//! names were synced. That is more than most disks do, and no more than they may do.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use evenkeel::fs::CommitFile;
use evenkeel::task::yield_now;
use evenkeel::time::sleep;
use txlog::log::{Disk, DiskFile};
use txlog_client::{Client, ClientError};

use super::Random;

/// The unit that a disk writes whole or not at all. Smaller than a real one's, to tear more writes.
const SECTOR_BYTES: usize = 32;

/// The faults of a disk.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Faults {
    /// Writes take only some of the bytes, and are interrupted.
    pub(crate) short: bool,
    /// This many writes succeed, and then all fail with this error.
    pub(crate) writes: Option<(u64, i32)>,
    /// This many bytes can be written, and then the device is full.
    pub(crate) room: Option<u64>,
    /// This many syncs succeed, then one fails with this error, and those after it succeed again,
    /// as with Linux.
    pub(crate) syncs: Option<(u64, i32)>,
    /// The names can be synced this many times, and then one sync fails with this error.
    pub(crate) name_syncs: Option<(u64, i32)>,
    /// No file can be made; making one returns this error.
    pub(crate) creates: Option<i32>,
    /// Syncs of files do not come to an end, as long as this is so.
    pub(crate) hangs: bool,
    /// No file can be removed; removing returns this error.
    pub(crate) removes: Option<i32>,
    /// Removals of files do not come to an end, as long as this is so.
    pub(crate) removes_hang: bool,
}

/// Clones are the same disk as long as no crash happens: after a crash, only the clone that crashed
/// it can be used, since no program that ran before continues.
#[derive(Clone, Debug, Default)]
pub(crate) struct MemoryDisk {
    state: Arc<Mutex<State>>,
    age: u64,
}

#[derive(Debug)]
struct State {
    names: BTreeMap<String, usize>,
    synced_names: BTreeMap<String, usize>,
    files: Vec<Contents>,
    faults: Faults,
    random: Random,
    /// Counts crashes: a file that was opened before a crash can no longer be used.
    age: u64,
    pub(crate) syncs_done: u64,
}

impl Default for State {
    fn default() -> Self {
        Self {
            names: BTreeMap::new(),
            synced_names: BTreeMap::new(),
            files: Vec::new(),
            faults: Faults::default(),
            random: Random::new(1),
            age: 0,
            syncs_done: 0,
        }
    }
}

#[derive(Clone, Debug, Default)]
struct Contents {
    now: Vec<u8>,
    synced: Vec<u8>,
    /// The changes since the last sync.
    changes: Vec<Change>,
}

#[derive(Clone, Debug)]
enum Change {
    Write(usize, Vec<u8>),
    Length(usize),
}

impl Change {
    fn apply(&self, bytes: &mut Vec<u8>) {
        match self {
            Change::Write(offset, written) => {
                let end = offset + written.len();
                if bytes.len() < end {
                    bytes.resize(end, 0);
                }
                bytes[*offset..end].copy_from_slice(written);
            }
            Change::Length(length) => bytes.resize(*length, 0),
        }
    }
}

impl Contents {
    fn change(&mut self, change: Change) {
        change.apply(&mut self.now);
        self.changes.push(change);
    }

    /// The state after a crash.
    fn crash(&mut self, random: &mut Random) {
        let mut kept = self.synced.clone();
        // Usually some, sometimes none or all.
        let odds = random.below(5);
        for change in std::mem::take(&mut self.changes) {
            match change {
                Change::Length(_) if random.below(4) < odds => change.apply(&mut kept),
                Change::Length(_) => {}
                Change::Write(mut offset, mut rest) => {
                    while !rest.is_empty() {
                        let room = SECTOR_BYTES - offset % SECTOR_BYTES;
                        let after = rest.split_off(room.min(rest.len()));
                        let sector = Change::Write(offset, rest);
                        if random.below(4) < odds {
                            sector.apply(&mut kept);
                        }
                        offset += room;
                        rest = after;
                    }
                }
            }
        }
        self.now.clone_from(&kept);
        self.synced = kept;
    }
}

impl MemoryDisk {
    pub(crate) fn new(seed: u64) -> Self {
        let disk = Self::default();
        disk.lock().random = Random::new(seed);
        disk
    }

    /// Other random numbers from now on.
    pub(crate) fn reseed(&self, seed: u64) {
        self.lock().random = Random::new(seed);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// The disk, unless it has crashed since.
    fn alive(&self) -> io::Result<MutexGuard<'_, State>> {
        let state = self.lock();
        if state.age != self.age {
            return Err(io::Error::other("the machine has lost its power"));
        }
        Ok(state)
    }

    pub(crate) fn set_faults(&self, faults: Faults) {
        self.lock().faults = faults;
    }

    pub(crate) fn syncs_done(&self) -> u64 {
        self.lock().syncs_done
    }

    /// The machine loses its power. Open files can no longer be used.
    pub(crate) fn crash(&mut self) {
        self.age += 1;
        let mut state = self.lock();
        let state = &mut *state;
        state.age = self.age;
        let random = &mut state.random;
        let mut names = state.synced_names.clone();
        for (name, file) in &state.names {
            if !names.contains_key(name) && random.below(2) == 0 {
                names.insert(name.clone(), *file);
            }
        }
        names.retain(|name, _| state.names.contains_key(name) || random.below(2) == 0);
        for file in &mut state.files {
            file.crash(random);
        }
        state.names.clone_from(&names);
        state.synced_names = names;
        state.faults = Faults::default();
    }

    /// A separate disk with the same files, all of them synced.
    pub(crate) fn copy(&self) -> Self {
        let state = self.lock();
        let copy = Self::new(1);
        for (name, file) in &state.names {
            copy.set(name, state.files[*file].now.clone());
        }
        copy
    }

    pub(crate) fn names(&self) -> Vec<String> {
        self.lock().names.keys().cloned().collect()
    }

    /// The names of the segments, in order.
    pub(crate) fn segments(&self) -> Vec<String> {
        let names = self.names().into_iter();
        names.filter(|name| name.ends_with(".seg")).collect()
    }

    pub(crate) fn get(&self, name: &str) -> Vec<u8> {
        let state = self.lock();
        state.files[state.names[name]].now.clone()
    }

    pub(crate) fn set(&self, name: &str, bytes: Vec<u8>) {
        let mut state = self.lock();
        let file = state.files.len();
        state.files.push(Contents {
            now: bytes.clone(),
            synced: bytes,
            changes: Vec::new(),
        });
        state.names.insert(name.to_owned(), file);
        state.synced_names.insert(name.to_owned(), file);
    }

    pub(crate) fn take_away(&self, name: &str) {
        let mut state = self.lock();
        state.names.remove(name);
        state.synced_names.remove(name);
    }

    fn file(&self, index: usize) -> MemoryFile {
        MemoryFile {
            disk: self.clone(),
            index,
        }
    }
}

impl Disk for MemoryDisk {
    type File = MemoryFile;

    async fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.alive()?.names.keys().cloned().collect())
    }

    async fn create(&self, name: &str) -> io::Result<MemoryFile> {
        let index = {
            let mut state = self.alive()?;
            if let Some(error) = state.faults.creates {
                return Err(io::Error::from_raw_os_error(error));
            }
            if state.names.contains_key(name) {
                return Err(io::ErrorKind::AlreadyExists.into());
            }
            let index = state.files.len();
            state.files.push(Contents::default());
            state.names.insert(name.to_owned(), index);
            index
        };
        Ok(self.file(index))
    }

    async fn open(&self, name: &str) -> io::Result<MemoryFile> {
        let index = self.alive()?.names.get(name).copied();
        let index = index.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        Ok(self.file(index))
    }

    async fn remove(&self, name: &str) -> io::Result<()> {
        while self.alive()?.faults.removes_hang {
            sleep(Duration::from_millis(1)).await;
        }
        let mut state = self.alive()?;
        if let Some(error) = state.faults.removes {
            return Err(io::Error::from_raw_os_error(error));
        }
        let removed = state.names.remove(name);
        removed
            .map(drop)
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    async fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.alive()?;
        if state.names.contains_key(to) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let file = state.names.remove(from);
        let file = file.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        state.names.insert(to.to_owned(), file);
        Ok(())
    }

    async fn sync_names(&self) -> io::Result<()> {
        let mut state = self.alive()?;
        let state = &mut *state;
        if let Some((left, error)) = state.faults.name_syncs {
            if left == 0 {
                state.faults.name_syncs = None;
                return Err(io::Error::from_raw_os_error(error));
            }
            state.faults.name_syncs = Some((left - 1, error));
        }
        state.synced_names.clone_from(&state.names);
        Ok(())
    }

    async fn displaced(&self, name: &str, file: &MemoryFile) -> io::Result<Option<String>> {
        let state = self.alive()?;
        let is_there = state.names.get(name) == Some(&file.index);
        Ok((!is_there).then(|| name.to_owned()))
    }

    async fn room(&self) -> io::Result<Option<u64>> {
        Ok(self.alive()?.faults.room)
    }

    fn name(&self) -> String {
        "memory".to_owned()
    }
}

#[derive(Clone, Debug)]
pub(crate) struct MemoryFile {
    disk: MemoryDisk,
    index: usize,
}

impl MemoryFile {
    /// Yields from time to time, so that operations overlap.
    async fn rest(&self) {
        let rests = self.disk.lock().random.below(3);
        for _ in 0..rests {
            yield_now().await;
        }
    }

    fn state(&self) -> io::Result<MutexGuard<'_, State>> {
        self.disk.alive()
    }
}

impl CommitFile for MemoryFile {
    async fn write_at(&self, bytes: Bytes, offset: u64) -> io::Result<usize> {
        self.rest().await;
        let mut state = self.state()?;
        let state = &mut *state;
        if let Some((left, error)) = &mut state.faults.writes {
            if *left == 0 {
                return Err(io::Error::from_raw_os_error(*error));
            }
            *left -= 1;
        }
        let mut count = bytes.len();
        if state.faults.short {
            if state.random.below(4) == 0 {
                return Err(io::ErrorKind::Interrupted.into());
            }
            count = 1 + state.random.below(count as u64) as usize;
        }
        if let Some(room) = &mut state.faults.room {
            if *room == 0 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            count = count.min(*room as usize);
            *room -= count as u64;
        }
        let written = bytes[..count].to_vec();
        state.files[self.index].change(Change::Write(offset as usize, written));
        Ok(count)
    }

    async fn sync_data(&self) -> io::Result<()> {
        // As far as it has come when the sync begins: later writes are not covered.
        let changes = self.state()?.files[self.index].changes.len();
        self.rest().await;
        while self.state()?.faults.hangs {
            sleep(Duration::from_millis(1)).await;
        }
        let mut state = self.state()?;
        if let Some((left, error)) = state.faults.syncs {
            if left == 0 {
                // The pages count as clean from now on, though they were not written.
                state.faults.syncs = None;
                state.files[self.index].changes.drain(..changes);
                return Err(io::Error::from_raw_os_error(error));
            }
            state.faults.syncs = Some((left - 1, error));
        }
        // Data that an earlier sync failed to write count as clean, and are not written now.
        let Contents {
            synced,
            changes: all,
            ..
        } = &mut state.files[self.index];
        for change in all.drain(..changes) {
            change.apply(synced);
        }
        state.syncs_done += 1;
        Ok(())
    }

    async fn set_len(&self, len: u64) -> io::Result<()> {
        let mut state = self.state()?;
        state.files[self.index].change(Change::Length(len as usize));
        Ok(())
    }
}

impl DiskFile for MemoryFile {
    async fn read_at(&self, len: usize, offset: u64) -> io::Result<Bytes> {
        let state = self.state()?;
        let bytes = &state.files[self.index].now;
        let begin = (offset as usize).min(bytes.len());
        let end = (begin + len).min(bytes.len());
        // Reads, too, may return less than was asked for.
        let end = if end - begin > 64 {
            end - (end - begin) / 3
        } else {
            end
        };
        Ok(Bytes::copy_from_slice(&bytes[begin..end]))
    }

    async fn size(&self) -> io::Result<u64> {
        Ok(self.state()?.files[self.index].now.len() as u64)
    }
}

/// Appends until a sync fails that makes a record durable, and is none of the upkeep's; how many
/// records were stored before.
pub(crate) async fn append_that_fails(
    client: &Client,
    disk: &MemoryDisk,
    error: i32,
) -> (ClientError, usize) {
    let mut stored = 0;
    loop {
        disk.set_faults(Faults {
            syncs: Some((0, error)),
            ..Faults::default()
        });
        match client.append("lost").await {
            Ok(_) => stored += 1,
            Err(error) => return (error, stored),
        }
    }
}
