//! One server with cameras, and what is found.

use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use evenkeel_measure::cameras::viewers::{described, watch};
use evenkeel_measure::cameras::{Api, Wanted};
use serde::Serialize;
use signal_hook::consts::{SIGCONT, SIGSTOP, SIGTERM};

use super::files::{Kept, kept};
use super::servers::By;
use crate::error::{Error, Result};
use crate::experiments::disks::{Kind, Limit, OwnDisk};
use crate::load::{Latencies, LatencySummary};
use crate::process::{Process, TemporaryDirectory};
use crate::sys;
use crate::trial::{Lab, client};

/// How much each camera sends, in kilobits a second.
pub(super) const KBIT: u32 = 1_400;
/// Calls of a program.
pub(super) const CALLS_HZ: u32 = 50;
/// Every so manieth camera is watched.
pub(super) const WATCHED: usize = 10;
/// Until each camera has completed a group of pictures, which takes it two seconds; in brief and
/// otherwise, when the beginning is to be over, too.
const SETTLED_IN_BRIEF: Duration = Duration::from_millis(2_800);
const SETTLED: Duration = Duration::from_millis(4_500);
/// Cameras that say nothing for longer are given up.
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// How long a disk stands still at most.
const FROZEN_MAX: Duration = Duration::from_secs(10);
/// For a beginning, and for an end with what waits for a disk.
const PATIENCE: Duration = Duration::from_secs(60);
/// Bytes of the disk that stands still or is slow: for all that comes meanwhile.
const DISK_LEN: u64 = 6 << 30;

/// What the disk does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Disk {
    Usual,
    /// Every other camera is on one that stands still for a while.
    Frozen,
    /// Every other camera is on one that takes half of what these send.
    Slow,
}

/// A case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) by: By,
    pub(super) disk: Disk,
    pub(super) cameras: u32,
}

/// What one measurement found.
#[derive(Debug, Clone, Default, Serialize)]
pub(super) struct Found {
    /// Of a core, for each camera.
    pub(super) cpu_percent: f64,
    pub(super) memory_mib: f64,
    /// How long a camera's state took, from when a call was due: while cameras send, and while they
    /// stand still.
    pub(super) loaded: LatencySummary,
    pub(super) idle: Option<LatencySummary>,
    /// Calls without an answer.
    pub(super) unanswered: u64,
    /// What is in the files: of the disk that stands still or is slow, and of the usual one.
    pub(super) own: Option<Kept>,
    pub(super) usual: Kept,
    /// Packets and pictures that never came to it or were of no use, and gaps in recordings, as it
    /// says itself.
    pub(super) lost: Option<u64>,
    pub(super) gaps: Option<u64>,
}

pub(super) fn measure(lab: &Lab, row: Row) -> Result<Found> {
    let disk = row.disk.open(row.cameras)?;
    let directory = TemporaryDirectory::new("cameras")?;
    let usual = directory.path().join("usual");
    std::fs::create_dir(&usual).map_err(Error::write(&usual))?;
    let own = disk.as_ref().map(OwnDisk::path);
    let mut directories: Vec<&Path> = own.iter().map(PathBuf::as_path).collect();
    directories.push(&usual);
    let [cameras_at, rtsp, http] = [
        lab.free_address()?,
        lab.free_address()?,
        lab.free_address()?,
    ];
    let simulator = simulator(lab, cameras_at)?;
    let wanted = Wanted {
        cameras: row.cameras,
        simulator: &cameras_at.to_string(),
        directories: &directories,
        rtsp,
        http,
    };
    let server = row.by.start(lab, directory.path(), wanted)?;
    client::until_listening(row.by.name(), rtsp, PATIENCE)?;
    until_watchable(wanted)?;
    for camera in (0..row.cameras).step_by(WATCHED) {
        watch(rtsp, camera).map_err(of(row.by))?;
    }
    sleep(settled(lab));
    let mut found = observed(lab, row, &server, &simulator, (wanted, disk.as_ref()))?;
    if row.by == By::Ours {
        let (lost, gaps) = told(wanted).map_err(of(row.by))?;
        (found.lost, found.gaps) = (Some(lost), Some(gaps));
    }
    end(&server)?;
    let here = |volume: usize| (0..row.cameras).filter(move |of| wanted.volume(*of) == volume);
    if let Some(own) = &own {
        found.own = Some(kept(own, here(0))?);
    }
    found.usual = kept(&usual, here(directories.len() - 1))?;
    Ok(found)
}

