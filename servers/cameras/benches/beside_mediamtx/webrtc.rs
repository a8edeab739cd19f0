//! Live pictures by WebRTC: how soon the first one is there, what a session costs the server, how
//! late pictures are, and how many are lost.
//!
//! Each session watches a camera of its own, all of them from this process. What watching changes
//! in how a camera is received is part of a session's cost.

mod client;

use std::thread;
use std::time::{Duration, Instant};

use evenkeel_measure::latency::Latencies;

use super::processes::{Simulator, memory_mib, processor_s};
use super::rows::Rows;
use super::servers::Server;
use super::{Arguments, Result};
use client::{Seen, Times, watch};

/// Sessions, and cameras.
const SESSIONS: u32 = 100;
/// Between the beginnings of two sessions.
const APART: Duration = Duration::from_millis(40);
/// What the beginning costs is over.
const SETTLED: Duration = Duration::from_secs(4);
/// For how long costs, delays and losses are watched.
const SAMPLE: Duration = Duration::from_secs(10);

/// What was seen of one server.
struct Figures {
    first: Latencies,
    delay: Latencies,
    /// Hundredths of a core for each session.
    percent: f64,
    /// Memory of each session.
    kib: f64,
    lost: f64,
}

/// Ours, beside MediaMTX if that is given.
pub(crate) fn beside(arguments: &Arguments, rows: &mut Rows) -> Result<()> {
    let ours = {
        let directory = arguments.scratch()?;
        let simulator = Simulator::start(arguments.kbit)?;
        let ours = arguments.ours(directory.path(), SESSIONS, &simulator);
        figures(&Server::ours(ours)?)?
    };
    let theirs = match arguments.mediamtx.as_deref() {
        None => None,
        Some(program) => {
            let directory = arguments.scratch()?;
            let simulator = Simulator::start(arguments.kbit)?;
            let directory = directory.path();
            let server = Server::mediamtx(program, directory, SESSIONS, &simulator, true)?;
            Some(figures(&server)?)
        }
    };
    type Of = fn(&Figures) -> f64;
    let of: [(&str, &str, Of); 7] = [
        ("first picture after the offer, median", "ms", |it| {
            ms(&it.first, 50)
        }),
        ("first picture, 99 of 100", "ms", |it| ms(&it.first, 99)),
        ("processor time for each session, of a core", "%", |it| {
            it.percent
        }),
        ("memory for each session", "KiB", |it| it.kib),
        ("pictures lost", "", |it| it.lost),
        ("delay of a picture, median", "ms", |it| ms(&it.delay, 50)),
        ("delay of a picture, 99 of 100", "ms", |it| {
            ms(&it.delay, 99)
        }),
    ];
    for (name, unit, of) in of {
        let name = format!("WebRTC, {SESSIONS} sessions: {name}");
        rows.beside(&name, unit, of(&ours), theirs.as_ref().map(of), None);
    }
    Ok(())
}

fn ms(of: &Latencies, percent: u8) -> f64 {
    of.percentile(percent).as_secs_f64() * 1_000.0
}

fn figures(server: &Server) -> Result<Figures> {
    server.wait(SESSIONS)?;
    let (address, before_name) = server.whep.ok_or("this server has no WebRTC")?;
    thread::sleep(SETTLED);
    let memory_before = memory_mib(server.pid())?;
    let idle = spent_in(server, SAMPLE)?;
    let began = Instant::now();
    let from = began + APART * SESSIONS + SETTLED;
    let sessions: Vec<_> = (0..SESSIONS)
        .map(|session| {
            let path = format!("{before_name}cam{session}/whep");
            let times = Times {
                begin: began + APART * session,
                from,
                until: from + SAMPLE,
            };
            thread::spawn(move || watch(address, &path, times))
        })
        .collect();
    thread::sleep(from.saturating_duration_since(Instant::now()));
    let busy = spent_in(server, SAMPLE)?;
    let memory_after = memory_mib(server.pid())?;
    let mut figures = Figures {
        first: Latencies::new(),
        delay: Latencies::new(),
        percent: (busy - idle) * 100.0 / f64::from(SESSIONS),
        kib: (memory_after - memory_before) * 1_024.0 / f64::from(SESSIONS),
        lost: 0.0,
    };
    for session in sessions {
        let Seen {
            first,
            delays,
            lost,
        } = session.join().map_err(|_| "a client panicked")??;
        figures.first.record(first);
        delays
            .into_iter()
            .for_each(|delay| figures.delay.record(delay));
        figures.lost += f64::from(lost);
    }
    Ok(figures)
}

/// Cores that a server needs in this time.
fn spent_in(server: &Server, sample: Duration) -> Result<f64> {
    let before = processor_s(server.pid())?;
    let began = Instant::now();
    thread::sleep(sample);
    Ok((processor_s(server.pid())? - before) / began.elapsed().as_secs_f64())
}
