//! How much computing each delivery costs: so much that a server is nearly busy.

use serde::Serialize;

use super::measure::{Scene, load_of};
use super::rows::{IMMEDIATE, TOKIO};

/// The load at which everybody is compared.
const LOAD: f64 = 0.9;
/// Where nobody can be asked.
const ASSUMED_US: u64 = 10;
const US_MAX: f64 = 1_000.0;

/// The work, and how it was found.
#[derive(Debug, Serialize)]
pub(super) struct Work {
    pub(super) us: u64,
    /// Who was asked, and the load that it had with so much.
    of: Option<(&'static str, f64)>,
}

impl Work {
    pub(super) fn words(&self) -> String {
        match self.of {
            Some((name, load)) => format!(
                "Each delivery is followed by {} us of computing, the same for all: with it {name} \
                 uses {:.0} % of its processors (to be {:.0} %).",
                self.us,
                100.0 * load,
                100.0 * LOAD
            ),
            None => format!("Each delivery is followed by {} us of computing.", self.us),
        }
    }
}

/// Raises the work until Tokio is at 90 %: the same program on another runtime, delivered to at
/// each arrival, and so the most expensive of those that can be compared. All have the same work,
/// because what is compared is what the same bytes cost: raised for each runtime apart, work would
/// take back just what fewer deliveries save. Erlang's `once` is past 90 % without any.
pub(super) fn calibrate(scene: &Scene<'_>) -> Work {
    let present = |row: &&super::Row| scene.lab.lineup.present.contains(&row.peer);
    let Some(row) = [TOKIO, IMMEDIATE].iter().find(present).copied() else {
        return Work {
            us: ASSUMED_US,
            of: None,
        };
    };
    let mut us = ASSUMED_US;
    let mut last = None;
    for _ in 0..3 {
        let Ok((load, per_s)) = load_of(scene, &row, us) else {
            break;
        };
        last = Some((us, load));
        let next = corrected(us, load, per_s, scene.lab.workers);
        if next == us {
            break;
        }
        us = next;
    }
    Work {
        us: last.map_or(ASSUMED_US, |(us, _)| us),
        of: last.map(|(_, load)| (row.name, load)),
    }
}

/// The work with which the load would be right, if deliveries stayed as many.
fn corrected(us: u64, load: f64, deliveries_per_s: f64, workers: usize) -> u64 {
    let missing_us_per_s = (LOAD - load) * workers as f64 * 1e6;
    let more = missing_us_per_s / deliveries_per_s.max(1.0);
    (us as f64 + more).round().clamp(0.0, US_MAX) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_corrected_by_what_is_missing() {
        // 0.4 of a core is missing, to be spent on 40 000 deliveries a second.
        assert_eq!(corrected(0, 0.5, 40_000.0, 1), 10);
        assert_eq!(corrected(10, 0.9, 40_000.0, 1), 10);
        assert_eq!(corrected(10, 1.0, 40_000.0, 1), 8);
        assert_eq!(corrected(2, 1.0, 40_000.0, 2), 0);
        assert_eq!(corrected(10, 0.5, 0.0, 1), 1_000);
    }
}
