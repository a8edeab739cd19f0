//! What cameras cost while nothing goes wrong: processor time, memory, and what is lost.

use std::time::{Duration, Instant};

use evenkeel_measure::cameras::Camera;
use evenkeel_measure::cameras::viewers::watch;

use super::processes::{Simulator, memory_mib, processor_s};
use super::rows::Rows;
use super::servers::Server;
use super::{Arguments, Part, Result};
use super::{api, delay, faults, reload, sessions};

/// What the beginning costs is over.
const SETTLED: Duration = Duration::from_secs(4);

/// What was counted of a server.
struct Cost {
    /// Hundredths of a core for each camera.
    percent: f64,
    memory_mib: f64,
}

/// All that is measured with one server at work.
pub(crate) fn one_server(arguments: &Arguments, rows: &mut Rows) -> Result<()> {
    let cameras = arguments.cameras;
    let directory = arguments.scratch()?;
    let simulator = Simulator::start(arguments.kbit)?;
    let ours = arguments.ours(directory.path(), cameras, &simulator);
    let server = Server::ours(ours)?;
    let began = server.wait(cameras)?;
    rows.figure("until all cameras are live", "s", began.as_secs_f64());
    let mut spent = None;
    if arguments.wants(Part::Costs) {
        spent = Some(cost(cameras, arguments.sample(), &server)?);
        losses(&server, cameras, rows, "")?;
    }
    if arguments.wants(Part::Delay) {
        delay::live(&server, cameras, rows)?;
    }
    if arguments.wants(Part::Api) {
        api::pairs(&server, &simulator, rows)?;
    }
    if arguments.wants(Part::Reload) {
        reload::reloads(&server, directory.path(), rows)?;
    }
    if arguments.wants(Part::Sessions) {
        sessions::memory(&server, arguments.sessions, rows)?;
    }
    if arguments.wants(Part::Killed) {
        faults::killed(server, ours, rows)?;
    } else {
        server.kill()?;
    }
    // Each has the machine to itself, and ours does not wait for what MediaMTX has written.
    drop(simulator);
    if let Some(spent) = spent {
        costs(&spent, mediamtx(arguments)?.as_ref(), rows, "");
    }
    Ok(())
}

/// The costs and losses of twice as many cameras.
pub(crate) fn twice(arguments: &Arguments, rows: &mut Rows) -> Result<()> {
    let cameras = arguments.cameras * 2;
    let directory = arguments.scratch()?;
    let simulator = Simulator::start(arguments.kbit)?;
    let server = Server::ours(arguments.ours(directory.path(), cameras, &simulator))?;
    server.wait(cameras)?;
    let ours = cost(cameras, arguments.sample(), &server)?;
    let mark = format!("{cameras} cameras: ");
    losses(&server, cameras, rows, &mark)?;
    costs(&ours, None, rows, &mark);
    let left_out = simulator.end()?;
    let name = format!("{mark}pictures that a camera could not send");
    rows.at_most(&name, "", left_out, 0.0);
    server.kill()
}

/// MediaMTX with as many cameras, if it is given.
fn mediamtx(arguments: &Arguments) -> Result<Option<Cost>> {
    let Some(program) = arguments.mediamtx.as_deref() else {
        return Ok(None);
    };
    let directory = arguments.scratch()?;
    let simulator = Simulator::start(arguments.kbit)?;
    let cameras = arguments.cameras;
    let server = Server::mediamtx(program, directory.path(), cameras, &simulator, false)?;
    server.wait(cameras)?;
    Ok(Some(cost(cameras, arguments.sample(), &server)?))
}

fn cost(cameras: u32, sample: Duration, server: &Server) -> Result<Cost> {
    for camera in (0..cameras).step_by(10) {
        watch(server.rtsp, camera)?;
    }
    std::thread::sleep(SETTLED);
    let before = processor_s(server.pid())?;
    let began = Instant::now();
    std::thread::sleep(sample);
    let cores = (processor_s(server.pid())? - before) / began.elapsed().as_secs_f64();
    Ok(Cost {
        percent: cores * 100.0 / f64::from(cameras),
        memory_mib: memory_mib(server.pid())?,
    })
}

fn costs(ours: &Cost, theirs: Option<&Cost>, rows: &mut Rows, mark: &str) {
    let name = format!("{mark}processor time for each camera, of a core");
    let percent = theirs.map(|theirs| theirs.percent);
    rows.beside(&name, "%", ours.percent, percent, Some(0.07));
    let mib = theirs.map(|theirs| theirs.memory_mib);
    // Twice as many cameras may have twice as much: it is what waits for the next key frame.
    let target = if mark.is_empty() { 200.0 } else { 400.0 };
    let name = format!("{mark}memory");
    rows.beside(&name, "MiB", ours.memory_mib, mib, Some(target));
}

/// What is missing, of all cameras.
fn losses(server: &Server, cameras: u32, rows: &mut Rows, mark: &str) -> Result<()> {
    let mut api = server.api()?;
    let list = api.cameras()?;
    let sum = |of: fn(&Camera) -> u64| list.iter().map(of).sum::<u64>() as f64;
    let cameras = f64::from(cameras);
    let (gaps, recorded) = api.gaps()?;
    let groups = sum(Camera::groups);
    rows.figure(&format!("{mark}groups recorded"), "", groups);
    for (name, figure) in [
        ("packets and pictures lost", sum(Camera::lost)),
        ("sessions that broke", sum(Camera::sessions) - cameras),
        ("groups not recorded", sum(Camera::groups_lost)),
        ("gaps in recordings", gaps as f64),
        ("cameras without a recording", cameras - recorded as f64),
    ] {
        rows.at_most(&format!("{mark}{name}"), "", figure, 0.0);
    }
    Ok(())
}
