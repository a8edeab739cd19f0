//! Named cursors: where consumers are, in a file beside the segments.
//!
//! All integers are little-endian.
//!
//! ```text
//! slot, at the offsets 0 and 131072             cursor
//!  0  8  "EKTXCUR" and a zero                    0  8  epoch of the log
//!  8  4  version, 1                              8  8  number of the record to be read next
//! 12  4  the log's id                           16  1  length of its name
//! 16  8  serial number                          17     its name
//! 24  4  number of cursors
//! 28  4  bytes of all cursors
//! 32  4  crc of these
//! 36  4  crc of the bytes 0 to 35
//! 40     the cursors, by their names in order
//! ```
//!
//! A change writes all cursors into the slot that does not count, and syncs it; then that one
//! counts, as it has the greater serial number. So a crash at any byte leaves the cursors as they
//! were, or as they are to be. Changes that come during a sync share the next one.
//!
//! The file gets its name when both slots are on the disk. So if neither is valid, that is damage,
//! and no crash. A newer slot that was damaged later looks like a torn write: the cursors are then
//! as they were one change before, and some records are read twice.
//!
//! Nothing else depends on the file: with a damaged one, records are appended and read as ever. It
//! is read when the first cursor is asked for, or by the log's maintenance before that. Copies of a
//! log have none, since a restored log has another epoch, in which they would mean nothing.
//! Releases before this one call the file foreign, and refuse the directory until it is moved away.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use evenkeel::fs::{CommitFile, write_all_at};
use txlog_client::frame::{NAME_BYTES_MAX, is_name};

use super::mark::{MARK_NAME, MarkDefect, MarkFile};
use super::scan::Window;
use super::{Disk, DiskFile, LogError, Shared, lag};
use crate::figures::ConsumerFigures;

/// The name of the file.
pub const CURSORS_NAME: &str = "CURSORS";

/// Its name while it is made.
pub(super) const NEW_NAME: &str = "CURSORS.new";

/// How many named cursors a log may have.
pub const CURSORS_MAX: usize = 1_024;

/// The offsets of the slots. All cursors that there may be fit between them.
pub const CURSOR_SLOTS_AT: [u64; 2] = [0, 128 * 1024];

const HEAD_BYTES: usize = 40;
const CURSOR_BYTES: usize = 17;
const CURSORS_BYTES_MAX: usize = CURSORS_MAX * (CURSOR_BYTES + NAME_BYTES_MAX);
const _: () = assert!(HEAD_BYTES + CURSORS_BYTES_MAX <= CURSOR_SLOTS_AT[1] as usize);

const MAGIC: [u8; 8] = *b"EKTXCUR\0";
const VERSION: u32 = 1;

/// Where a consumer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The log's epoch when it was there.
    pub epoch: u64,
    /// The number of the record to be read next.
    pub sequence: u64,
}

/// Names and places.
pub type Places = BTreeMap<String, Place>;

/// All cursors as a slot with this serial number.
pub fn encode_cursors(log_id: u32, serial: u64, places: &Places) -> Bytes {
    let mut cursors = BytesMut::new();
    for (name, place) in places {
        cursors.put_u64_le(place.epoch);
        cursors.put_u64_le(place.sequence);
        cursors.put_u8(name.len() as u8);
        cursors.put_slice(name.as_bytes());
    }
    let mut buffer = BytesMut::with_capacity(HEAD_BYTES + cursors.len());
    buffer.put_slice(&MAGIC);
    buffer.put_u32_le(VERSION);
    buffer.put_u32_le(log_id);
    buffer.put_u64_le(serial);
    buffer.put_u32_le(places.len() as u32);
    buffer.put_u32_le(cursors.len() as u32);
    buffer.put_u32_le(crc32fast::hash(&cursors));
    let crc = crc32fast::hash(&buffer);
    buffer.put_u32_le(crc);
    buffer.put_slice(&cursors);
    buffer.freeze()
}

