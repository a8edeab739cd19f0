//! The metrics.

use std::collections::BTreeMap;
use std::time::Duration;

use evenkeel::stats::{CheckCounts, LaneStats, Stats, Waits, WorkerStats};

use super::Kind::{Counter, Gauge, Histogram};
use super::Value::{Count, Level, Seconds};
use super::{Family, Kind, Metric, Rows, Value};
use crate::snapshot::Snapshot;

const SECONDS: Option<&str> = Some("seconds");
const BYTES: Option<&str> = Some("bytes");
/// Bounds of buckets go from a microsecond to 67 seconds, each twice the one before.
const BOUNDS: u32 = 26;

const fn metric(
    (name, unit): (&'static str, Option<&'static str>),
    kind: Kind,
    labels: &'static [&'static str],
    help: &'static str,
    read: fn(&Snapshot, &mut Rows<'_>),
) -> Metric {
    let family = Family {
        name,
        help,
        kind,
        unit,
        labels,
    };
    Metric { family, read }
}

/// In the order in which they are written.
pub(super) const METRICS: &[Metric] = &[
    metric(
        ("evenkeel_worker_time", SECONDS),
        Counter,
        &["worker", "state"],
        "Time of a worker by what it did: run, check, spin, park, steal or lend; they add up to \
         its wall time",
        |snapshot, row| worker_time(&snapshot.stats, row),
    ),
    metric(
        ("evenkeel_utilisation_ratio", None),
        Gauge,
        &[],
        "Run time over wall time of all workers since the start; rate() of \
         evenkeel_worker_time_seconds_total has it for any time",
        |snapshot, row| row(&[], Level(snapshot.stats.utilisation())),
    ),
    metric(
        ("evenkeel_occupancy_ratio", None),
        Gauge,
        &[],
        "Run time of workers and of the heavy pool over the time of all processors since the \
         start; rate() of evenkeel_class_run_seconds_total, summed up, over evenkeel_processors \
         has it for any time",
        |snapshot, row| row(&[], Level(snapshot.stats.occupancy())),
    ),
    metric(
        ("evenkeel_processors", None),
        Gauge,
        &[],
        "Processors that the process might use when the runtime was built; a quota may leave parts",
        |snapshot, row| row(&[], Level(snapshot.stats.processors)),
    ),
    metric(
        ("evenkeel_worker_parks", None),
        Counter,
        &["worker"],
        "How often a worker slept",
        |snapshot, row| each_worker(&snapshot.stats, row, |worker| worker.parks),
    ),
    metric(
        ("evenkeel_worker_steals", None),
        Counter,
        &["worker"],
        "Tasks that a worker stole from others",
        |snapshot, row| each_worker(&snapshot.stats, row, |worker| worker.steals),
    ),
    metric(
        ("evenkeel_class_run", SECONDS),
        Counter,
        &["class"],
        "Time spent polling tasks of a class, on workers and in the heavy pool",
        |snapshot, row| {
            for class in &snapshot.stats.classes {
                row(&[&class.name], Seconds(class.run.as_secs_f64()));
            }
        },
    ),
    metric(
        ("evenkeel_class_heavy_run", SECONDS),
        Counter,
        &["class"],
        "The part of a class's run time that was spent in the heavy pool",
        |snapshot, row| {
            for class in &snapshot.stats.classes {
                row(&[&class.name], Seconds(class.heavy.as_secs_f64()));
            }
        },
    ),
    metric(
        ("evenkeel_class_share", None),
        Gauge,
        &["class"],
        "The share of a class: its weight when processor time is scarce",
        |snapshot, row| {
            for class in &snapshot.stats.classes {
                row(&[&class.name], Level(class.share.into()));
            }
        },
    ),
    metric(
        ("evenkeel_class_polls", None),
        Counter,
        &["class"],
        "Polls of tasks of a class",
        |snapshot, row| {
            for class in &snapshot.stats.classes {
                row(&[&class.name], Count(class.polls));
            }
        },
    ),
    metric(
        ("evenkeel_class_hogs", None),
        Counter,
        &["class"],
        "Polls of tasks of a class that were too long",
        |snapshot, row| {
            for class in &snapshot.stats.classes {
                row(&[&class.name], Count(class.hogs));
            }
        },
    ),
    metric(
        ("evenkeel_class_hogging", None),
        Gauge,
        &["class"],
        "Polls of tasks of a class that are under way and too long",
        |snapshot, row| {
            for class in &snapshot.stats.classes {
                row(&[&class.name], Level(class.hogging as f64));
            }
        },
    ),
    metric(
        ("evenkeel_class_oldest_hog", SECONDS),
        Gauge,
        &["class"],
        "For how long the one of these has lasted that began first; 0 if there is none",
        |snapshot, row| {
            for class in &snapshot.stats.classes {
                row(&[&class.name], Level(class.oldest_hog.as_secs_f64()));
            }
        },
    ),
    metric(
        ("evenkeel_hog_stacks", None),
        Counter,
        &["outcome"],
        "Stacks of such polls by what became of them: taken, skipped as there were too many, or \
         failed as the system refused or the thread did not answer; and reports that went unnamed",
        |snapshot, row| {
            let stacks = &snapshot.stats.hog_stacks;
            row(&["taken"], Count(stacks.taken));
            row(&["skipped"], Count(stacks.skipped));
            row(&["failed"], Count(stacks.failed));
            row(&["unnamed"], Count(stacks.unnamed));
        },
    ),
    metric(
        ("evenkeel_hog_function_polls", None),
        Counter,
        &["function", "class"],
        "Polls that were too long, by the function in which their first stack was taken; a sample",
        |snapshot, row| {
            each_hog_function(&snapshot.stats, |labels, polls, _| {
                row(&labels, Count(polls))
            });
        },
    ),
    metric(
        ("evenkeel_hog_function_run", SECONDS),
        Counter,
        &["function", "class"],
        "How long those polls took that have ended, by the clock",
        |snapshot, row| {
            each_hog_function(&snapshot.stats, |labels, _, time| {
                row(&labels, Seconds(time.as_secs_f64()));
            });
        },
    ),
    metric(
        ("evenkeel_class_wait", SECONDS),
        Histogram,
        &["class"],
        "How long tasks of a class were ready before they were polled",
        |snapshot, row| {
            for class in &snapshot.stats.classes {
                row(&[&class.name], histogram(&class.waits));
            }
        },
    ),
    metric(
        ("evenkeel_class_poll_length", SECONDS),
        Histogram,
        &["class"],
        "How long polls of tasks of a class took",
        |snapshot, row| {
            for class in &snapshot.stats.classes {
                row(&[&class.name], histogram(&class.poll_lengths));
            }
        },
    ),
    metric(
        ("evenkeel_class_ready", None),
        Gauge,
        &["class"],
        "Tasks of a class that are ready and wait to be polled",
        |snapshot, row| {
            for class in &snapshot.stats.classes {
                row(&[&class.name], Level(class.ready as f64));
            }
        },
    ),
    metric(
        ("evenkeel_class_oldest_ready", SECONDS),
        Gauge,
        &["class"],
        "About how long the one of these has waited that came first; it also grows while none is \
         polled, which evenkeel_class_wait_seconds does not count; 0 if there is none",
        |snapshot, row| {
            for class in &snapshot.stats.classes {
                row(&[&class.name], Level(class.oldest_ready.as_secs_f64()));
            }
        },
    ),
    metric(
        ("evenkeel_class_alive", None),
        Gauge,
        &["class"],
        "Tasks of a class that have been polled and have not completed",
        |snapshot, row| {
            for class in &snapshot.stats.classes {
                row(&[&class.name], Level(class.alive as f64));
            }
        },
    ),
    metric(
        ("evenkeel_heavy_threads", None),
        Gauge,
        &["doing"],
        "Threads of the heavy pool: running (in a poll), blocked (in a poll that sleeps), or all",
        |snapshot, row| {
            let heavy = &snapshot.stats.heavy;
            row(&["running"], Level(heavy.running as f64));
            row(&["blocked"], Level(heavy.blocked as f64));
            row(&["all"], Level(heavy.threads as f64));
        },
    ),
    metric(
        ("evenkeel_heavy_threads_limit", None),
        Gauge,
        &["doing"],
        "The most threads of the heavy pool that may be running and not blocked, and blocked",
        |snapshot, row| {
            let heavy = &snapshot.stats.heavy;
            row(&["running"], Level(heavy.limit as f64));
            row(&["blocked"], Level(heavy.blocked_limit as f64));
        },
    ),
    metric(
        ("evenkeel_heavy_queued", None),
        Gauge,
        &[],
        "Tasks that wait for a thread of the heavy pool",
        |snapshot, row| row(&[], Level(snapshot.stats.heavy.queued as f64)),
    ),
    metric(
        ("evenkeel_hand_offs", None),
        Counter,
        &[],
        "How often a worker's seat was taken from a thread that was stuck in a poll",
        |snapshot, row| row(&[], Count(snapshot.stats.heavy.hand_offs)),
    ),
    metric(
        ("evenkeel_hand_offs_refused", None),
        Counter,
        &[],
        "Hand-offs refused as the heavy pool had no thread left; one poll may count many times",
        |snapshot, row| row(&[], Count(snapshot.stats.heavy.refused)),
    ),
    metric(
        ("evenkeel_monitor_cpu", SECONDS),
        Counter,
        &[],
        "Processor time of the monitor, which looks for stuck workers",
        |snapshot, row| row(&[], Seconds(snapshot.stats.heavy.monitor.as_secs_f64())),
    ),
    metric(
        ("evenkeel_io_checks", None),
        Counter,
        &["origin", "outcome"],
        "I/O checks by why they were made (due, idle, spin, monitor) and whether events were found",
        |snapshot, row| io_checks(&snapshot.stats, row),
    ),
    metric(
        ("evenkeel_io_events", None),
        Counter,
        &[],
        "Events that reached a descriptor",
        |snapshot, row| row(&[], Count(snapshot.stats.readiness.events)),
    ),
    metric(
        ("evenkeel_io_descriptors", None),
        Gauge,
        &[],
        "Descriptors that are registered",
        |snapshot, row| row(&[], Level(snapshot.stats.readiness.descriptors as f64)),
    ),
    metric(
        ("evenkeel_deliveries", None),
        Counter,
        &[],
        "How often a reader was woken, or did not have to wait, and got bytes",
        |snapshot, row| row(&[], Count(snapshot.stats.delivery.deliveries)),
    ),
    metric(
        ("evenkeel_delivered", BYTES),
        Counter,
        &[],
        "Bytes that readers took from sockets",
        |snapshot, row| row(&[], Count(snapshot.stats.delivery.bytes)),
    ),
    metric(
        ("evenkeel_reads", None),
        Counter,
        &["outcome"],
        "Reads of sockets, each a system call, by whether they found anything",
        |snapshot, row| {
            let delivery = &snapshot.stats.delivery;
            let found = delivery.reads.saturating_sub(delivery.empty_reads);
            row(&["found"], Count(found));
            row(&["empty"], Count(delivery.empty_reads));
        },
    ),
    metric(
        ("evenkeel_lane_threads", None),
        Gauge,
        &["lane", "state"],
        "Threads of a lane of blocking work: busy, idle, and the most it may have (limit)",
        |snapshot, row| {
            for lane in &snapshot.stats.lanes {
                let name = lane.name.as_str();
                let idle = lane.threads.saturating_sub(lane.busy);
                row(&[name, "busy"], Level(lane.busy as f64));
                row(&[name, "idle"], Level(idle as f64));
                row(&[name, "limit"], Level(lane.limit as f64));
            }
        },
    ),
    metric(
        ("evenkeel_lane_queued", None),
        Gauge,
        &["lane"],
        "Work that waits for a thread of a lane",
        |snapshot, row| {
            for lane in &snapshot.stats.lanes {
                row(&[&lane.name], Level(lane.queued as f64));
            }
        },
    ),
    metric(
        ("evenkeel_lane_work", None),
        Counter,
        &["lane", "outcome"],
        "Work of a lane: done, refused as the queue was full, or expired as it waited too long",
        |snapshot, row| {
            for lane in &snapshot.stats.lanes {
                let name = lane.name.as_str();
                row(&[name, "done"], Count(lane.done));
                row(&[name, "refused"], Count(lane.refused));
                row(&[name, "expired"], Count(lane.expired));
            }
        },
    ),
    metric(
        ("evenkeel_lane_wait", SECONDS),
        Histogram,
        &["lane"],
        "How long work waited for a thread of a lane",
        |snapshot, row| each_lane(&snapshot.stats, row, |lane| &lane.waits),
    ),
    metric(
        ("evenkeel_lane_run", SECONDS),
        Histogram,
        &["lane"],
        "How long work of a lane took",
        |snapshot, row| each_lane(&snapshot.stats, row, |lane| &lane.runs),
    ),
    metric(
        ("evenkeel_timers", None),
        Gauge,
        &[],
        "Timers that are set",
        |snapshot, row| row(&[], Level(snapshot.stats.timers as f64)),
    ),
    metric(
        ("evenkeel_writes", None),
        Counter,
        &[],
        "Writes to sockets that took bytes, each a system call",
        |snapshot, row| row(&[], Count(snapshot.stats.output.writes)),
    ),
    metric(
        ("evenkeel_written", BYTES),
        Counter,
        &[],
        "Bytes that sockets took",
        |snapshot, row| row(&[], Count(snapshot.stats.output.bytes)),
    ),
    metric(
        ("evenkeel_host_stolen", SECONDS),
        Counter,
        &[],
        "Time in which the host of a virtual machine ran others on its processors",
        |snapshot, row| {
            if let Some(stolen) = snapshot.stats.host.stolen {
                row(&[], Seconds(stolen.as_secs_f64()));
            }
        },
    ),
    metric(
        ("evenkeel_host_throttled", SECONDS),
        Counter,
        &[],
        "Time in which threads could have run, and the quota of their control group was used up",
        |snapshot, row| {
            if let Some(throttled) = snapshot.stats.host.throttled {
                row(&[], Seconds(throttled.as_secs_f64()));
            }
        },
    ),
    metric(
        ("process_cpu", SECONDS),
        Counter,
        &[],
        "Processor time of all threads of the process",
        |snapshot, row| {
            if let Some(process) = &snapshot.process {
                row(&[], Seconds(process.cpu as f64 / 1e9));
            }
        },
    ),
    metric(
        ("process_resident_memory", BYTES),
        Gauge,
        &[],
        "Memory of the process that is in use",
        |snapshot, row| {
            if let Some(process) = &snapshot.process {
                row(&[], Level(process.resident as f64));
            }
        },
    ),
    metric(
        ("process_start_time", SECONDS),
        Gauge,
        &[],
        "When the process began, in seconds since 1970",
        |snapshot, row| {
            if let Some(process) = &snapshot.process {
                row(&[], Level(process.started_at_ms as f64 / 1e3));
            }
        },
    ),
    metric(
        ("process_open_fds", None),
        Gauge,
        &[],
        "Descriptors that are open; on Linux 6.2 and newer, where that costs nothing",
        |snapshot, row| {
            let process = snapshot.process.as_ref();
            if let Some(open) = process.and_then(|process| process.descriptors) {
                row(&[], Level(open as f64));
            }
        },
    ),
    metric(
        ("process_max_fds", None),
        Gauge,
        &[],
        "The most descriptors that the process may have open",
        |snapshot, row| {
            if let Some(process) = &snapshot.process {
                row(&[], Level(process.descriptors_max as f64));
            }
        },
    ),
    metric(
        ("process_context_switches", None),
        Counter,
        &["sort"],
        "How often threads of the process gave up a processor (voluntary) or lost it (involuntary)",
        |snapshot, row| {
            if let Some(process) = &snapshot.process {
                row(&["voluntary"], Count(process.voluntary_switches));
                row(&["involuntary"], Count(process.involuntary_switches));
            }
        },
    ),
];

