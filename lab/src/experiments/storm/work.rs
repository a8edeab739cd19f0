//! How much computing each delivery costs: so much that a server is nearly busy.

use serde::Serialize;

use super::measure::{Scene, load_of};
use super::rows::{IMMEDIATE, Storm, TOKIO};

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
pub(super) fn calibrate(scene: &Scene<'_>, storm: &Storm) -> Work {
    let present = |row: &&super::Row| scene.lab.lineup.present.contains(&row.peer);
    let asked = [TOKIO, IMMEDIATE].iter().find(present).copied();
    let (mut us, mut found) = (ASSUMED_US, None);
    let tries = if scene.lab.is_brief() { 2 } else { 3 };
    for row in asked.into_iter().cycle().take(tries) {
        let Ok((load, per_s)) = load_of(scene, &row, storm, us) else {
            break;
        };
        let workers = scene.lab.workers;
        let each_us = load * workers as f64 * 1e6 / per_s.max(1.0);
        let load = each_us * storm.bursts_per_s() / (workers as f64 * 1e6);
        found = Some((us, (row.name, load)));
        let next = corrected(us, each_us, storm.bursts_per_s(), workers);
        if next == us {
            break;
        }
        us = next;
    }
    Work {
        us: found.map_or(ASSUMED_US, |(us, _)| us),
        of: found.map(|(_, of)| of),
    }
}

/// The work with which the load would be right, if a delivery with `us` of it costs `each_us`. By
/// the cost of one, as fewer may come in where the machine has other work.
fn corrected(us: u64, each_us: f64, per_s: f64, workers: usize) -> u64 {
    let affordable_us = LOAD * workers as f64 * 1e6 / per_s;
    let next = us as f64 + affordable_us - each_us;
    next.round().clamp(0.0, US_MAX) as u64
}

#[cfg(test)]
mod tests {
    use super::super::rows::{BURSTS, EVEN};
    use super::*;

    #[test]
    fn work_is_corrected_by_what_is_missing() {
        // Nine tenths of a core are 21 us for each of 42 808 frames.
        let per_s = EVEN.bursts_per_s();
        assert_eq!(corrected(10, 21.0, per_s, 1), 10);
        assert_eq!(corrected(10, 19.0, per_s, 1), 12);
        assert_eq!(corrected(10, 42.0, per_s, 1), 0);
        assert_eq!(corrected(10, 21.0, per_s, 2), 31);
        assert_eq!(corrected(10, f64::INFINITY, per_s, 1), 0);
        // And 252 us for each burst of twelve.
        assert_eq!(corrected(10, 42.0, BURSTS.bursts_per_s(), 1), 220);
    }
}