/// Decodes a slot; returns its cursors and its serial number.
///
/// # Errors
///
/// [`MarkDefect`]: the slot is damaged, of a later version, or of another log.
pub fn decode_cursors(bytes: &[u8], log_id: u32) -> Result<(Places, u64), MarkDefect> {
    let Some((mut head, rest)) = bytes.split_at_checked(HEAD_BYTES) else {
        return Err(MarkDefect::Damaged);
    };
    let crc = crc32fast::hash(&head[..HEAD_BYTES - 4]);
    if head[HEAD_BYTES - 4..] != crc.to_le_bytes() || head[..MAGIC.len()] != MAGIC {
        return Err(MarkDefect::Damaged);
    }
    head.advance(MAGIC.len());
    if head.get_u32_le() != VERSION {
        return Err(MarkDefect::Newer);
    }
    let (of, serial) = (head.get_u32_le(), head.get_u64_le());
    let (count, length, crc) = (head.get_u32_le(), head.get_u32_le(), head.get_u32_le());
    let mut rest = rest.get(..length as usize).ok_or(MarkDefect::Damaged)?;
    if crc32fast::hash(rest) != crc {
        return Err(MarkDefect::Damaged);
    }
    if of != log_id {
        return Err(MarkDefect::OtherLog);
    }
    let mut places = Places::new();
    for _ in 0..count {
        if rest.len() < CURSOR_BYTES {
            return Err(MarkDefect::Damaged);
        }
        let place = Place {
            epoch: rest.get_u64_le(),
            sequence: rest.get_u64_le(),
        };
        let length = rest.get_u8().into();
        let name = rest.get(..length).ok_or(MarkDefect::Damaged)?;
        let name = std::str::from_utf8(name).map_err(|_| MarkDefect::Damaged)?;
        rest.advance(length);
        if !is_name(name) || places.insert(name.to_owned(), place).is_some() {
            return Err(MarkDefect::Damaged);
        }
    }
    match rest.is_empty() {
        true => Ok((places, serial)),
        false => Err(MarkDefect::Damaged),
    }
}

/// The error of a file that was moved away while the log was open.
const MISSING: LogError = LogError::Cursors {
    defect: MarkDefect::Missing,
};

/// The cursors of an open log.
#[derive(Debug)]
pub(super) struct Cursors<F> {
    /// Who has it locked reads or writes the file. It is locked before the table.
    file: tokio::sync::Mutex<Option<CursorFile<F>>>,
    table: Mutex<Table>,
}

/// While this is there, no cursor gets to the disk.
pub(super) struct Held<'a, F> {
    _file: tokio::sync::MutexGuard<'a, Option<CursorFile<F>>>,
}

#[derive(Debug)]
struct CursorFile<F> {
    /// `None` as long as there never was a cursor.
    file: Option<F>,
    /// Whether its making was begun, and may have come as far as to its name.
    is_begun: bool,
    /// Of the slot that counts.
    serial: u64,
    /// Whether that slot is known to be on the disk, and not only in the system's memory.
    is_settled: bool,
    /// All changes up to this one are on the disk,
    written: u64,
    /// except those up to this one, which had not been written when the file was read.
    read_at: u64,
}

#[derive(Debug, Default)]
struct Table {
    /// Whether these are those of the file.
    is_read: bool,
    /// Whether the file could not be read when that was last tried.
    is_unreadable: bool,
    /// As they are on the disk.
    durable: Places,
    /// As they are to be.
    wanted: Places,
    /// Counts changes.
    changes: u64,
}

impl<F> Default for Cursors<F> {
    fn default() -> Self {
        Self {
            file: tokio::sync::Mutex::new(None),
            table: Mutex::default(),
        }
    }
}

impl<F: DiskFile> Cursors<F> {
    /// All cursors, as they are on the disk.
    pub(super) async fn all<D: Disk<File = F>>(
        &self,
        shared: &Shared<D>,
    ) -> Result<Places, LogError> {
        self.load(&mut *self.file.lock().await, shared).await?;
        Ok(self.table().durable.clone())
    }

    /// Keeps the cursors on the disk as they are while this is held. They are the first of these;
    /// the second ones are as they are to be, by changes that are not written yet.
    pub(super) async fn hold<D: Disk<File = F>>(
        &self,
        shared: &Shared<D>,
    ) -> Result<(Held<'_, F>, [Places; 2]), LogError> {
        let mut file = self.file.lock().await;
        self.load(&mut file, shared).await?;
        let table = self.table();
        let places = [table.durable.clone(), table.wanted.clone()];
        Ok((Held { _file: file }, places))
    }

