//! Durable appends per second within one process, beside one sync for each record; and over TCP.

#[cfg(feature = "nats")]
pub mod jetstream;
pub mod over_tcp;
pub mod process;

use std::fs;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use evenkeel::fs::{CommitFile, File};
use evenkeel::runtime::Runtime;
use evenkeel::task::JoinSet;
pub use evenkeel_measure::latency::Latencies;
use evenkeel_measure::latency::SharedLatencies;

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
#[derive(Debug)]
pub struct Turn {
    /// Records that were made durable.
    pub appends: u64,
    /// How long that took.
    pub seconds: f64,
    /// How long each append took.
    pub latencies: Latencies,
    /// How long each sync took.
    pub syncs: Latencies,
}

impl Turn {
    fn new(began: Instant, latencies: Latencies, syncs: Latencies) -> Self {
        Self {
            appends: latencies.len(),
            seconds: began.elapsed().as_secs_f64(),
            latencies,
            syncs,
        }
    }

    /// Durable appends per second.
    pub fn per_second(&self) -> f64 {
        self.appends as f64 / self.seconds
    }
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
    let turn = write_and_sync(&file, bench);
    fs::remove_file(&path)?;
    turn
}

fn write_and_sync(file: &fs::File, bench: &Bench) -> io::Result<Turn> {
    let record = vec![b'x'; bench.record_bytes];
    let (mut took, mut offset) = (Latencies::new(), 0);
    let (began, length) = (Instant::now(), bench.length);
    while began.elapsed() < length {
        let at = Instant::now();
        file.write_all_at(&record, offset)?;
        file.sync_data()?;
        offset += record.len() as u64;
        took.record(at.elapsed());
    }
    Ok(Turn::new(began, took.clone(), took))
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
    let removed = fs::remove_dir_all(&directory);
    // Why it failed says more than that nothing was there to be removed.
    let turn = turn?;
    ended?;
    removed?;
    Ok(turn)
}

async fn append_all(
    directory: &Path,
    bench: &Bench,
) -> Result<Turn, Box<dyn std::error::Error + Send + Sync>> {
    // Both are there from the beginning. A list for each appender, which grows, would be moved and
    // faulted in for all of them in the same moment, as they have appended equally often; and all
    // would wait for that.
    let latencies = Arc::<SharedLatencies>::default();
    let syncs = Arc::<SharedLatencies>::default();
    let disk = Timed {
        inner: LocalDisk::hold(directory).await?,
        syncs: Arc::clone(&syncs),
    };
    let config = LogConfig {
        ahead_bytes: bench.ahead_bytes,
        ..LogConfig::default()
    };
    let (log, _) = Log::open(disk, config).await?;
    // Those of opening do not count.
    drop(syncs.take());
    let (began, length) = (Instant::now(), bench.length);
    let mut tasks = JoinSet::new();
    for _ in 0..bench.appenders {
        let (log, latencies) = (log.clone(), Arc::clone(&latencies));
        let record = Bytes::from(vec![b'x'; bench.record_bytes]);
        tasks.spawn(async move {
            // One reading of the clock for each append, which all of them pay for.
            let mut at = Instant::now();
            while at.duration_since(began) < length {
                log.append(record.clone()).await?;
                let now = Instant::now();
                latencies.record(now.duration_since(at));
                at = now;
            }
            Ok::<_, LogError>(())
        });
    }
    while let Some(task) = tasks.join_next().await {
        task??;
    }
    let turn = Turn::new(began, latencies.take(), syncs.take());
    log.close().await?;
    Ok(turn)
}

/// A directory, or a file, whose syncs are timed.
#[derive(Clone)]
struct Timed<T> {
    inner: T,
    syncs: Arc<SharedLatencies>,
}

impl<T> Timed<T> {
    fn with<U>(&self, inner: U) -> Timed<U> {
        let syncs = Arc::clone(&self.syncs);
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

    async fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.inner.rename(from, to).await
    }

    async fn sync_names(&self) -> io::Result<()> {
        self.inner.sync_names().await
    }

    async fn displaced(&self, name: &str, file: &Self::File) -> io::Result<Option<String>> {
        self.inner.displaced(name, &file.inner).await
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
        self.syncs.record(began.elapsed());
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
