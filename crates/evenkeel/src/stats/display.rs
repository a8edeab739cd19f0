//! Statistics on one screen.

use std::fmt::{self, Display, Formatter};
use std::time::Duration;

use super::lanes::LaneStats;
use super::snapshot::{ClassStats, HogStats, Stats, WorkerStats};

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
            "{} in {}, utilisation {}",
            Number(self.workers.len() as u64, "worker"),
            Time(wall.unwrap_or_default()),
            Percent(self.utilisation())
        )?;
        workers(f, &self.workers)?;
        classes(f, &self.classes)?;
        self.hogging(f)?;
        self.inputs(f)?;
        lanes(f, &self.lanes)?;
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
        if heavy.hand_offs + heavy.refused > 0 || !self.hogs.is_empty() {
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
        let mut worst: Vec<_> = self.hogs.iter().filter(|hog| hog.count > 0).collect();
        worst.sort_by_key(|hog| std::cmp::Reverse(hog.total));
        for hog in worst.iter().take(ROWS_MAX) {
            hog.line(f)?;
        }
        more(f, worst.len(), "kind of tasks", "kinds of tasks")
    }

    fn inputs(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (checks, delivery) = (&self.checks, &self.delivery);
        writeln!(
            f,
            "I/O checks  {} ({} due, {} idle, {} spin, {} visits), {}",
            Many(checks.total()),
            Many(checks.due.total()),
            Many(checks.idle.total()),
            Many(checks.spin.total()),
            Many(checks.monitor.total()),
            Number(self.readiness.events, "event"),
        )?;
        if delivery.deliveries > 0 {
            writeln!(
                f,
                "deliveries  {} of {} bytes, {} ({} empty)",
                Many(delivery.deliveries),
                Many(delivery.bytes),
                Number(delivery.reads, "read"),
                Many(delivery.empty_reads)
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
            Many(worker.parks)
        )?;
    }
    more(f, rows.len(), "worker", "workers")
}

fn classes(f: &mut Formatter<'_>, rows: &[ClassStats]) -> fmt::Result {
    let shown: Vec<_> = rows.iter().filter(|class| class.polls > 0).collect();
    let all: Duration = rows.iter().map(|class| class.run).sum();
    let shares: u32 = shown.iter().map(|class| class.share).sum();
    if !shown.is_empty() {
        writeln!(
            f,
            "class        share      got    polls     hogs    ready  wait p50      p99  \
             longest poll"
        )?;
    }
    for class in shown {
        let share = f64::from(class.share) / f64::from(shares.max(1));
        writeln!(
            f,
            "{:<9} {:>8} {:>8} {:>8} {:>8} {:>8}  {:>8} {:>8} {:>13}",
            Cut(&class.name, 9),
            Percent(share),
            Percent(ratio(class.run, all)),
            Many(class.polls),
            Many(class.hogs),
            Many(class.ready as u64),
            Perhaps(class.waits.quantile(0.5)),
            Perhaps(class.waits.quantile(0.99)),
            Perhaps(class.poll_lengths.quantile(1.0))
        )?;
    }
    Ok(())
}

fn lanes(f: &mut Formatter<'_>, rows: &[LaneStats]) -> fmt::Result {
    let mut used: Vec<_> = rows
        .iter()
        .filter(|lane| lane.done + lane.refused + lane.expired > 0 || lane.busy + lane.queued > 0)
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
            Many(self.queued as u64),
            Many(self.done),
            Perhaps(self.runs.mean()),
            Perhaps(self.waits.quantile(0.99)),
        )?;
        if self.refused + self.expired > 0 {
            let (refused, expired) = (Many(self.refused), Many(self.expired));
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
            write!(f, " ({} blocked)", Many(self.blocked))?;
        }
        write!(f, " of {}, at most {}, ", Time(mean), Time(self.longest))?;
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

// ---- Numbers for people: each has at most eight characters, unless it is enormous ----

struct Percent(f64);

impl Display for Percent {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let percent = 100.0 * self.0;
        let digits = if percent < 9.95 { 1 } else { 0 };
        f.pad(&format!("{percent:.digits$} %"))
    }
}

/// Three digits and a unit.
struct Time(Duration);

impl Display for Time {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let nanos = self.0.as_nanos() as f64;
        let (value, unit) = match nanos {
            nanos if nanos < 999.5 => (nanos, "ns"),
            nanos if nanos < 999.5e3 => (nanos / 1e3, "us"),
            nanos if nanos < 999.5e6 => (nanos / 1e6, "ms"),
            nanos if nanos < 600e9 => (nanos / 1e9, "s"),
            nanos if nanos < 36_000e9 => (nanos / 60e9, "min"),
            nanos => (nanos / 3_600e9, "h"),
        };
        let digits = match value {
            value if value < 9.995 && unit != "ns" => 2,
            value if value < 99.95 && unit != "ns" => 1,
            _ => 0,
        };
        f.pad(&format!("{value:.digits$} {unit}"))
    }
}

struct Perhaps(Option<Duration>);

impl Display for Perhaps {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(time) => Time(time).fmt(f),
            None => f.pad("-"),
        }
    }
}

/// A count: exact up to 99 999, then three digits and a unit of thousands.
struct Many(u64);

impl Display for Many {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.0 < 100_000 {
            return f.pad(&self.0.to_string());
        }
        let (mut value, mut unit) = (self.0 as f64 / 1e3, 0);
        while value >= 999.5 && unit < 5 {
            value /= 1e3;
            unit += 1;
        }
        let digits = match value {
            value if value < 9.995 => 2,
            value if value < 99.95 => 1,
            _ => 0,
        };
        f.pad(&format!(
            "{value:.digits$} {}",
            ["k", "M", "G", "T", "P", "E"][unit]
        ))
    }
}

/// So many of what this is one of.
struct Number(u64, &'static str);

impl Display for Number {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let ending = if self.0 == 1 { "" } else { "s" };
        write!(f, "{} {}{ending}", Many(self.0), self.1)
    }
}

/// A text, cut where it is too long.
struct Cut<'a>(&'a str, usize);

impl Display for Cut<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Cut(text, max) = *self;
        match text.char_indices().nth(max) {
            None => f.pad(text),
            Some(_) => {
                let kept: String = text.chars().take(max - 2).collect();
                f.pad(&format!("{kept}.."))
            }
        }
    }
}

#[cfg(test)]
mod tests;