    /// Reads the file for the figures, until that was done. A file that cannot be read is no error
    /// here, as consumers are told, and the figures.
    pub(super) async fn look<D: Disk<File = F>>(&self, shared: &Shared<D>) {
        if !self.table().is_read {
            let _ = self.load(&mut *self.file.lock().await, shared).await;
        }
    }

    /// Where consumers are, for metrics, if the file was read; and whether it cannot be, if that
    /// was tried.
    pub(super) fn figures(
        &self,
        epoch: u64,
        bounds: (u64, u64),
    ) -> (Option<ConsumerFigures>, Option<bool>) {
        let table = self.table();
        let figures = || lag::figures(&table.durable, epoch, bounds);
        let is_tried = table.is_read || table.is_unreadable;
        (
            table.is_read.then(figures),
            is_tried.then_some(table.is_unreadable),
        )
    }

    /// Where this one is, on the disk.
    pub(super) async fn place<D: Disk<File = F>>(
        &self,
        shared: &Shared<D>,
        name: &str,
    ) -> Result<Option<Place>, LogError> {
        self.load(&mut *self.file.lock().await, shared).await?;
        Ok(self.table().durable.get(name).copied())
    }

    /// Puts a cursor there, or removes it; returns when that is durable.
    pub(super) async fn put<D: Disk<File = F>>(
        &self,
        shared: &Shared<D>,
        name: &str,
        place: Option<Place>,
    ) -> Result<(), LogError> {
        shared.halted().map_or(Ok(()), Err)?;
        self.load(&mut *self.file.lock().await, shared).await?;
        let Some(change) = self.table().change(name, place)? else {
            return Ok(());
        };
        // Those who wait here are written by the first of them.
        let mut guard = self.file.lock().await;
        let file = self.load(&mut guard, shared).await?;
        if change <= file.read_at {
            // It was moved away meanwhile.
            return Err(MISSING);
        }
        if file.written >= change {
            return Ok(());
        }
        let (places, changes) = {
            let table = self.table();
            (table.wanted.clone(), table.changes)
        };
        let failed = LogError::io("write", CURSORS_NAME);
        let is_there = file.write(&shared.disk, shared.log_id, &places).await;
        if !is_there.map_err(failed)? {
            // Somebody has moved it away: what it says counts no more.
            *guard = None;
            self.table().is_read = false;
            return Err(MISSING);
        }
        file.written = changes;
        self.table().durable = places;
        Ok(())
    }

    /// Reads the file, unless that was done before.
    async fn load<'a, D: Disk<File = F>>(
        &self,
        file: &'a mut Option<CursorFile<F>>,
        shared: &Shared<D>,
    ) -> Result<&'a mut CursorFile<F>, LogError> {
        if file.is_none() {
            let read = read(&shared.disk, shared.log_id).await;
            let mut table = self.table();
            (table.is_read, table.is_unreadable) = (read.is_ok(), read.is_err());
            let (read, places) = read?;
            table.durable.clone_from(&places);
            table.wanted = places;
            *file = Some(CursorFile {
                written: table.changes,
                read_at: table.changes,
                ..read
            });
        }
        Ok(file.as_mut().expect("it was put there"))
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    /// Notes a change; `None` if it changes nothing.
    fn change(&mut self, name: &str, place: Option<Place>) -> Result<Option<u64>, LogError> {
        let as_it_is = |places: &Places| places.get(name).copied() == place;
        if as_it_is(&self.wanted) && as_it_is(&self.durable) {
            return Ok(None);
        }
        match place {
            Some(_) if !self.wanted.contains_key(name) && self.wanted.len() >= CURSORS_MAX => {
                return Err(LogError::TooManyCursors { count: CURSORS_MAX });
            }
            Some(place) => drop(self.wanted.insert(name.to_owned(), place)),
            None => drop(self.wanted.remove(name)),
        }
        self.changes += 1;
        Ok(Some(self.changes))
    }
}

