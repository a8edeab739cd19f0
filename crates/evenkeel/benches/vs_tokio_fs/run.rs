//! One measurement: one contender in one cell.

use std::future::Future;
use std::io::{self, SeekFrom, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::pin::Pin;
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
    /// Evenkeel with threads alone.
    NoRing,
}

impl Contender {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Evenkeel => "evenkeel",
            Self::Tokio => "tokio",
            Self::ByHand => "by hand",
            Self::NoRing => "no ring",
        }
    }
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

/// What a runtime runs: how many operations there were.
type Task = Pin<Box<dyn Future<Output = io::Result<u64>> + Send>>;

/// A task's part of the file, and how long it goes on.
#[derive(Clone, Copy)]
struct Part {
    cell: Cell,
    begin: u64,
    length: u64,
    until: Instant,
}

impl Part {
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
    let files = |_| open(path, cell);
    let files: Vec<_> = (0..cell.tasks).map(files).collect::<io::Result<_>>()?;
    match contender {
        Contender::Evenkeel | Contender::NoRing => {
            let ring = matches!(contender, Contender::Evenkeel);
            let runtime = evenkeel::runtime::Builder::new().disk_ring(ring).build()?;
            let spawn = |task| -> Task {
                let handle = evenkeel::spawn(task);
                Box::pin(async move { handle.await.map_err(io::Error::other)? })
            };
            runtime.block_on(all(contender, cell, files, sample, spawn))
        }
        Contender::Tokio | Contender::ByHand => {
            let runtime = tokio::runtime::Runtime::new()?;
            let spawn = |task| -> Task {
                let handle = tokio::spawn(task);
                Box::pin(async move { handle.await.map_err(io::Error::other)? })
            };
            runtime.block_on(all(contender, cell, files, sample, spawn))
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
async fn all(
    contender: Contender,
    cell: Cell,
    files: Vec<std::fs::File>,
    sample: Duration,
    spawn: impl Fn(Task) -> Task,
) -> io::Result<f64> {
    let length = if cell.cached {
        CACHED_PART
    } else {
        DEVICE_PART
    };
    let began = Instant::now();
    let tasks: Vec<Task> = (files.into_iter().zip(0..))
        .map(|(file, number)| {
            let part = Part {
                cell,
                begin: number * length,
                length,
                until: began + sample,
            };
            spawn(match contender {
                Contender::Evenkeel | Contender::NoRing => Box::pin(evenkeel_task(file, part)),
                Contender::Tokio => Box::pin(tokio_task(file, part)),
                Contender::ByHand => Box::pin(by_hand_task(file, part)),
            })
        })
        .collect();
    let mut operations = 0;
    for task in tasks {
        operations += task.await?;
    }
    Ok(operations as f64 / began.elapsed().as_secs_f64())
}

async fn evenkeel_task(file: std::fs::File, part: Part) -> io::Result<u64> {
    let mut file = evenkeel::fs::File::from_std(file)?;
    if part.cell.way == Way::Sequence {
        return in_sequence(&mut file, part).await;
    }
    let mut bytes = vec![1; part.cell.size];
    let mut count = 0;
    while let Some(offset) = part.offset(count) {
        bytes = match part.cell.work {
            Work::Read => file.read_exact_at(bytes, offset).await?,
            Work::Write => file.write_all_at(bytes, offset).await?,
        };
        count += 1;
    }
    Ok(count)
}

async fn tokio_task(file: std::fs::File, part: Part) -> io::Result<u64> {
    let mut file = tokio::fs::File::from_std(file);
    if part.cell.way == Way::Sequence {
        return in_sequence(&mut file, part).await;
    }
    let mut bytes = vec![1; part.cell.size];
    let mut count = 0;
    while let Some(offset) = part.offset(count) {
        file.seek(SeekFrom::Start(offset)).await?;
        match part.cell.work {
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

async fn by_hand_task(file: std::fs::File, part: Part) -> io::Result<u64> {
    let file = Arc::new(file);
    let mut bytes = vec![1; part.cell.size];
    let mut count = 0;
    while let Some(offset) = part.offset(count) {
        let file = Arc::clone(&file);
        let work = tokio::task::spawn_blocking(move || {
            match part.cell.work {
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
async fn in_sequence<F>(file: &mut F, part: Part) -> io::Result<u64>
where
    F: AsyncReadExt + AsyncWriteExt + AsyncSeekExt + Unpin,
{
    let mut bytes = vec![1; part.cell.size];
    let mut count = 0;
    file.seek(SeekFrom::Start(part.begin)).await?;
    while let Some(offset) = part.offset(count) {
        // Round again, at the end of the part.
        if count > 0 && offset == part.begin {
            file.seek(SeekFrom::Start(offset)).await?;
        }
        match part.cell.work {
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
