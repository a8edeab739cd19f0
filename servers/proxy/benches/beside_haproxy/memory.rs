//! The memory of a connection that waits: what a fresh process has more of, with thousands of them.

use std::thread;
use std::time::{Duration, Instant};

use evenkeel_measure::rounds::alternate;

use super::clients::{Kept, LIMIT, connect};
use super::proxies::{Kind, Machine, Proxy};
use super::rows::Rows;
use super::{Plan, Result};

const CONNECTIONS: usize = 4_000;

/// After so long a process gives back what the names of hogs took: megabytes for a while,
/// however many connections there are.
const SETTLED: Duration = Duration::from_secs(12);

type Measure = fn(&Machine, &Proxy) -> Result<f64>;

pub(crate) fn idle(plan: &Plan<'_>) -> Result<Rows> {
    let kinds = [Kind::Ours, Kind::Copying];
    let what = "memory of a process for each connection that waits, in bytes: less is better";
    let mut rows = Rows::new(what, &kinds, 0);
    let loads: [(&str, Measure); 2] = [
        ("HTTP, between two requests", kept),
        ("TCP, connected to its server", silent),
    ];
    for (name, measure) in loads {
        if plan.wants(name) {
            let measure = |&kind: &Kind| measure(plan.machine, &plan.machine.start(kind)?);
            rows.add(
                name,
                &["<= 1.00"],
                &alternate(plan.rounds.rounds(), &kinds, measure)?,
            );
        }
    }
    Ok(rows)
}

fn kept(_: &Machine, proxy: &Proxy) -> Result<f64> {
    let mut buffer = vec![0; 64 * 1_024];
    let one = |buffer: &mut [u8]| {
        let mut kept = Kept::connect(proxy.http)?;
        kept.ask(false, buffer)?;
        Ok(kept)
    };
    let first = one(&mut buffer)?;
    let before = proxy.own_bytes()?;
    let all: Result<Vec<_>> = (0..CONNECTIONS).map(|_| one(&mut buffer)).collect();
    let all = (first, all?);
    thread::sleep(SETTLED);
    let more = proxy.own_bytes()? - before;
    drop(all);
    Ok(more / CONNECTIONS as f64)
}

/// So many connect at once: more than wait in a backlog would be turned away by the system.
const BATCH: usize = 100;

fn silent(machine: &Machine, proxy: &Proxy) -> Result<f64> {
    machine.origins.let_go();
    let mut all = Vec::with_capacity(CONNECTIONS + 1);
    let mut grow = |count: usize| -> Result<()> {
        while all.len() < count {
            let more = BATCH.min(count - all.len());
            for _ in 0..more {
                all.push(connect(proxy.silent)?);
            }
            let began = Instant::now();
            while machine.origins.held() < all.len() {
                if began.elapsed() > LIMIT {
                    let (held, made) = (machine.origins.held(), all.len());
                    return Err(format!("{held} connections of {made} got to their server").into());
                }
                thread::sleep(Duration::from_millis(1));
            }
        }
        Ok(())
    };
    grow(1)?;
    let before = proxy.own_bytes()?;
    grow(CONNECTIONS + 1)?;
    thread::sleep(SETTLED);
    let more = proxy.own_bytes()? - before;
    drop(all);
    machine.origins.let_go();
    Ok(more / CONNECTIONS as f64)
}