fn worker_time(stats: &Stats, row: &mut Rows<'_>) {
    for (index, worker) in stats.workers.iter().enumerate() {
        let index = index.to_string();
        let states = [
            ("run", worker.run()),
            ("check", worker.check),
            ("spin", worker.spin),
            ("park", worker.park),
            ("steal", worker.steal),
            ("lend", worker.lend),
        ];
        for (state, time) in states {
            row(&[&index, state], Seconds(time.as_secs_f64()));
        }
    }
}

/// Each function with its class, whatever it had called: how many polls, and their time. There are
/// at most some hundred.
fn each_hog_function(stats: &Stats, mut each: impl FnMut([&str; 2], u64, Duration)) {
    let mut sums: BTreeMap<(&str, usize), (u64, Duration)> = BTreeMap::new();
    for row in &stats.hog_functions {
        let sum = sums.entry((&row.function, row.class.index())).or_default();
        sum.0 += row.count;
        sum.1 += row.total;
    }
    for ((function, class), (polls, time)) in sums {
        let class = stats.classes.get(class).map_or("", |class| &class.name);
        each([function, class], polls, time);
    }
}

fn each_worker(stats: &Stats, row: &mut Rows<'_>, count: fn(&WorkerStats) -> u64) {
    for (index, worker) in stats.workers.iter().enumerate() {
        row(&[&index.to_string()], Count(count(worker)));
    }
}

