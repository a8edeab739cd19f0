//! Statistics on one screen.

use std::fmt::{self, Display, Formatter};
use std::time::Duration;

use super::classes::ClassStats;
use super::hogs::HogStats;
use super::lanes::LaneStats;
use super::show::{AtMost, Count, Cut, Percent, Time};
use super::snapshot::Stats;
use super::workers::WorkerStats;

/// So many rows of a list are shown; the others are only counted.
const ROWS_MAX: usize = 6;
/// So much of a future's type.
const FUTURE_MAX: usize = 60;

/// One screen: where the workers' time went, what each class got and how long it waited, who
/// hogged, and what is queued. For people; the format may change.
impl Display for Stats {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let wall = self.workers.iter().map(|worker| worker.wall).max();
        writeln!(
            f,
            "{} in {}, utilisation {}, occupancy {} of {}",
            Number(self.workers.len() as u64, "worker"),
            Time(wall),
            Percent(self.utilisation()),
            Percent(self.occupancy()),
            Processors(self.processors)
        )?;
        workers(f, &self.workers)?;
        classes(f, &self.classes)?;
        self.hogging(f)?;
        self.inputs(f)?;
        lanes(f, &self.lanes)?;
        self.taken_away(f)?;
        write!(
            f,
            "now         {}, {}, {}",
            Number(self.tasks_waiting as u64, "task"),
            Number(self.timers as u64, "timer"),
            Number(self.readiness.descriptors as u64, "descriptor"),
        )
    }
}

impl Stats {
    fn hogging(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let heavy = &self.heavy;
        if heavy.hand_offs > 0 || heavy.refused > 0 || !self.hogs.is_empty() {
            writeln!(
                f,
                "heavy pool  {} of {}, {} blocked, {} queued; {}, {} refused",
                heavy.threads,
                Number(heavy.limit as u64, "thread"),
                heavy.blocked,
                heavy.queued,
                Number(heavy.hand_offs, "hand-off"),
                heavy.refused
            )?;
        }
        for class in self.classes.iter().filter(|class| class.hogging > 0) {
            writeln!(
                f,
                "hogging     {} of {} under way, for {} at most",
                Number(class.hogging as u64, "poll"),
                Cut(&class.name, 32),
                Time::of(class.oldest_hog)
            )?;
        }
        let mut worst: Vec<_> = self.hogs.iter().filter(|hog| hog.count > 0).collect();
        worst.sort_by_key(|hog| std::cmp::Reverse(hog.total));
        for hog in worst.iter().take(ROWS_MAX) {
            hog.line(f)?;
        }
        more(f, worst.len(), "kind of tasks", "kinds of tasks")?;
        let found = self.hog_functions.iter().filter(|row| row.count > 0);
        let found: Vec<_> = found.collect();
        for row in found.iter().take(ROWS_MAX) {
            writeln!(f, "  in {row}")?;
        }
        more(f, found.len(), "function", "functions")
    }

    /// Only if it is something.
    fn taken_away(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let host = &self.host;
        let of = |time: Option<Duration>| time.unwrap_or_default();
        if of(host.stolen).is_zero() && of(host.throttled).is_zero() {
            return Ok(());
        }
        writeln!(
            f,
            "taken away  {} stolen by the host, {} throttled by a quota",
            Time(host.stolen),
            Time(host.throttled)
        )
    }

    fn inputs(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (checks, delivery) = (&self.checks, &self.delivery);
        writeln!(
            f,
            "I/O checks  {} ({} due, {} idle, {} spin, {} visits), {}",
            Count(checks.total()),
            Count(checks.due.total()),
            Count(checks.idle.total()),
            Count(checks.spin.total()),
            Count(checks.monitor.total()),
            Number(self.readiness.events, "event"),
        )?;
        if delivery.deliveries > 0 {
            writeln!(
                f,
                "deliveries  {} of {} bytes, {} ({} empty)",
                Count(delivery.deliveries),
                Count(delivery.bytes),
                Number(delivery.reads, "read"),
                Count(delivery.empty_reads)
            )?;
        }
        if self.output.writes > 0 {
            let bytes = Count(self.output.bytes);
            writeln!(
                f,
                "output      {} of {bytes} bytes",
                Number(self.output.writes, "write")
            )?;
        }
        Ok(())
    }
}

