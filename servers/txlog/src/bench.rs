//! Durable appends per second within one process, beside one sync for each record.

use std::fs;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use evenkeel::fs::{CommitFile, File};
use evenkeel::runtime::Runtime;
use evenkeel::task::JoinSet;

use crate::log::{Disk, DiskFile, LocalDisk, Log, LogConfig, LogError};

/// How long the runtime of a turn has to end.
const SHUTDOWN_MAX: Duration = Duration::from_secs(5);

/// What is to be measured.
#[derive(Clone, Debug)]
pub struct Bench {
    /// A directory on the disk to measure. Each turn removes what it has made there.
    pub directory: PathBuf,
    /// How many tasks append at a time, each one record after the other.
    pub appenders: usize,
    /// The size of a record.
    pub record_bytes: usize,
    /// How long a turn takes.
    pub length: Duration,
    /// How many bytes the log makes its file longer at a time.
    pub ahead_bytes: u64,
}

/// What one turn came to.
#[derive(Clone, Debug)]
pub struct Turn {
    /// Records that were made durable.
    pub appends: usize,
    /// How long that took.
    pub seconds: f64,
    /// How long each append took, in order of size.
    pub latencies: Vec<Duration>,
    /// How long each sync took, in order of size.
    pub syncs: Vec<Duration>,
}

impl Turn {
    fn new(began: Instant, mut latencies: Vec<Duration>, mut syncs: Vec<Duration>) -> Self {
        let seconds = began.elapsed().as_secs_f64();
        latencies.sort_unstable();
        syncs.sort_unstable();
        Self {
            appends: latencies.len(),
            seconds,
            latencies,
            syncs,
        }
    }

    /// Durable appends per second.
    pub fn per_second(&self) -> f64 {
        self.appends as f64 / self.seconds
    }
}

/// What so many percent of `sorted` do not exceed; nothing of nothing.
pub fn percentile(sorted: &[Duration], percent: usize) -> Duration {
    let at = (sorted.len() * percent / 100).min(sorted.len().saturating_sub(1));
    sorted.get(at).copied().unwrap_or_default()
}

/// One thread that writes a record and syncs it, again and again: the most that can be had with a
/// sync for each.
///
/// # Errors
///
/// Those of the file.
pub fn one_by_one(bench: &Bench) -> io::Result<Turn> {
    let path = bench.directory.join("single");
    let file = fs::File::create(&path)?;
    let record = vec![b'x'; bench.record_bytes];
    let (mut latencies, mut offset) = (Vec::new(), 0);
    let (began, length) = (Instant::now(), bench.length);
    while began.elapsed() < length {
        let at = Instant::now();
        file.write_all_at(&record, offset)?;
        file.sync_data()?;
        offset += record.len() as u64;
        latencies.push(at.elapsed());
    }
    let turn = Turn::new(began, latencies.clone(), latencies);
    fs::remove_file(&path)?;
    Ok(turn)
}

/// Tasks that append to one log, on a runtime of their own.
///
/// # Errors
///
/// Those of the runtime, of the directory and of the log.
pub fn together(bench: &Bench) -> Result<Turn, Box<dyn std::error::Error + Send + Sync>> {
    let directory = bench.directory.join("log");
    let runtime = Runtime::new()?;
    let turn = runtime.block_on(append_all(&directory, bench));
    let ended = runtime.shutdown(SHUTDOWN_MAX);
    fs::remove_dir_all(&directory)?;
    ended?;
    turn
}

async fn append_all(
    directory: &Path,
    bench: &Bench,
) -> Result<Turn, Box<dyn std::error::Error + Send + Sync>> {
    let syncs = Syncs::default();
    let disk = Timed {
        inner: LocalDisk::hold(directory).await?,
        syncs: syncs.clone(),
    };
    let config = LogConfig {
        ahead_bytes: bench.ahead_bytes,
        ..LogConfig::default()
    };
    let (log, _) = Log::open(disk, config).await?;
    let record = Bytes::from(vec![b'x'; bench.record_bytes]);
    syncs.take();
    let (began, length) = (Instant::now(), bench.length);
    let mut tasks = JoinSet::new();
    for _ in 0..bench.appenders {
        let (log, record) = (log.clone(), record.clone());
        tasks.spawn(async move {
            let mut latencies = Vec::new();
            while began.elapsed() < length {
                let at = Instant::now();
                log.append(record.clone()).await?;
                latencies.push(at.elapsed());
            }
            Ok::<_, LogError>(latencies)
        });
    }
    let mut latencies = Vec::new();
    while let Some(task) = tasks.join_next().await {
        latencies.extend(task??);
    }
    let turn = Turn::new(began, latencies, syncs.take());
    log.close().await?;
    Ok(turn)
}

/// How long syncs took.
#[derive(Clone, Default)]
struct Syncs(Arc<Mutex<Vec<Duration>>>);

impl Syncs {
    fn take(&self) -> Vec<Duration> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A directory, or a file, whose syncs are timed.
#[derive(Clone)]
struct Timed<T> {
    inner: T,
    syncs: Syncs,
}

impl<T> Timed<T> {
    fn with<U>(&self, inner: U) -> Timed<U> {
        let syncs = self.syncs.clone();
        Timed { inner, syncs }
    }
}

impl Disk for Timed<LocalDisk> {
    type File = Timed<File>;

    async fn list(&self) -> io::Result<Vec<String>> {
        self.inner.list().await
    }

    async fn create(&self, name: &str) -> io::Result<Self::File> {
        Ok(self.with(self.inner.create(name).await?))
    }

    async fn open(&self, name: &str) -> io::Result<Self::File> {
        Ok(self.with(self.inner.open(name).await?))
    }

    async fn remove(&self, name: &str) -> io::Result<()> {
        self.inner.remove(name).await
    }

    async fn sync_names(&self) -> io::Result<()> {
        self.inner.sync_names().await
    }

    fn name(&self) -> String {
        self.inner.name()
    }
}

impl CommitFile for Timed<File> {
    async fn write_at(&self, bytes: Bytes, offset: u64) -> io::Result<usize> {
        CommitFile::write_at(&self.inner, bytes, offset).await
    }

    async fn sync_data(&self) -> io::Result<()> {
        let began = Instant::now();
        self.inner.sync_data().await?;
        let mut syncs = self.syncs.0.lock().unwrap_or_else(PoisonError::into_inner);
        syncs.push(began.elapsed());
        Ok(())
    }

    async fn set_len(&self, len: u64) -> io::Result<()> {
        self.inner.set_len(len).await
    }
}

impl DiskFile for Timed<File> {
    async fn read_at(&self, len: usize, offset: u64) -> io::Result<Bytes> {
        DiskFile::read_at(&self.inner, len, offset).await
    }

    async fn size(&self) -> io::Result<u64> {
        DiskFile::size(&self.inner).await
    }
}