fn each_lane(stats: &Stats, row: &mut Rows<'_>, waits: fn(&LaneStats) -> &Waits) {
    for lane in &stats.lanes {
        row(&[&lane.name], histogram(waits(lane)));
    }
}

fn io_checks(stats: &Stats, row: &mut Rows<'_>) {
    let checks = &stats.checks;
    let origins: [(&str, CheckCounts); 4] = [
        ("due", checks.due),
        ("idle", checks.idle),
        ("spin", checks.spin),
        ("monitor", checks.monitor),
    ];
    for (origin, counts) in origins {
        row(&[origin, "found"], Count(counts.found));
        row(&[origin, "empty"], Count(counts.empty));
    }
}

/// With bounds that are the same on all machines, as those of other machines are added to them: a
/// wait counts below the first bound that it has surely not passed.
fn histogram(waits: &Waits) -> Value {
    let bound = |step: u32| Duration::from_micros(1 << step);
    let mut buckets: Vec<_> = (0..=BOUNDS)
        .map(|step| (bound(step).as_secs_f64(), 0))
        .collect();
    buckets.push((f64::INFINITY, 0));
    let mut step = 0;
    for (upper, count) in waits.buckets() {
        while step <= BOUNDS && bound(step) < upper {
            step += 1;
        }
        buckets[step as usize].1 += count;
    }
    let sum = waits.total().as_secs_f64();
    Value::Histogram { sum, buckets }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_has_what_surely_did_not_pass_its_bound() {
        let waits: Waits = serde_json::from_value(serde_json::json!({
            "buckets": [[900, 1], [1_000, 2], [1_100, 4], [2_000, 8], [67_108_864_000_u64, 16],
                [67_108_864_001_u64, 32]],
            "total": 5_000_000_000_u64,
        }))
        .unwrap();
        let Value::Histogram { sum, buckets } = histogram(&waits) else {
            panic!("a histogram");
        };
        assert_eq!(sum, 5.0);
        let filled: Vec<_> = buckets.iter().filter(|(_, count)| *count > 0).collect();
        let expected = [(1e-6, 3), (2e-6, 12), (67.108864, 16), (f64::INFINITY, 32)];
        assert_eq!(filled, expected.iter().collect::<Vec<_>>());
    }
}
