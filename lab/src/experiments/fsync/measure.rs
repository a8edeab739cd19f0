//! One server beside disk work.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::rows::Beside;
use super::slow::{SlowDisk, WRITES_PER_S};
use crate::error::Result;
use crate::load::EchoSummary;
use crate::peers::{Peer, ServerSpec};
use crate::process::{Process, TemporaryDirectory, run};
use crate::serve::{BusyWait, DiskStats};
use crate::trial::client;
use crate::trial::lab::Lab;

pub(super) const PROBE_HZ: u32 = 500;
pub(super) const STAT_HZ: u32 = 100;
/// From the beginning of the disk work to that of the probes.
const RAMP: Duration = Duration::from_millis(300);

/// Where files are.
pub(super) struct Places {
    /// On the disk.
    pub(super) disk: TemporaryDirectory,
    /// On a disk that is slow, where that can be had.
    pub(super) slow: Option<SlowDisk>,
    /// Of the FIFO that hangs: on a device of its own, as far as there is one.
    hung: Hung,
}

/// A directory in memory, or beside the others.
struct Hung {
    directory: PathBuf,
    is_apart: bool,
}

impl Drop for Hung {
    fn drop(&mut self) {
        // What cannot be removed is left to the system's own sweep.
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// What a server did beside disk work.
#[derive(Debug, Serialize)]
pub(super) struct Found {
    pub(super) echo: EchoSummary,
    pub(super) stat: EchoSummary,
    pub(super) syncs_per_s: f64,
    /// How long a sync took in the mean.
    pub(super) sync_us: Option<f64>,
    pub(super) cpu_cores: f64,
    /// Its own account in the end, if it could still tell.
    pub(super) end: Option<DiskStats>,
}

impl Found {
    pub(super) fn describe(&self) -> String {
        let us = |summary: &EchoSummary| {
            let latency = &summary.latency;
            format!("{:.0} / {:.0} us", latency.p50_us, latency.p99_us)
        };
        format!(
            "ping {}, stat {}, {:.0} syncs/s",
            us(&self.echo),
            us(&self.stat),
            self.syncs_per_s
        )
    }
}

impl Places {
    pub(super) fn open(notes: &mut Vec<String>) -> Result<Places> {
        let disk = TemporaryDirectory::new("fsync")?;
        let hung = Hung::make(disk.path())?;
        if !hung.is_apart {
            notes.push(
                "There is no file system in memory here: what hangs is on the same device as the \
                 file that is asked for."
                    .to_owned(),
            );
        }
        let slow = SlowDisk::open().map_err(|error| {
            notes.push(format!(
                "Not possible here, and so left out: a slow disk ({error})."
            ));
        });
        Ok(Places {
            disk,
            slow: slow.ok(),
            hung,
        })
    }

    pub(super) fn words(&self) -> String {
        match self.slow {
            Some(_) => format!(
                "The slow disk is a file as a device that takes {WRITES_PER_S} writes a second."
            ),
            None => String::new(),
        }
    }

    /// The file that is asked for: on the disk, as most are.
    fn asked(&self) -> Result<PathBuf> {
        let path = self.disk.path().join("unrelated");
        std::fs::write(&path, b"unrelated").map_err(|source| crate::error::Error::Write {
            path: path.clone(),
            source,
        })?;
        Ok(path)
    }
}

impl Hung {
    fn make(otherwise: &Path) -> Result<Hung> {
        let name = format!("evenkeel-lab-hung-{}", std::process::id());
        let memory = Path::new("/dev/shm").join(&name);
        let is_apart = std::fs::create_dir(&memory).is_ok();
        let directory = if is_apart {
            memory
        } else {
            otherwise.join(name)
        };
        let hung = Hung {
            directory,
            is_apart,
        };
        if !is_apart {
            let path = hung.directory.clone();
            std::fs::create_dir(&path)
                .map_err(|source| crate::error::Error::Write { path, source })?;
        }
        run(&["mkfifo", &hung.fifo().to_string_lossy()])?;
        Ok(hung)
    }

    fn fifo(&self) -> PathBuf {
        self.directory.join("fifo")
    }
}

pub(super) fn beside(lab: &Lab, places: &Places, peer: Peer, row: &Beside) -> Result<Found> {
    let server = lab.serve(peer, &spec(places, peer, row)?)?;
    let api = server.address("api")?;
    sleep(RAMP);
    let length = lab.measured(Duration::from_millis(600));
    let before = stats(api);
    let (usage_before, begun) = (server.usage(), Instant::now());
    let echo = probe(lab, server.address("echo")?, length)?;
    let stat = calls(lab, api, length)?;
    let (echo, stat): (EchoSummary, EchoSummary) = (echo.result()?, stat.result()?);
    let (usage, seconds) = (server.usage(), begun.elapsed().as_secs_f64());
    let end = stats(api);
    let between = |of: fn(&DiskStats) -> u64| {
        let (now, then) = (end.as_ref().map(of), before.as_ref().map(of));
        now.zip(then)
            .map_or(0.0, |(now, then)| now.saturating_sub(then) as f64)
    };
    let syncs = between(|stats| stats.syncs);
    Ok(Found {
        echo,
        stat,
        syncs_per_s: syncs / seconds,
        sync_us: (syncs > 0.0).then(|| between(|stats| stats.sync_us) / syncs),
        cpu_cores: usage.cores_since(&usage_before),
        end,
    })
}

fn spec(places: &Places, peer: Peer, row: &Beside) -> Result<ServerSpec> {
    let mut flags = vec!["--stat".to_owned(), places.asked()?.display().to_string()];
    let mut add = |words: [&str; 2]| flags.extend(words.map(str::to_owned));
    if row.writers > 0 {
        let slow = places.slow.as_ref().filter(|_| row.slow);
        let directory = slow.map_or_else(|| places.disk.path().to_owned(), SlowDisk::path);
        add(["--fsync", &directory.join("written").to_string_lossy()]);
        add(["--fsync-bytes", &row.bytes.to_string()]);
        add(["--fsync-writers", &row.writers.to_string()]);
    }
    if row.hanging > 0 {
        add(["--hang", &places.hung.fifo().to_string_lossy()]);
        add(["--hang-opens", &row.hanging.to_string()]);
    }
    Ok(ServerSpec {
        services: vec!["echo", "api"],
        flags,
        busy_wait: (peer == Peer::Erlang).then_some(BusyWait::None),
        ..ServerSpec::default()
    })
}

fn stats(api: std::net::SocketAddr) -> Option<DiskStats> {
    const PATIENCE: Duration = Duration::from_secs(1);
    client::get(api, "/stat", PATIENCE).ok()
}

fn probe(lab: &Lab, echo: std::net::SocketAddr, length: Duration) -> Result<Process> {
    let (echo, rate) = (echo.to_string(), PROBE_HZ.to_string());
    let seconds = length.as_secs_f64().to_string();
    let args = ["echo", &echo, "--rate", &rate, "--seconds", &seconds];
    lab.load(&[&args[..], &["--drain", "0.5"]].concat())
}

fn calls(lab: &Lab, api: std::net::SocketAddr, length: Duration) -> Result<Process> {
    let (api, rate) = (api.to_string(), STAT_HZ.to_string());
    let seconds = length.as_secs_f64().to_string();
    let args = ["calls", &api, "--path", "/stat", "--rate", &rate];
    lab.load(&[&args[..], &["--seconds", &seconds, "--drain", "0.5"]].concat())
}

/// Empties the disk's own queue, so that what one server wrote is not another's to wait for.
pub(super) fn settle(directory: &Path) {
    // Only the time is of interest, and that is nobody's here.
    drop(Command::new("sync").arg("-f").arg(directory).status());
}
