//! What cameras cost while nothing goes wrong: processor time, memory, and what is lost.

use std::path::Path;
use std::time::{Duration, Instant};

use evenkeel_measure::cameras::Camera;
use evenkeel_measure::cameras::viewers::watch;
use evenkeel_measure::statistics::median;

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

impl Cost {
    fn median(of: &[Self]) -> Self {
        let median = |figure: fn(&Self) -> f64| median(of.iter().map(figure)).unwrap_or(f64::NAN);
        Self {
            percent: median(|cost| cost.percent),
            memory_mib: median(|cost| cost.memory_mib),
        }
    }
}

/// All that is measured with one server at work.
pub(crate) fn one_server(arguments: &Arguments, rows: &mut Rows) -> Result<()> {
    let cameras = arguments.cameras;
    let directory = arguments.scratch()?;
    let simulator = Simulator::start(arguments.kbit)?;
    let ours_of = arguments.ours(directory.path(), cameras, &simulator);
    let server = Server::ours(ours_of)?;
    let began = server.wait(cameras)?;
    rows.figure("until all cameras are live", "s", began.as_secs_f64());
    let mut ours = None;
    if arguments.wants(Part::Costs) {
        ours = Some(cost(cameras, arguments.sample(), &server)?);
        losses(&server, cameras, rows, "")?;
    }
    if arguments.wants(Part::Delay) {
        delay::live(&server, cameras, rows)?;
    }
    let mut listed = None;
    if arguments.wants(Part::Api) {
        api::pairs(&server, &simulator, rows)?;
        listed = Some(api::list(&server, "/api/cameras")?);
    }
    if arguments.wants(Part::Reload) {
        reload::reloads(&server, directory.path(), rows)?;
    }
    if arguments.wants(Part::Sessions) {
        sessions::memory(&server, arguments.sessions, rows)?;
    }
    if arguments.wants(Part::Killed) {
        faults::killed(server, ours_of, rows)?;
    } else {
        server.kill()?;
    }
    // Each has the machine to itself, and ours does not wait for what MediaMTX has written.
    drop(simulator);
    if let Some(ours) = ours {
        beside(arguments, ours, rows)?;
    }
    if let Some(listed) = listed {
        lists(arguments, listed, rows)?;
    }
    Ok(())
}

/// What cameras cost in turn with MediaMTX, if it is given. Ours was measured once.
fn beside(arguments: &Arguments, first: Cost, rows: &mut Rows) -> Result<()> {
    let (mut ours, mut theirs) = (vec![first], Vec::new());
    for round in 0..arguments.rounds {
        if round > 0 {
            ours.push(alone(arguments)?);
        }
        if let Some(program) = &arguments.mediamtx {
            theirs.push(mediamtx(arguments, program, |server| {
                cost(arguments.cameras, arguments.sample(), server)
            })?);
        }
    }
    let ratios = (ours.iter().zip(&theirs)).map(|(ours, theirs)| ours.percent / theirs.percent);
    let ratio = median(ratios);
    let median = theirs.first().map(|_| Cost::median(&theirs));
    costs(&Cost::median(&ours), median.as_ref(), rows, "");
    if let Some(ratio) = ratio {
        let name = "processor time over MediaMTX's, of pairs";
        rows.at_most(name, "", ratio, 1.0 / 3.0);
    }
    Ok(())
}

/// Costs of ours, with nothing else measured of it.
fn alone(arguments: &Arguments) -> Result<Cost> {
    let directory = arguments.scratch()?;
    let simulator = Simulator::start(arguments.kbit)?;
    let cameras = arguments.cameras;
    let server = Server::ours(arguments.ours(directory.path(), cameras, &simulator))?;
    server.wait(cameras)?;
    cost(cameras, arguments.sample(), &server)
}

/// How soon all cameras are listed, beside MediaMTX, if it is given.
fn lists(arguments: &Arguments, ours: [f64; 2], rows: &mut Rows) -> Result<()> {
    let path = "/v3/paths/list?itemsPerPage=10000";
    let theirs = match &arguments.mediamtx {
        Some(program) => Some(mediamtx(arguments, program, |server| {
            api::list(server, path)
        })?),
        None => None,
    };
    for (of, name) in ["median", "99 of 100"].into_iter().enumerate() {
        let name = format!("the list of all cameras, loaded, {name}");
        rows.beside(&name, "ms", ours[of], theirs.map(|theirs| theirs[of]), None);
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

/// What is measured of MediaMTX, with as many cameras.
fn mediamtx<T>(
    arguments: &Arguments,
    program: &Path,
    measure: impl FnOnce(&Server) -> Result<T>,
) -> Result<T> {
    let directory = arguments.scratch()?;
    let simulator = Simulator::start(arguments.kbit)?;
    let cameras = arguments.cameras;
    let server = Server::mediamtx(program, directory.path(), cameras, &simulator, false)?;
    server.wait(cameras)?;
    measure(&server)
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
    // Beside MediaMTX it is a third of that, which is another row.
    let target = theirs.is_none().then_some(0.07);
    rows.beside(&name, "%", ours.percent, percent, target);
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
