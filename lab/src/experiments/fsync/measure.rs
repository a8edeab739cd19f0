//! One server beside disk work.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::Beside;
use crate::error::{Error, Result};
use crate::experiments::disks::{Kind, Limit, OwnDisk};
use crate::load::EchoSummary;
use crate::peers::{Peer, ServerSpec};
use crate::process::{TemporaryDirectory, run};
use crate::serve::DiskStats;
use crate::trial::{Lab, client};

const PROBE_HZ: u32 = 500;
const STAT_HZ: u32 = 100;
/// From the beginning of the disk work to that of the probes.
const RAMP: Duration = Duration::from_millis(300);

/// Where files are.
pub(super) struct Places {
    disk: TemporaryDirectory,
    /// A disk that is slow, where that can be had.
    pub(super) slow: Option<OwnDisk>,
    /// Of the FIFO that hangs: on a device of its own, as far as there is one.
    hung: TemporaryDirectory,
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

/// The same, and what it did without the disk work right before, where that is measured.
#[derive(Debug, Serialize)]
pub(super) struct Both {
    pub(super) found: Found,
    pub(super) idle: Option<Found>,
}

impl Places {
    pub(super) fn open(notes: &mut Vec<String>) -> Result<Places> {
        let disk = TemporaryDirectory::new("fsync")?;
        let memory = TemporaryDirectory::within("/dev/shm".as_ref(), "hung");
        let hung = memory.or_else(|_| {
            let note = "There is no file system in memory here: what hangs is on the same device \
                        as the file that is asked for.";
            notes.push(note.to_owned());
            TemporaryDirectory::new("hung")
        })?;
        run(&["mkfifo", &hung.path().join("fifo").to_string_lossy()])?;
        let slow = slow_disk().map_err(|error| {
            let what = "Not possible here, and so left out: a slow disk";
            notes.push(format!("{what} ({error})."));
        });
        Ok(Places {
            disk,
            slow: slow.ok(),
            hung,
        })
    }

    /// Where the writers of a row, or a log, write.
    pub(super) fn of(&self, slow: bool) -> PathBuf {
        let slow = self.slow.as_ref().filter(|_| slow);
        slow.map_or_else(|| self.disk.path().to_owned(), OwnDisk::path)
    }

    /// The file that is asked for: on the disk, as most are.
    fn asked(&self) -> Result<PathBuf> {
        let path = self.disk.path().join("unrelated");
        std::fs::write(&path, b"unrelated").map_err(Error::write(&path))?;
        Ok(path)
    }
}

/// A row, and where it is judged the row with nothing before it.
pub(super) fn both(
    lab: &Lab,
    places: &Places,
    peer: Peer,
    (row, nothing): (&Beside, &Beside),
) -> Result<Both> {
    let judged = matches!(peer, Peer::Evenkeel | Peer::OsThread);
    let has_idle = judged && !lab.is_brief() && row != nothing;
    let idle = has_idle.then(|| beside(lab, places, peer, nothing).ok());
    let found = beside(lab, places, peer, row)?;
    let idle = idle.flatten();
    Ok(Both { found, idle })
}

fn beside(lab: &Lab, places: &Places, peer: Peer, row: &Beside) -> Result<Found> {
    let server = lab.serve(peer, &spec(places, peer, row)?)?;
    let api = server.address("api")?;
    sleep(RAMP);
    let length = lab.measured(Duration::from_millis(600));
    let before = stats(api);
    let (usage_before, begun) = (server.process.usage(), Instant::now());
    let target = server.address("echo")?;
    let echo = format!("echo {target} --rate {PROBE_HZ} --drain 0.5");
    let echo = lab.load(echo).lasts(length).start()?;
    let stat = format!("calls {api} --path /stat --rate {STAT_HZ} --drain 0.5");
    let stat = lab.load(stat).lasts(length).start()?;
    let (echo, stat): (EchoSummary, EchoSummary) = (echo.result()?, stat.result()?);
    let (usage, seconds) = (server.process.usage(), begun.elapsed().as_secs_f64());
    let end = stats(api);
    let between = |of: fn(&DiskStats) -> u64| {
        let both = end.as_ref().zip(before.as_ref());
        both.map_or(0.0, |(now, then)| of(now).saturating_sub(of(then)) as f64)
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
    let spec = ServerSpec::of(&["echo", "api"]).without_spin(peer);
    let mut spec = spec.set("--stat", &places.asked()?);
    let (bytes, writers, opens) = (row.bytes, row.writers, row.hanging);
    if writers > 0 {
        spec = spec.set("--fsync", &places.of(row.slow).join("written"));
        spec = spec.with(format_args!(
            "--fsync-bytes {bytes} --fsync-writers {writers}"
        ));
    }
    if opens > 0 {
        spec = spec.set("--hang", &places.hung.path().join("fifo"));
        spec = spec.with(format_args!("--hang-opens {opens}"));
    }
    Ok(spec)
}

fn stats(api: std::net::SocketAddr) -> Option<DiskStats> {
    const PATIENCE: Duration = Duration::from_secs(1);
    client::get(api, "/stat", PATIENCE).ok()
}

/// Empties the disk's own queue, so that what one server wrote is not another's to wait for.
pub(super) fn settle(directory: &Path) {
    // Only the time is of interest, and that is nobody's here.
    drop(Command::new("sync").arg("-f").arg(directory).status());
}

/// Writes per second that the slow device takes, and its bytes.
const WRITES_PER_S: u64 = 100;
const LEN: u64 = 256 * 1024 * 1024;

fn slow_disk() -> Result<OwnDisk> {
    OwnDisk::open(&Kind {
        len: LEN,
        make: "mkfs.ext4",
        mounted: "defaults",
        limit: Some(Limit::WritesPerS(WRITES_PER_S)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_says_the_same() {
        let phrases = [
            format!("probed {PROBE_HZ} times a second"),
            format!("asked for {STAT_HZ} times a second"),
            format!("takes {WRITES_PER_S} writes a second"),
        ];
        crate::experiments::tests::assert_page_says("fsync", &phrases);
    }
}
