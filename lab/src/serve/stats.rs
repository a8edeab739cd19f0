//! What a runtime says of itself, in one form for all: the answer of `GET /stats` and of
//! `--stats-every`.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The accounts of a runtime since its start. What a runtime does not measure is absent, not zero.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct RuntimeStats {
    pub(crate) runtime: String,
    pub(crate) wall_us: u64,
    pub(crate) workers: Vec<WorkerTimes>,
    /// What each class had, where there are classes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) classes: Vec<ClassTimes>,
    /// The threads apart from the workers, where there are such.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) heavy: Option<Value>,
    /// Whose polls were too long, since the start.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) hogs: Vec<Value>,
    /// Tasks that are ready, and wait for a worker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tasks_active: Option<u64>,
    /// Tasks that live.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tasks: Option<u64>,
    /// Visits to the readiness queue by what brought the worker there.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) checks: BTreeMap<String, Checks>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) polls: Option<u64>,
    /// Wake-ups of readers with data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) deliveries: Option<u64>,
    /// What readers of sockets were brought, where it is counted by readers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) delivery: Option<Delivered>,
    /// How long tasks were ready before they were polled: the upper end of each bucket in
    /// microseconds, and how many waits it has.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) waits: Waits,
}

/// A histogram: the upper end of each bucket in microseconds, and how many it has.
pub(crate) type Waits = Vec<(f64, u64)>;

/// Where one worker spent its time in microseconds (`run_us` is polling futures, and for Tokio all
/// that is not parked; `lend_us` is standing back, so that threads apart from the workers have
/// their share), and how often it parked (`parks`).
pub(crate) type WorkerTimes = BTreeMap<String, u64>;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct ClassTimes {
    pub(crate) name: String,
    /// Its weight, where weights differ.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) share: Option<u32>,
    /// Processor time of its tasks, in microseconds.
    pub(crate) run_us: u64,
    /// How much of it was on threads apart from the workers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) heavy_us: Option<u64>,
    pub(crate) polls: u64,
    /// As [`RuntimeStats::waits`], of this class.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) waits: Waits,
}

/// What readers of sockets were brought.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Delivered {
    pub(crate) deliveries: u64,
    pub(crate) bytes: u64,
    /// Reads, and those of them that found nothing.
    pub(crate) reads: u64,
    pub(crate) empty_reads: u64,
    /// For how long deliveries were held back: the upper end of each bucket in microseconds, and
    /// how many it has. Buckets double.
    pub(crate) held_back: Waits,
    /// The longest of these since the start, in microseconds.
    #[serde(default)]
    pub(crate) longest_us: f64,
}

/// I/O checks of one origin.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Checks {
    pub(crate) total: u64,
    pub(crate) empty: u64,
}

