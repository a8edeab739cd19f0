//! One measurement: one contender in one cell.

use std::future::Future;
use std::io::{self, SeekFrom, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::fs::{Advice, fadvise};
use tokio::io::{AsyncReadExt, AsyncSeekExt, AsyncWriteExt};

use crate::cell::{Cell, Way, Work};

/// A task's part of the file that the device is to be read from: enough for a measurement.
const DEVICE_PART: u64 = 32 << 20;
/// A task's part of the file that stays in the cache.
const CACHED_PART: u64 = 2 << 20;
const TASKS_MAX: u64 = 32;

#[derive(Clone, Copy)]
pub(crate) enum Contender {
    Evenkeel,
    Tokio,
    /// `spawn_blocking` of Tokio's around what std has.
    ByHand,
}

/// The files, which go away in the end.
pub(crate) struct Files {
    device: PathBuf,
    cached: PathBuf,
}

impl Files {
    pub(crate) fn make(directory: &Path, cells: &[Cell]) -> io::Result<Self> {
        let name = |what| directory.join(format!("vs_tokio_fs-{}-{what}", std::process::id()));
        let files = Self {
            device: name("device"),
            cached: name("cached"),
        };
        if cells.iter().any(|cell| !cell.cached) {
            fill(&files.device, DEVICE_PART * TASKS_MAX)?;
        }
        fill(&files.cached, CACHED_PART * TASKS_MAX)?;
        Ok(files)
    }

    fn path(&self, cell: Cell) -> &Path {
        if cell.cached {
            &self.cached
        } else {
            &self.device
        }
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        for path in [&self.device, &self.cached] {
            let _ = std::fs::remove_file(path);
        }
    }
}

fn fill(path: &Path, length: u64) -> io::Result<()> {
    let mut file = std::fs::File::create(path)?;
    let block = vec![7; 1 << 20];
    for _ in 0..length >> 20 {
        file.write_all(&block)?;
    }
    file.sync_all()
}

/// A task's part of the file, and how long it goes on.
#[derive(Clone, Copy)]
struct Turn {
    cell: Cell,
    begin: u64,
    length: u64,
    until: Instant,
}

impl Turn {
    /// The offset of an operation, if there is time for it.
    fn offset(&self, number: u64) -> Option<u64> {
        let at = number * self.cell.size as u64;
        // What was read once is in the cache.
        let over = !self.cell.cached && self.cell.work == Work::Read && at >= self.length;
        (!over && Instant::now() < self.until).then(|| self.begin + at % self.length)
    }
}

/// Operations per second.
pub(crate) fn measure(
    contender: Contender,
    cell: Cell,
    files: &Files,
    sample: Duration,
) -> io::Result<f64> {
    let path = files.path(cell);
    prepare(path, cell)?;
    match contender {
        Contender::Evenkeel => {
            let runtime = evenkeel::runtime::Runtime::new()?;
            runtime.block_on(async {
                let spawn = |task| {
                    let handle = evenkeel::spawn(task);
                    async move { handle.await.map_err(io::Error::other)? }
                };
                all(cell, path, sample, evenkeel_task, spawn).await
            })
        }
        Contender::Tokio | Contender::ByHand => {
            let runtime = tokio::runtime::Runtime::new()?;
            let spawn = |task| {
                let handle = tokio::spawn(task);
                async move { handle.await.map_err(io::Error::other)? }
            };
            runtime.block_on(async {
                match contender {
                    Contender::ByHand => all(cell, path, sample, by_hand_task, spawn).await,
                    _ => all(cell, path, sample, tokio_task, spawn).await,
                }
            })
        }
    }
}

/// Puts what is to be read into the cache, or out of it.
fn prepare(path: &Path, cell: Cell) -> io::Result<()> {
    let file = std::fs::File::open(path)?;
    file.sync_all()?;
    if cell.cached {
        io::copy(
            &mut io::BufReader::with_capacity(1 << 20, &file),
            &mut io::sink(),
        )?;
    } else {
        fadvise(&file, 0, None, Advice::DontNeed)?;
    }
    Ok(())
}

/// The file as a task has it, on whatever runtime.
fn open(path: &Path, cell: Cell) -> io::Result<std::fs::File> {
    let mut options = std::fs::OpenOptions::new();
    options.read(true).write(cell.work == Work::Write);
    if !cell.cached && cell.work == Work::Write {
        options.custom_flags(libc_dsync());
    }
    let file = options.open(path)?;
    if !cell.cached {
        fadvise(&file, 0, None, Advice::Random)?;
    }
    Ok(file)
}

fn libc_dsync() -> i32 {
    rustix::fs::OFlags::DSYNC.bits().cast_signed()
}

/// Runs all tasks of a cell, each on a file of its own.
async fn all<T, S, J>(
    cell: Cell,
    path: &Path,
    sample: Duration,
    task: fn(std::fs::File, Turn) -> T,
    spawn: S,
) -> io::Result<f64>
where
    S: Fn(T) -> J,
    J: Future<Output = io::Result<u64>>,
{
    let length = if cell.cached {
        CACHED_PART
    } else {
        DEVICE_PART
    };
    let files: Vec<_> = (0..cell.tasks)
        .map(|_| open(path, cell))
        .collect::<io::Result<_>>()?;
    let began = Instant::now();
    let tasks: Vec<J> = (files.into_iter().enumerate())
        .map(|(number, file)| {
            let begin = number as u64 * length;
            let until = began + sample;
            spawn(task(
                file,
                Turn {
                    cell,
                    begin,
                    length,
                    until,
                },
            ))
        })
        .collect();
    let mut operations = 0;
    for task in tasks {
        operations += task.await?;
    }
    Ok(operations as f64 / began.elapsed().as_secs_f64())
}

async fn evenkeel_task(file: std::fs::File, turn: Turn) -> io::Result<u64> {
    let mut file = evenkeel::fs::File::from_std(file)?;
    if turn.cell.way == Way::Sequence {
        return in_sequence(&mut file, turn).await;
    }
    let mut bytes = vec![1; turn.cell.size];
    let mut count = 0;
    while let Some(offset) = turn.offset(count) {
        bytes = match turn.cell.work {
            Work::Read => file.read_exact_at(bytes, offset).await?,
            Work::Write => file.write_all_at(bytes, offset).await?,
        };
        count += 1;
    }
    Ok(count)
}

async fn tokio_task(file: std::fs::File, turn: Turn) -> io::Result<u64> {
    let mut file = tokio::fs::File::from_std(file);
    if turn.cell.way == Way::Sequence {
        return in_sequence(&mut file, turn).await;
    }
    let mut bytes = vec![1; turn.cell.size];
    let mut count = 0;
    while let Some(offset) = turn.offset(count) {
        file.seek(SeekFrom::Start(offset)).await?;
        match turn.cell.work {
            Work::Read => {
                file.read_exact(&mut bytes).await?;
            }
            Work::Write => {
                file.write_all(&bytes).await?;
                file.flush().await?;
            }
        }
        count += 1;
    }
    Ok(count)
}

async fn by_hand_task(file: std::fs::File, turn: Turn) -> io::Result<u64> {
    let file = Arc::new(file);
    let mut bytes = vec![1; turn.cell.size];
    let mut count = 0;
    while let Some(offset) = turn.offset(count) {
        let file = Arc::clone(&file);
        let work = tokio::task::spawn_blocking(move || {
            match turn.cell.work {
                Work::Read => file.read_exact_at(&mut bytes, offset)?,
                Work::Write => file.write_all_at(&bytes, offset)?,
            }
            Ok::<_, io::Error>(bytes)
        });
        bytes = work.await.map_err(io::Error::other)??;
        count += 1;
    }
    Ok(count)
}

/// The same code for both: Tokio's traits.
async fn in_sequence<F>(file: &mut F, turn: Turn) -> io::Result<u64>
where
    F: AsyncReadExt + AsyncWriteExt + AsyncSeekExt + Unpin,
{
    let mut bytes = vec![1; turn.cell.size];
    let mut count = 0;
    file.seek(SeekFrom::Start(turn.begin)).await?;
    while let Some(offset) = turn.offset(count) {
        // Round again, at the end of the part.
        if count > 0 && offset == turn.begin {
            file.seek(SeekFrom::Start(offset)).await?;
        }
        match turn.cell.work {
            Work::Read => {
                file.read_exact(&mut bytes).await?;
            }
            Work::Write => file.write_all(&bytes).await?,
        }
        count += 1;
    }
    file.flush().await?;
    Ok(count)
}