/// Calls, and what the server takes meanwhile.
fn observed(
    lab: &Lab,
    row: Row,
    server: &Process,
    simulator: &Process,
    (wanted, disk): (Wanted<'_>, Option<&OwnDisk>),
) -> Result<Found> {
    let length = lab.measured(Duration::from_millis(800));
    let frozen = match (row.disk, disk) {
        (Disk::Frozen, Some(disk)) => Some(disk.freeze()?),
        _ => None,
    };
    let length = frozen.as_ref().map_or(length, |_| length.min(FROZEN_MAX));
    let before = server.usage();
    let (loaded, unanswered) = lab.call_first(|| calls(row.by, wanted, length));
    let cores = server.usage().cores_since(&before);
    let mut found = Found {
        cpu_percent: cores * 100.0 / f64::from(row.cameras),
        memory_mib: memory_mib(server.pid())?,
        loaded: loaded.summary(),
        unanswered,
        ..Found::default()
    };
    drop(frozen);
    if row.disk == Disk::Usual {
        let stop = |signal| {
            let sent = sys::kill_group(simulator.pid(), signal);
            sent.map_err(Error::system("cannot stop the cameras for a while"))
        };
        stop(SIGSTOP)?;
        // What is on its way arrives.
        sleep(Duration::from_millis(300));
        let (idle, missing) = lab.call_first(|| calls(row.by, wanted, length.min(PAUSE_MAX)));
        stop(SIGCONT)?;
        found.idle = Some(idle.summary());
        found.unanswered += missing;
    }
    // What was held up arrives, and the next group is complete.
    sleep(settled(lab));
    Ok(found)
}

impl Disk {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Usual => "usual",
            Self::Frozen => "half on one that stands still",
            Self::Slow => "half on a slow one",
        }
    }

    fn open(self, cameras: u32) -> Result<Option<OwnDisk>> {
        let kind = match self {
            Self::Usual => return Ok(None),
            Self::Frozen => Kind {
                len: DISK_LEN,
                make: "mkfs.ext4",
                mounted: "defaults",
                limit: None,
            },
            // Each write lasts until it is done, or memory would take what the disk does not; and
            // no journal, whose writes would be in the limit.
            Self::Slow => Kind {
                len: DISK_LEN,
                make: "mkfs.ext2",
                mounted: "sync",
                limit: Some(Limit::BytesPerS(
                    u64::from(KBIT) * 1_000 / 8 * u64::from(cameras.div_ceil(2)) / 2,
                )),
            },
        };
        OwnDisk::open(&kind).map(Some)
    }

    /// Why it cannot be had here.
    pub(super) fn lacks(self) -> Option<String> {
        match self {
            Self::Usual => None,
            // A small one, for a moment.
            _ => self.open(1).err().map(|error| error.to_string()),
        }
    }
}

/// Shorter measurements are for a first look, or for tests.
fn settled(lab: &Lab) -> Duration {
    match lab.measured(Duration::ZERO) < Duration::from_secs(1) {
        true => SETTLED_IN_BRIEF,
        false => SETTLED,
    }
}

/// The cameras.
fn simulator(lab: &Lab, at: std::net::SocketAddr) -> Result<Process> {
    const NAME: &str = "the simulated cameras";
    let mut command = lab.lineup.lab();
    command.args(["evenkeel-cameras", "simulate", "--listen", &at.to_string()]);
    command.args(["--kbit", &KBIT.to_string()]);
    let process = lab.tool(NAME, &mut command)?;
    client::until_listening(NAME, at, PATIENCE)?;
    Ok(process)
}

fn until_watchable(wanted: Wanted<'_>) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    for camera in 0..wanted.cameras {
        while !described(wanted.rtsp, camera).unwrap_or(false) {
            if Instant::now() > deadline {
                let seconds = PATIENCE.as_secs();
                let what = format!("cam{camera} cannot be watched after {seconds} s");
                return Err(Error::new(what));
            }
            sleep(Duration::from_millis(20));
        }
    }
    Ok(())
}

/// Asks for a camera's state, at a steady rate whatever the server does, and counts the calls that
/// have no answer.
fn calls(by: By, wanted: Wanted<'_>, length: Duration) -> (Latencies, u64) {
    let (mut latencies, mut unanswered) = (Latencies::new(), 0);
    let mut api = Api::connect(wanted.http);
    let (begun, pause) = (Instant::now(), Duration::from_secs(1) / CALLS_HZ);
    let mut due = begun;
    while due.duration_since(begun) < length {
        sleep(due.saturating_duration_since(Instant::now()));
        let answer = api.and_then(|mut api| api.get(by.state()).map(|_| api));
        match &answer {
            Ok(_) => latencies.record(due.elapsed()),
            Err(_) => unanswered += 1,
        }
        api = answer.or_else(|_| Api::connect(wanted.http));
        due += pause;
    }
    (latencies, unanswered)
}

/// What ours says of itself: packets and pictures that were lost, and gaps.
fn told(wanted: Wanted<'_>) -> evenkeel_measure::cameras::Result<(u64, u64)> {
    let mut api = Api::connect(wanted.http)?;
    let lost = api.cameras()?.iter().map(|camera| camera.lost()).sum();
    Ok((lost, api.gaps()?.0 as u64))
}

fn of(by: By) -> impl Fn(Box<dyn std::error::Error + Send + Sync>) -> Error {
    move |error| Error::new(format!("{}: {error}", by.name()))
}

fn memory_mib(pid: u32) -> Result<f64> {
    let process = procfs::process::Process::new(pid as i32);
    let status = process.and_then(|process| process.status());
    let kib = status.ok().and_then(|status| status.vmrss);
    let kib =
        kib.ok_or_else(|| Error::new(format!("process {pid} is gone: see its words above")))?;
    Ok(kib as f64 / 1_024.0)
}

/// Asks it to end, so that its files are complete, and waits until it has.
fn end(server: &Process) -> Result<()> {
    let told = sys::kill_group(server.pid(), SIGTERM);
    told.map_err(Error::system("cannot ask a server to end"))?;
    let deadline = Instant::now() + PATIENCE;
    let is_there = || {
        let process = procfs::process::Process::new(server.pid() as i32);
        let stat = process.and_then(|process| process.stat());
        // It stays as a zombie until its handle goes.
        stat.is_ok_and(|stat| stat.state != 'Z')
    };
    while is_there() {
        if Instant::now() > deadline {
            return Err(Error::new("a server that was asked to end has not ended"));
        }
        sleep(Duration::from_millis(20));
    }
    Ok(())
}
