//! `txlog bench`: durable appends per second, beside one sync per record.

use std::fs;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use evenkeel::fs::{CommitFile, File};
use evenkeel::runtime::Runtime;
use evenkeel::task::JoinSet;
use txlog::log::{Disk, DiskFile, LocalDisk, Log, LogConfig};

use super::{BenchArguments, Outcome, SHUTDOWN_MAX};

/// What one turn came to.
struct Turn {
    appends: usize,
    seconds: f64,
    /// How long each append took, in order of size.
    latencies: Vec<Duration>,
    /// How long each sync took, in order of size.
    syncs: Vec<Duration>,
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

    fn per_second(&self) -> f64 {
        self.appends as f64 / self.seconds
    }

    fn print(&self, name: &str) {
        println!(
            "{name:<16}{:>12.0}{:>11.3}{:>11.3}{:>11.3}{:>12.1}",
            self.per_second(),
            ms(percentile(&self.latencies, 50)),
            ms(percentile(&self.latencies, 99)),
            ms(percentile(&self.syncs, 50)),
            self.appends as f64 / self.syncs.len().max(1) as f64,
        );
    }
}

fn percentile(sorted: &[Duration], percent: usize) -> Duration {
    let at = (sorted.len() * percent / 100).min(sorted.len().saturating_sub(1));
    sorted.get(at).copied().unwrap_or_default()
}

fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

pub(crate) fn run(arguments: &BenchArguments) -> Outcome {
    let made = !arguments.dir.exists();
    fs::create_dir_all(&arguments.dir)?;
    if fs::read_dir(&arguments.dir)?.next().is_some() {
        return Err(format!("{} is not empty", arguments.dir.display()).into());
    }
    println!(
        "{:<16}{:>12}{:>11}{:>11}{:>11}{:>12}",
        "", "appends/s", "p50 ms", "p99 ms", "sync ms", "per sync"
    );
    let mut ratios = Vec::new();
    let mut in_syncs = Vec::new();
    for _ in 0..arguments.rounds.max(1) {
        let single = one_by_one(arguments)?;
        single.print("sync each");
        let grouped = together(arguments)?;
        grouped.print("txlog");
        ratios.push(grouped.per_second() / single.per_second());
        let sync = percentile(&grouped.syncs, 50).as_secs_f64();
        in_syncs.push(percentile(&grouped.latencies, 99).as_secs_f64() / sync);
    }
    println!(
        "{} appenders: {} times the appends of one sync each; p99 takes {} syncs",
        arguments.appenders,
        listed(&ratios),
        listed(&in_syncs),
    );
    if made {
        fs::remove_dir(&arguments.dir)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn listed(figures: &[f64]) -> String {
    let texts: Vec<String> = figures
        .iter()
        .map(|figure| format!("{figure:.1}"))
        .collect();
    texts.join(", ")
}

/// One thread that writes a record and syncs it, again and again: the most that can be had with a
/// sync for each.
fn one_by_one(arguments: &BenchArguments) -> io::Result<Turn> {
    let path = arguments.dir.join("single");
    let file = fs::File::create(&path)?;
    let record = vec![b'x'; arguments.record_bytes];
    let (mut latencies, mut offset) = (Vec::new(), 0);
    let (began, length) = (Instant::now(), Duration::from_secs_f64(arguments.seconds));
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

/// Tasks that append to one log.
fn together(arguments: &BenchArguments) -> Result<Turn, Box<dyn std::error::Error + Send + Sync>> {
    let directory = arguments.dir.join("log");
    let runtime = Runtime::new()?;
    let turn = runtime.block_on(append_all(&directory, arguments));
    let ended = runtime.shutdown(SHUTDOWN_MAX);
    fs::remove_dir_all(&directory)?;
    ended?;
    turn
}

async fn append_all(
    directory: &Path,
    arguments: &BenchArguments,
) -> Result<Turn, Box<dyn std::error::Error + Send + Sync>> {
    let syncs = Syncs::default();
    let disk = Timed {
        inner: LocalDisk::hold(directory).await?,
        syncs: syncs.clone(),
    };
    let config = LogConfig {
        ahead_bytes: arguments.ahead_bytes,
        ..LogConfig::default()
    };
    let (log, _) = Log::open(disk, config).await?;
    let record = Bytes::from(vec![b'x'; arguments.record_bytes]);
    syncs.take();
    let (began, length) = (Instant::now(), Duration::from_secs_f64(arguments.seconds));
    let mut tasks = JoinSet::new();
    for _ in 0..arguments.appenders {
        let (log, record) = (log.clone(), record.clone());
        tasks.spawn(async move {
            let mut latencies = Vec::new();
            while began.elapsed() < length {
                let at = Instant::now();
                log.append(record.clone()).await?;
                latencies.push(at.elapsed());
            }
            Ok::<_, txlog::log::LogError>(latencies)
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