fn workers(f: &mut Formatter<'_>, rows: &[WorkerStats]) -> fmt::Result {
    if !rows.is_empty() {
        writeln!(
            f,
            "worker         run    check     spin    steal     lend     park    parks"
        )?;
    }
    for (index, worker) in rows.iter().enumerate().take(ROWS_MAX) {
        let part = |time: Duration| Percent(ratio(time, worker.wall));
        writeln!(
            f,
            "{index:<9} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8}",
            part(worker.run()),
            part(worker.check),
            part(worker.spin),
            part(worker.steal),
            part(worker.lend),
            part(worker.park),
            Count(worker.parks)
        )?;
    }
    more(f, rows.len(), "worker", "workers")
}

fn classes(f: &mut Formatter<'_>, rows: &[ClassStats]) -> fmt::Result {
    let shown: Vec<_> = rows
        .iter()
        .filter(|class| class.polls > 0 || class.ready > 0)
        .collect();
    let all: Duration = rows.iter().map(|class| class.run).sum();
    let shares = shown.iter().map(|class| class.share);
    let shares = shares.fold(0, u32::saturating_add);
    if !shown.is_empty() {
        writeln!(
            f,
            "class        share      got    polls     hogs    ready   oldest  wait p50      p99  \
             longest poll"
        )?;
    }
    for class in shown {
        let share = f64::from(class.share) / f64::from(shares.max(1));
        writeln!(
            f,
            "{:<9} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8}  {:>8} {:>8} {:>13}",
            Cut(&class.name, 9),
            Percent(share),
            Percent(ratio(class.run, all)),
            Count(class.polls),
            Count(class.hogs),
            Count(class.ready as u64),
            Time(Some(class.oldest_ready).filter(|_| class.ready > 0)),
            Time(class.waits.quantile(0.5)),
            Time(class.waits.quantile(0.99)),
            AtMost(class.poll_lengths.quantile(1.0))
        )?;
    }
    Ok(())
}

fn lanes(f: &mut Formatter<'_>, rows: &[LaneStats]) -> fmt::Result {
    let mut used: Vec<_> = rows
        .iter()
        .filter(|lane| {
            lane.done > 0
                || lane.refused > 0
                || lane.expired > 0
                || lane.busy > 0
                || lane.queued > 0
        })
        .collect();
    used.sort_by_key(|lane| std::cmp::Reverse(lane.done));
    for lane in used.iter().take(ROWS_MAX) {
        lane.line(f)?;
    }
    more(f, used.len(), "lane", "lanes")
}

impl LaneStats {
    fn line(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "lane        {}: {} of {} busy, {} queued, {} done in {}, waited {} (p99)",
            Cut(&self.name, 32),
            self.busy,
            Number(self.limit as u64, "thread"),
            Count(self.queued as u64),
            Count(self.done),
            Time(self.runs.mean()),
            Time(self.waits.quantile(0.99)),
        )?;
        if self.refused > 0 || self.expired > 0 {
            let (refused, expired) = (Count(self.refused), Count(self.expired));
            write!(f, "; {refused} refused, {expired} expired")?;
        }
        writeln!(f)
    }
}

impl HogStats {
    fn line(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mean = self.total.as_nanos() / u128::from(self.count.max(1));
        let mean = Duration::from_nanos(u64::try_from(mean).unwrap_or(u64::MAX));
        write!(f, "hog         {}", Number(self.count, "poll"))?;
        if self.blocked > 0 {
            write!(f, " ({} blocked)", Count(self.blocked))?;
        }
        write!(
            f,
            " of {}, at most {}, ",
            Time::of(mean),
            Time::of(self.longest)
        )?;
        match &self.name {
            Some(name) => writeln!(f, "`{}`, {}", Cut(name, 32), self.spawned_at),
            None => writeln!(f, "{}: {}", self.spawned_at, Cut(&self.future, FUTURE_MAX)),
        }
    }
}

fn more(f: &mut Formatter<'_>, rows: usize, one: &str, many: &str) -> fmt::Result {
    match rows.saturating_sub(ROWS_MAX) {
        0 => Ok(()),
        1 => writeln!(f, "            and 1 {one} more"),
        rest => writeln!(f, "            and {rest} {many} more"),
    }
}

fn ratio(part: Duration, all: Duration) -> f64 {
    if all.is_zero() {
        return 0.0;
    }
    part.as_secs_f64() / all.as_secs_f64()
}

/// Processors, of which a quota may leave a part.
struct Processors(f64);

impl Display for Processors {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let rounded = (self.0 * 100.0).round() / 100.0;
        let ending = if rounded == 1.0 { "" } else { "s" };
        write!(f, "{rounded} processor{ending}")
    }
}

/// So many of what this is one of.
struct Number(u64, &'static str);

impl Display for Number {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let ending = if self.0 == 1 { "" } else { "s" };
        write!(f, "{} {}{ending}", Count(self.0), self.1)
    }
}

#[cfg(test)]
mod tests;
