//! One connection beside thousands that are always ready: how long its answers take.
//!
//! The thousands stand in a circle, and each passes on every byte that it gets. There is a byte for
//! each, so the kernel has something to report of many of them at any time. On Evenkeel the one is
//! served in the class `URGENT`. Tokio has no classes.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use evenkeel_measure::comparison::Comparison;
use evenkeel_measure::latency::Latencies;
use evenkeel_measure::rounds::alternate_aloud;
use evenkeel_measure::statistics::Better;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::CONTENDERS;
use crate::cpu::{self, Division};
use crate::options::Options;
use crate::peer::{Evenkeel, Peer, Tokio};

pub(crate) const PART: &str = "crowd";

/// The rows: name, and how many others there are.
pub(crate) const ROWS: [(&str, usize); 2] = [
    ("one beside 500 that are ready", 500),
    ("one beside 4000 that are ready", 4_000),
];

/// The pause between an answer and the next question.
const PAUSE: Duration = Duration::from_millis(1);

/// A round has so many answers at least.
const ANSWERS_MIN: u64 = 100;

pub(crate) fn compare(options: &Options) -> io::Result<Vec<Comparison>> {
    let titles = [50, 99].map(|percent| format!("crowd: {percent} % of answers come within"));
    let mut tables = titles.map(|title| Comparison::new(&title, "us", Better::Less, &CONTENDERS));
    let division = Division::of_machine();
    for (name, others) in ROWS.iter().filter(|(name, _)| options.wants(PART, name)) {
        let sample = options.sample() * 2;
        let contenders = [measure::<Evenkeel>, measure::<Tokio>];
        let all = alternate_aloud(name, options.rounds(), &contenders, |measure| {
            measure(*others, sample, division)
        })?;
        for (table, percent) in tables.iter_mut().zip([50, 99]) {
            let us = |answers: &Latencies| answers.percentile(percent).as_secs_f64() * 1e6;
            let of_each = |rounds: &Vec<Latencies>| rounds.iter().map(us).collect();
            table.add(name, &all.iter().map(of_each).collect::<Vec<_>>());
        }
    }
    Ok(tables.into())
}

fn measure<P: Peer>(
    others: usize,
    sample: Duration,
    division: Option<Division>,
) -> io::Result<Latencies> {
    let (peer, port) = cpu::on_server_side(division, || {
        let peer = P::new(1);
        let port = start(&peer, others);
        (peer, port)
    });
    let port = port.map_err(|error| {
        let wanted = format!("{others} connections take two descriptors each (see `ulimit -n`)");
        io::Error::new(error.kind(), format!("{wanted}: {error}"))
    })?;
    std::thread::scope(|scope| {
        let asks = scope.spawn(|| {
            division.iter().for_each(Division::take_load_side);
            let answers = ask(&mut connect(port)?, sample);
            drop(peer);
            answers
        });
        asks.join().expect("the client does not panic")
    })
}

/// Starts the circle, and then a server of the one.
fn start<P: Peer>(peer: &P, others: usize) -> io::Result<u16> {
    let (tell, told) = std::sync::mpsc::channel();
    drop(peer.spawn(async move {
        let begun = circle::<P>(others).await;
        let (port, listener) = match begun {
            Ok(listener) => (Ok(P::port(&listener)), Some(listener)),
            Err(error) => (Err(error), None),
        };
        tell.send(port).expect("the benchmark waits");
        if let Some(listener) = listener
            && let Ok(one) = P::accept(&listener).await
        {
            P::spawn_urgent(echo::<P>(one));
        }
    }));
    told.recv().expect("the server says how it begins")
}

/// Has the circle begin, and gives the listener that made it.
async fn circle<P: Peer>(others: usize) -> io::Result<P::Listener> {
    let listener = P::bind().await?;
    let port = P::port(&listener);
    let (mut nears, mut fars) = (Vec::new(), Vec::new());
    for _ in 0..others {
        fars.push(connect(port)?);
        nears.push(P::accept(&listener).await?);
    }
    fars.rotate_left(1);
    for (near, far) in nears.into_iter().zip(fars) {
        P::spawn_here(pass_on::<P>(near, far));
    }
    Ok(listener)
}

async fn echo<P: Peer>(mut stream: P::Stream) {
    let mut byte = [0];
    while stream.read_exact(&mut byte).await.is_ok() && stream.write_all(&byte).await.is_ok() {}
}

/// There is room for as many bytes as the circle has, so that it never blocks.
async fn pass_on<P: Peer>(mut near: P::Stream, mut far: TcpStream) {
    let mut byte = [0];
    while far.write_all(&byte).is_ok() && near.read_exact(&mut byte).await.is_ok() {}
}

fn connect(port: u16) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

fn ask(one: &mut TcpStream, sample: Duration) -> io::Result<Latencies> {
    let mut answers = Latencies::new();
    let began = Instant::now();
    while began.elapsed() < sample || answers.len() < ANSWERS_MIN {
        let asked = Instant::now();
        one.write_all(&[0])?;
        one.read_exact(&mut [0])?;
        answers.record(asked.elapsed());
        std::thread::sleep(PAUSE);
    }
    Ok(answers)
}