impl<F: DiskFile> CursorFile<F> {
    /// Writes all cursors. False if the file is no longer where it was.
    async fn write<D: Disk<File = F>>(
        &mut self,
        disk: &D,
        log_id: u32,
        places: &Places,
    ) -> io::Result<bool> {
        let Some(file) = &self.file else {
            let is_again = std::mem::replace(&mut self.is_begun, true);
            self.file = Some(create(disk, log_id, places, is_again).await?);
            (self.serial, self.is_settled) = (1, true);
            return Ok(true);
        };
        if !self.is_settled {
            // After a failed sync, the slot that counts may be only in the system's memory, and the
            // other one is to be overwritten.
            let at = CURSOR_SLOTS_AT[(self.serial % 2) as usize];
            let slot = read_slot(file, at).await?;
            write_all_at(file, slot, at).await?;
            file.sync_data().await?;
            self.is_settled = true;
        }
        let serial = self.serial + 1;
        // If this fails or is dropped, the next one goes into the same slot, and the other stays.
        put(file, log_id, serial, places).await?;
        self.serial = serial;
        Ok(disk.displaced(CURSORS_NAME, file).await?.is_none())
    }
}

/// Makes the file, so that it has its name only when all of it is there. If it was begun before,
/// and failed or was dropped, what is there has no cursor that was acknowledged.
async fn create<D: Disk>(
    disk: &D,
    log_id: u32,
    places: &Places,
    is_again: bool,
) -> io::Result<D::File> {
    let left = [Some(NEW_NAME), is_again.then_some(CURSORS_NAME)];
    for name in left.into_iter().flatten() {
        match disk.remove(name).await {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    let file = disk.create(NEW_NAME).await?;
    for serial in [0, 1] {
        put(&file, log_id, serial, places).await?;
    }
    disk.rename(NEW_NAME, CURSORS_NAME).await?;
    disk.sync_names().await?;
    Ok(file)
}

async fn put<F: CommitFile>(file: &F, log_id: u32, serial: u64, places: &Places) -> io::Result<()> {
    let at = CURSOR_SLOTS_AT[(serial % 2) as usize];
    write_all_at(file, encode_cursors(log_id, serial, places), at).await?;
    file.sync_data().await
}

async fn read_slot<F: DiskFile>(file: &F, at: u64) -> io::Result<Bytes> {
    let bytes = HEAD_BYTES + CURSORS_BYTES_MAX;
    Window::with_bytes(file, at, bytes).at(at, bytes).await
}

/// Reads the cursors of a log.
///
/// # Errors
///
/// [`LogError::Cursors`], [`LogError::Io`].
async fn read<D: Disk>(disk: &D, log_id: u32) -> Result<(CursorFile<D::File>, Places), LogError> {
    let failed = LogError::io("read", CURSORS_NAME);
    let mut found = CursorFile {
        file: None,
        is_begun: false,
        serial: 0,
        is_settled: false,
        written: 0,
        read_at: 0,
    };
    let file = match disk.open(CURSORS_NAME).await {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok((found, Places::new())),
        opened => opened.map_err(&failed)?,
    };
    let mut best: Result<(Places, u64), MarkDefect> = Err(MarkDefect::Damaged);
    for at in CURSOR_SLOTS_AT {
        let bytes = read_slot(&file, at).await.map_err(&failed)?;
        best = match (best, decode_cursors(&bytes, log_id)) {
            // Whatever else there is: a later version may have gone on from it.
            (Err(MarkDefect::Newer), _) | (_, Err(MarkDefect::Newer)) => Err(MarkDefect::Newer),
            (best @ Ok(_), Err(_)) => best,
            (Ok(best), Ok(slot)) if best.1 > slot.1 => Ok(best),
            (Err(defect @ MarkDefect::OtherLog), Err(_)) => Err(defect),
            (_, slot) => slot,
        };
    }
    let (places, serial) = best.map_err(|defect| LogError::Cursors { defect })?;
    (found.file, found.serial) = (Some(file), serial);
    Ok((found, places))
}

/// The cursors of a log that no server has.
pub(super) async fn places_of<D: Disk>(disk: &D, log_id: u32) -> Result<Places, LogError> {
    Ok(read(disk, log_id).await?.1)
}

/// Reads the cursors of a log that a server may have open, and returns how many there are.
///
/// # Errors
///
/// [`LogError::Cursors`], [`LogError::Io`].
pub async fn count_cursors<D: Disk>(disk: &D) -> Result<usize, LogError> {
    let mark = MarkFile::read(disk).await;
    match mark.map_err(LogError::io("read", MARK_NAME))? {
        Some(Ok(mark)) => Ok(read(disk, mark.last().log_id).await?.1.len()),
        // Without a mark it is an old log, or one that has other troubles.
        _ => Ok(0),
    }
}
