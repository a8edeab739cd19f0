//! What a runtime says of itself, in one form for all: the answer of `GET /stats` and of
//! `--stats-every`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The accounts of a runtime since its start. What a runtime does not measure is absent, not zero.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct RuntimeStats {
    /// Its name.
    pub(crate) runtime: String,
    /// Time since its start.
    pub(crate) wall_us: u64,
    /// Where its workers spent that time.
    pub(crate) workers: Vec<WorkerTimes>,
    /// Tasks that live.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tasks: Option<u64>,
    /// Visits to the readiness queue by what brought the worker there.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) checks: BTreeMap<String, Checks>,
    /// Polls of futures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) polls: Option<u64>,
    /// Wake-ups of readers with data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) deliveries: Option<u64>,
}

/// Where one worker spent its time, in microseconds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct WorkerTimes {
    /// Polling futures; for Tokio all that is not parked.
    pub(crate) run_us: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) check_us: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) spin_us: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) park_us: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) steal_us: Option<u64>,
    /// How often it parked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) parks: Option<u64>,
}

/// I/O checks of one origin.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Checks {
    /// All of them.
    pub(crate) total: u64,
    /// Those that found nothing ready.
    pub(crate) empty: u64,
}

impl RuntimeStats {
    /// What happened between `earlier` and this: the same accounts, for the time between the two.
    pub(crate) fn since(&self, earlier: &RuntimeStats) -> RuntimeStats {
        let less =
            |now: Option<u64>, then: Option<u64>| Some(now?.saturating_sub(then.unwrap_or(0)));
        let worker = |(now, then): (&WorkerTimes, &WorkerTimes)| WorkerTimes {
            run_us: now.run_us.saturating_sub(then.run_us),
            check_us: less(now.check_us, then.check_us),
            spin_us: less(now.spin_us, then.spin_us),
            park_us: less(now.park_us, then.park_us),
            steal_us: less(now.steal_us, then.steal_us),
            parks: less(now.parks, then.parks),
        };
        let checks = |(origin, now): (&String, &Checks)| {
            let then = earlier.checks.get(origin).copied().unwrap_or_default();
            let total = now.total.saturating_sub(then.total);
            let empty = now.empty.saturating_sub(then.empty);
            (origin.clone(), Checks { total, empty })
        };
        RuntimeStats {
            runtime: self.runtime.clone(),
            wall_us: self.wall_us.saturating_sub(earlier.wall_us),
            workers: self
                .workers
                .iter()
                .zip(&earlier.workers)
                .map(worker)
                .collect(),
            tasks: self.tasks,
            checks: self.checks.iter().map(checks).collect(),
            polls: less(self.polls, earlier.polls),
            deliveries: less(self.deliveries, earlier.deliveries),
        }
    }

    /// Useful run time of all workers over wall time, where 1.0 is one whole core.
    pub(crate) fn utilisation_cores(&self) -> f64 {
        self.workers.iter().map(|worker| worker.run_us).sum::<u64>() as f64
            / self.wall_us.max(1) as f64
    }

    /// Time that all workers spun over wall time, in the same unit; `None` where spin is not
    /// counted apart.
    pub(crate) fn spin_cores(&self) -> Option<f64> {
        let spun: Option<u64> = self.workers.iter().map(|worker| worker.spin_us).sum();
        Some(spun? as f64 / self.wall_us.max(1) as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            workers: vec![WorkerTimes {
                run_us,
                spin_us,
                ..WorkerTimes::default()
            }],
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
                workers: vec![WorkerTimes {
                    run_us: 500,
                    spin_us: Some(50),
                    ..WorkerTimes::default()
                }],
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
