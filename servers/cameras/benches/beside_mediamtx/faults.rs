//! What a killed process and a disk that stands still leave behind.

use std::time::{Duration, Instant};

use super::processes::{Simulator, memory_mib, run, until};
use super::rows::Rows;
use super::servers::{LIMIT, Ours, Server};
use super::{Arguments, Result};

/// How long the disk stands still.
const FROZEN: Duration = Duration::from_secs(10);
/// What is recorded before a fault.
const BEFORE: Duration = Duration::from_secs(5);
/// The file system of the disk that stands still: for all that is recorded meanwhile.
const IMAGE_BYTES: u64 = 6 << 30;
/// What a camera has under way even while nothing waits.
const UNDER_WAY: u64 = 700_000;

/// Kills the server in the middle of its work, and starts another one in its place.
pub(crate) fn killed(server: Server, ours: Ours<'_>, rows: &mut Rows) -> Result<()> {
    let cameras = ours.cameras;
    // Each camera has a segment that is being written.
    std::thread::sleep(BEFORE);
    server.kill()?;
    let began = Instant::now();
    let since = || began.elapsed().as_secs_f64();
    let server = Server::ours(ours)?;
    server.api()?.cameras()?;
    rows.at_most("killed: until it answers again", "s", since(), 2.0);
    server.wait(cameras)?;
    rows.figure("killed: until all cameras are live", "s", since());
    let (_, recorded) = server.api()?.gaps()?;
    let without = f64::from(cameras) - recorded as f64;
    let name = "killed: cameras without what was recorded before";
    rows.at_most(name, "", without, 0.0);
    server.kill()
}

/// A file system of its own, until this is dropped.
struct Mounted<'a> {
    at: &'a str,
    is_frozen: bool,
}

impl Mounted<'_> {
    fn freeze(&mut self) -> Result<()> {
        run("fsfreeze", &["-f", self.at])?;
        self.is_frozen = true;
        Ok(())
    }

    fn thaw(&mut self) -> Result<()> {
        if std::mem::take(&mut self.is_frozen) {
            run("fsfreeze", &["-u", self.at])?;
        }
        Ok(())
    }
}

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        let _ = self.thaw();
        let _ = run("umount", &["-l", self.at]);
    }
}

/// Records on a disk that stands still for a while.
pub(crate) fn frozen(arguments: &Arguments, rows: &mut Rows) -> Result<()> {
    let directory = arguments.scratch()?;
    let image = directory.path().join("image");
    let volume = directory.path().join("volume");
    std::fs::create_dir(&volume)?;
    std::fs::File::create(&image)?.set_len(IMAGE_BYTES)?;
    let image = image.to_str().ok_or("the directory's name is no text")?;
    let at = volume.to_str().ok_or("the directory's name is no text")?;
    let made = run("mkfs.ext4", &["-q", "-F", image]);
    if let Err(error) = made.and_then(|()| run("mount", &["-o", "loop", image, at])) {
        let why = format!("a file system of its own cannot be made: {error}");
        rows.missing("a disk that stands still for 10 s", &why);
        return Ok(());
    }
    let mut disk = Mounted {
        at,
        is_frozen: false,
    };
    let simulator = Simulator::start(arguments.kbit)?;
    let ours = arguments.ours(directory.path(), arguments.cameras, &simulator);
    let server = Server::ours(ours)?;
    server.wait(arguments.cameras)?;
    std::thread::sleep(BEFORE);
    disk.freeze()?;
    std::thread::sleep(FROZEN);
    let mut api = server.api()?;
    let waiting = api.waiting()? as f64 / f64::from(1 << 20);
    rows.figure("frozen for 10 s: what waits at the end", "MiB", waiting);
    let memory = memory_mib(server.pid())?;
    rows.figure("frozen: memory at the end", "MiB", memory);
    disk.thaw()?;
    let usual = u64::from(arguments.cameras) * UNDER_WAY;
    let caught_up = until("what waited is written", LIMIT, || {
        Ok(api.waiting()? < usual)
    })?;
    rows.figure("frozen: until it is written", "s", caught_up.as_secs_f64());
    let list = api.cameras()?;
    let lost: u64 = list.iter().map(|it| it.groups_lost() + it.lost()).sum();
    let name = "frozen: groups, packets and pictures lost";
    rows.at_most(name, "", lost as f64, 0.0);
    rows.at_most("frozen: gaps", "", api.gaps()?.0 as f64, 0.0);
    server.kill()
}