/// A plain count, which orders nothing else.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    pub(crate) fn add(&self, more: u64) {
        // Relaxed, here and below: it orders nothing else.
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    pub(crate) fn less(&self, fewer: u64) {
        self.0.fetch_sub(fewer, Ordering::Relaxed);
    }

    /// One more; how many there were before it.
    pub(crate) fn next(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn read(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Whether numbers of that name are as they were last; all other whole numbers only grow.
fn is_gauge(name: &str) -> bool {
    let of_tasks = matches!(name, "tasks" | "tasks_active" | "hogs" | "share");
    of_tasks || matches!(name, "threads" | "limit" | "queued" | "running")
}

/// Takes from each account what it had earlier; what was not there then counts from zero.
fn subtract(now: &mut Value, earlier: &Value) {
    match (now, earlier) {
        (Value::Array(now), Value::Array(earlier)) => {
            std::iter::zip(now, earlier).for_each(|(now, earlier)| subtract(now, earlier));
        }
        (Value::Object(now), Value::Object(earlier)) => {
            for (name, now) in now.iter_mut().filter(|(name, _)| !is_gauge(name)) {
                subtract(now, earlier.get(name).unwrap_or(&Value::Null));
            }
        }
        (now, earlier) => {
            if let (Some(count), Some(earlier)) = (now.as_u64(), earlier.as_u64()) {
                *now = count.saturating_sub(earlier).into();
            }
        }
    }
}

impl RuntimeStats {
    /// What happened between `earlier` and this: the same accounts, for the time between the two.
    pub(crate) fn since(&self, earlier: &RuntimeStats) -> RuntimeStats {
        let plain = |stats| serde_json::to_value(stats).expect("numbers and words can be written");
        let mut since = plain(self);
        subtract(&mut since, &plain(earlier));
        serde_json::from_value(since).expect("it has the form that it had")
    }

    /// `us` of computing over wall time, where 1.0 is one whole core.
    fn cores(&self, us: u64) -> f64 {
        us as f64 / self.wall_us.max(1) as f64
    }

    /// Useful run time of all workers over wall time, where 1.0 is one whole core.
    pub(crate) fn utilisation_cores(&self) -> f64 {
        self.worker_cores("run_us").unwrap_or(0.0)
    }

    /// What the thread that looks for stuck workers used, where 1.0 is one whole core; `None` where
    /// there is no such thread.
    pub(crate) fn monitor_cores(&self) -> Option<f64> {
        Some(self.cores(self.heavy.as_ref()?["monitor_us"].as_u64()?))
    }

    /// The wait that a share of all, from 0 to 1, did not exceed: the upper end of its bucket, in
    /// microseconds. `None` where waits are not measured, or there were none.
    pub(crate) fn wait_us(&self, share: f64) -> Option<f64> {
        let total: u64 = self.waits.iter().map(|(_, count)| count).sum();
        let rank = (share * total as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        self.waits.iter().find_map(|&(upper, count)| {
            seen += count;
            (seen >= rank).then_some(upper)
        })
    }

    /// Time that all workers spun over wall time, in the same unit; `None` where spin is not
    /// counted apart.
    pub(crate) fn spin_cores(&self) -> Option<f64> {
        self.worker_cores("spin_us")
    }

    /// What all workers spent on something; `None` where that is not counted.
    fn worker_cores(&self, what: &str) -> Option<f64> {
        let spent: Option<u64> = self.workers.iter().map(|worker| worker.get(what)).sum();
        Some(self.cores(spent?))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn worker(run_us: u64, spin_us: Option<u64>) -> WorkerTimes {
        let spin = spin_us.map(|us| ("spin_us".to_owned(), us));
        [("run_us".to_owned(), run_us)]
            .into_iter()
            .chain(spin)
            .collect()
    }

    fn stats(wall_us: u64, run_us: u64, spin_us: Option<u64>, due: u64) -> RuntimeStats {
        let checks = [(
            "due".to_owned(),
            Checks {
                total: due,
                empty: due / 2,
            },
        )];
        RuntimeStats {
            wall_us,
            workers: vec![worker(run_us, spin_us)],
            checks: checks.into_iter().collect(),
            ..RuntimeStats::default()
        }
    }

    #[test]
    fn a_difference_is_of_every_account() {
        let between = stats(3_000, 900, Some(70), 40).since(&stats(1_000, 400, Some(20), 10));
        assert_eq!(
            between,
            RuntimeStats {
                wall_us: 2_000,
                workers: vec![worker(500, Some(50))],
                checks: [(
                    "due".to_owned(),
                    Checks {
                        total: 30,
                        empty: 15
                    }
                )]
                .into_iter()
                .collect(),
                ..RuntimeStats::default()
            }
        );
        assert_eq!(between.utilisation_cores(), 0.25);
        assert_eq!(between.spin_cores(), Some(0.025));
    }

    #[test]
    fn a_class_had_what_it_got_between_two_readings() {
        let classes = |run_us, heavy_us, hand_offs| RuntimeStats {
            classes: vec![ClassTimes {
                name: "bulk".to_owned(),
                run_us,
                heavy_us,
                waits: vec![(2.0, run_us)],
                ..ClassTimes::default()
            }],
            heavy: Some(json!({
                "threads": 3, "hand_offs": hand_offs, "monitor_us": 10 * hand_offs,
            })),
            ..RuntimeStats::default()
        };
        let between = classes(900, Some(7), 5).since(&classes(200, Some(4), 3));
        assert_eq!(between, classes(700, Some(3), 2));
        let over = RuntimeStats {
            wall_us: 1_000,
            ..between
        };
        assert_eq!(over.monitor_cores(), Some(0.02));
    }

    #[test]
    fn waits_are_counted_between_two_readings() {
        let waits = |counts: [u64; 3]| RuntimeStats {
            waits: [1.0, 2.0, 4.0].into_iter().zip(counts).collect(),
            ..RuntimeStats::default()
        };
        let between = waits([100, 99, 1]).since(&waits([100, 9, 0]));
        assert_eq!(between.wait_us(0.5), Some(2.0));
        assert_eq!(between.wait_us(0.99), Some(4.0));
        assert_eq!(waits([0, 0, 0]).wait_us(0.5), None);
        assert_eq!(RuntimeStats::default().wait_us(0.5), None);
    }

    #[test]
    fn deliveries_are_of_the_time_between_two_readings() {
        let held = |counts: [u64; 3]| Delivered {
            held_back: [10.0, 20.0, 40.0].into_iter().zip(counts).collect(),
            ..Delivered::default()
        };
        let with = |delivery| RuntimeStats {
            delivery,
            ..RuntimeStats::default()
        };
        let (before, after) = (held([0, 2, 1]), held([3, 2, 2]));
        let between = with(Some(after)).since(&with(Some(before)));
        assert_eq!(between.delivery, Some(held([3, 0, 1])));
        let first = with(Some(held([1, 1, 1]))).since(&with(None));
        assert_eq!(first.delivery, Some(held([1, 1, 1])));
    }

    #[test]
    fn what_is_not_measured_stays_absent() {
        let between = stats(3_000, 900, None, 0).since(&stats(1_000, 400, None, 0));
        assert_eq!(between.spin_cores(), None);
        let text = serde_json::to_string(&between).expect("plain data");
        assert!(!text.contains("spin_us"), "{text}");
        assert_eq!(
            serde_json::from_str::<RuntimeStats>(&text).expect("what was written"),
            between
        );
    }
}
