//! A mixed load: two clients in three fetch megabytes, and one fetches five bytes at a time. What
//! each sort gets, and how long an operator waits for an answer meanwhile.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use evenkeel_measure::latency::Latencies;
use evenkeel_measure::rounds::alternate;

use super::clients::Kept;
use super::proxies::{Kind, Proxy};
use super::rows::Rows;
use super::{Plan, Result};

/// How many clients fetch megabytes, and how many five bytes.
const CLIENTS: [(bool, usize); 2] = [(true, 8), (false, 4)];

/// How many connections wait beside the load, or without it.
const IDLE: usize = 8_000;

/// The pause between two questions of the operator.
const PAUSE: Duration = Duration::from_millis(2);

/// What became of a mixed load.
struct Mixed {
    megabytes: f64,
    small: f64,
    answers: Latencies,
}

const KINDS: [Kind; 3] = [Kind::Ours, Kind::Copying, Kind::Splicing];

pub(crate) fn rates(plan: &Plan<'_>) -> Result<Rows> {
    let what = "operations a second of a mixed load: more is better";
    let mut rows = Rows::new(what, &KINDS, 0);
    let names = ["mixed: megabytes", "mixed: small answers"];
    if names.iter().any(|name| plan.wants(name)) {
        let all = measured(plan, 0, true)?;
        for (name, of) in names
            .iter()
            .zip([|m: &Mixed| m.megabytes, |m: &Mixed| m.small])
        {
            rows.add(name, &[">= 1.10"], &figures(&all, of));
        }
    }
    Ok(rows)
}

pub(crate) fn answers(plan: &Plan<'_>) -> Result<Rows> {
    let what = "how long an operator waits for an answer, in us: less is better";
    let mut rows = Rows::new(what, &KINDS, 0);
    let loads = [
        ("admin: alone", 0, false, ""),
        ("admin: 8000 connections", IDLE, false, "<= 0.20"),
        ("admin: mixed load", 0, true, "<= 0.10"),
        ("admin: mixed load, 8000 connections", IDLE, true, ""),
    ];
    for (name, idle, is_loaded, target) in loads {
        if plan.wants(name) {
            let all = measured(plan, idle, is_loaded)?;
            for percent in [50, 99] {
                let of = |mixed: &Mixed| mixed.answers.percentile(percent).as_secs_f64() * 1e6;
                let targets = if percent == 99 { &[target][..] } else { &[] };
                rows.add(&format!("{name}, {percent} %"), targets, &figures(&all, of));
            }
        }
    }
    Ok(rows)
}

fn figures(all: &[Vec<Mixed>], of: impl Fn(&Mixed) -> f64) -> Vec<Vec<f64>> {
    let rounds = |rounds: &Vec<Mixed>| rounds.iter().map(&of).collect();
    all.iter().map(rounds).collect()
}

fn measured(plan: &Plan<'_>, idle: usize, is_loaded: bool) -> Result<Vec<Vec<Mixed>>> {
    let length = plan.rounds.sample(Duration::from_millis(1_600));
    let mut buffer = vec![0; 64 * 1_024];
    alternate(plan.rounds.rounds(), &KINDS, |&kind| {
        let proxy = plan.machine.start(kind)?;
        let idle = (0..idle).map(|_| {
            let mut kept = Kept::connect(proxy.http)?;
            kept.ask(false, &mut buffer)?;
            Ok(kept)
        });
        let idle = idle.collect::<Result<Vec<_>>>()?;
        let mixed = mixed(&proxy, length, is_loaded);
        drop(idle);
        mixed
    })
}

fn mixed(proxy: &Proxy, length: Duration, is_loaded: bool) -> Result<Mixed> {
    let is_over = AtomicBool::new(false);
    let counts = [AtomicU64::new(0), AtomicU64::new(0)];
    // Relaxed: numbers that are read when all have ended, and a flag that may be seen late.
    let client = |for_much: bool, count: &AtomicU64| -> Result<()> {
        let mut buffer = vec![0; 256 * 1_024];
        let mut kept = Kept::connect(proxy.http)?;
        while !is_over.load(Ordering::Relaxed) {
            kept.ask(for_much, &mut buffer)?;
            count.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    };
    let operator = || {
        let mut answers = Latencies::new();
        let began = Instant::now();
        while began.elapsed() < length {
            answers.record(proxy.ask_admin()?);
            thread::sleep(PAUSE);
        }
        Ok(answers)
    };
    let answers = thread::scope(|scope| {
        let mut clients = Vec::new();
        for ((for_much, number), count) in CLIENTS.iter().zip(&counts) {
            let number = if is_loaded { *number } else { 0 };
            let each = (0..number).map(|_| scope.spawn(|| client(*for_much, count)));
            clients.extend(each);
        }
        let answers: Result<Latencies> = operator();
        is_over.store(true, Ordering::Relaxed);
        for client in clients {
            client.join().map_err(|_| "a client has panicked")??;
        }
        answers
    })?;
    let [megabytes, small] = counts.map(|count| count.into_inner() as f64 / length.as_secs_f64());
    Ok(Mixed {
        megabytes,
        small,
        answers,
    })
}
