//! A mixed load: two clients in three fetch megabytes, and one fetches five bytes at a time. What
//! each sort gets, and how long an operator waits for an answer meanwhile.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use evenkeel_measure::latency::Latencies;
use evenkeel_measure::rounds::alternate;

use super::clients::{Kept, LIMIT, PIECE};
use super::proxies::{Kind, Proxy};
use super::rows::Rows;
use super::{Plan, Result, priority};

/// How many clients fetch megabytes, and how many five bytes.
const CLIENTS: [(bool, usize); 2] = [(true, 8), (false, 4)];

/// How many connections there are beside the load, or without it.
const MANY: usize = 8_000;

/// What else there is while the operator asks.
#[derive(Clone, Copy)]
struct Beside {
    /// Connections that wait.
    idle: usize,
    /// Connections that ask again as soon as they are answered.
    busy: usize,
    /// The mixed load.
    is_loaded: bool,
}

const NOTHING: Beside = Beside {
    idle: 0,
    busy: 0,
    is_loaded: false,
};

const MIXED: Beside = Beside {
    is_loaded: true,
    ..NOTHING
};

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
        let all = measured(plan, MIXED)?;
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
    let waiting = |beside| Beside {
        idle: MANY,
        ..beside
    };
    let busy = Beside {
        busy: MANY,
        ..NOTHING
    };
    let loads = [
        ("admin: alone", NOTHING, ""),
        ("admin: 8000 that wait", waiting(NOTHING), ""),
        ("admin: 8000 that ask", busy, "<= 0.20"),
        ("admin: mixed load", MIXED, "<= 0.10"),
        ("admin: mixed load, 8000 that wait", waiting(MIXED), ""),
    ];
    for (name, beside, target) in loads {
        if plan.wants(name) {
            let all = measured(plan, beside)?;
            for percent in [50, 99] {
                let of = |mixed: &Mixed| mixed.answers.percentile(percent).as_secs_f64() * 1e6;
                let targets = if percent == 99 { &[target][..] } else { &[] };
                rows.add(&format!("{name}, {percent} %"), targets, &figures(&all, of));
            }
        }
    }
    Ok(rows)
}

/// What did not come about has no figure, and no part in medians.
fn figures(all: &[Vec<Option<Mixed>>], of: impl Fn(&Mixed) -> f64) -> Vec<Vec<f64>> {
    let figure = |mixed: &Option<Mixed>| mixed.as_ref().map_or(f64::NAN, &of);
    let rounds = |rounds: &Vec<Option<Mixed>>| rounds.iter().map(figure).collect();
    all.iter().map(rounds).collect()
}

/// A peer that does not serve all of a load in a round has no figure of that round.
fn measured(plan: &Plan<'_>, beside: Beside) -> Result<Vec<Vec<Option<Mixed>>>> {
    let one = |kind| match once(plan, beside, kind) {
        Err(error) if kind != Kind::Ours => {
            eprintln!("{}: a round without a figure: {error}", kind.name());
            Ok(None)
        }
        measured => measured.map(Some),
    };
    alternate(plan.rounds.rounds(), &KINDS, |&kind| one(kind))
}

fn once(plan: &Plan<'_>, beside: Beside, kind: Kind) -> Result<Mixed> {
    let length = plan.rounds.sample(Duration::from_millis(1_600));
    let mut buffer = vec![0; 64 * 1_024];
    let proxy = plan.machine.start(kind)?;
    let idle = (0..beside.idle).map(|_| {
        let mut kept = Kept::connect(proxy.http)?;
        kept.ask(false, &mut buffer)?;
        Ok(kept)
    });
    let idle = idle.collect::<Result<Vec<_>>>()?;
    let crowd = &plan.machine.crowd;
    let busy = crowd.ask(proxy.crowded, beside.busy)?;
    let before = busy.answers();
    // On a slow machine it takes longer until there are as many answers as clients.
    let is_whole = || busy.answers() - before >= beside.busy;
    let mixed = mixed(&proxy, length, beside.is_loaded, is_whole)?;
    let answers = busy.answers() - before;
    if !busy.all_go_on() || answers < beside.busy {
        let said = format!("a crowd was answered {answers} times, and is not whole");
        return Err(said.into());
    }
    drop((idle, busy));
    Ok(mixed)
}

fn mixed(
    proxy: &Proxy,
    length: Duration,
    is_loaded: bool,
    is_whole: impl Fn() -> bool + Sync,
) -> Result<Mixed> {
    let is_over = AtomicBool::new(false);
    let counts = [AtomicU64::new(0), AtomicU64::new(0)];
    // Relaxed: numbers that are read when all have ended, and a flag that may be seen late.
    let client = |for_much: bool, count: &AtomicU64| -> Result<()> {
        priority::last();
        let mut buffer = vec![0; PIECE];
        let mut kept = Kept::connect(proxy.http)?;
        while !is_over.load(Ordering::Relaxed) {
            match for_much {
                true => kept.ask_in_pieces(&mut buffer)?,
                false => kept.ask(false, &mut buffer)?,
            }
            count.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    };
    let operator = || {
        priority::first();
        let mut answers = Latencies::new();
        let began = Instant::now();
        while began.elapsed() < length || (!is_whole() && began.elapsed() < LIMIT) {
            answers.record(proxy.ask_admin()?);
            thread::sleep(PAUSE);
        }
        Ok((answers, began.elapsed()))
    };
    let (answers, took) = thread::scope(|scope| {
        let mut clients = Vec::new();
        for ((for_much, number), count) in CLIENTS.iter().zip(&counts) {
            let number = if is_loaded { *number } else { 0 };
            let each = (0..number).map(|_| scope.spawn(|| client(*for_much, count)));
            clients.extend(each);
        }
        let answers: Result<_> = match scope.spawn(operator).join() {
            Ok(answers) => answers,
            Err(_) => Err("the operator has panicked".into()),
        };
        is_over.store(true, Ordering::Relaxed);
        for client in clients {
            client.join().map_err(|_| "a client has panicked")??;
        }
        answers
    })?;
    let [megabytes, small] = counts.map(|count| count.into_inner() as f64 / took.as_secs_f64());
    Ok(Mixed {
        megabytes,
        small,
        answers,
    })
}
