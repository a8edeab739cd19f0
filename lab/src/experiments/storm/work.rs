//! How much computing each delivery costs: so much that a server is nearly busy.

use serde::Serialize;

use super::measure::{Scene, load_of};
use super::rows::{IMMEDIATE, MBIT, Storm, TOKIO};
use crate::frames::FRAME_LEN;

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
    let Some(row) = [TOKIO, IMMEDIATE].iter().find(present).copied() else {
        return Work {
            us: ASSUMED_US,
            of: None,
        };
    };
    let mut us = ASSUMED_US;
    let mut last = None;
    let tries = if scene.lab.is_brief() { 2 } else { 3 };
    for _ in 0..tries {
        let Ok((load, per_s)) = load_of(scene, &row, storm, us) else {
            break;
        };
        let workers = scene.lab.workers;
        let each_us = load * workers as f64 * 1e6 / per_s.max(1.0);
        last = Some((us, each_us * bursts_per_s(storm) / (workers as f64 * 1e6)));
        let next = corrected(us, each_us, bursts_per_s(storm), workers);
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

/// Bursts that come in, each of which is a delivery where none is held back and the server is
/// nearly busy: before it comes to a burst, all of it is there.
fn bursts_per_s(storm: &Storm) -> f64 {
    f64::from(MBIT) * 1e6 / 8.0 / FRAME_LEN as f64 / f64::from(storm.burst)
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
        let per_s = bursts_per_s(&EVEN);
        assert_eq!(corrected(10, 21.0, per_s, 1), 10);
        assert_eq!(corrected(10, 19.0, per_s, 1), 12);
        assert_eq!(corrected(10, 42.0, per_s, 1), 0);
        assert_eq!(corrected(10, 21.0, per_s, 2), 31);
        assert_eq!(corrected(10, f64::INFINITY, per_s, 1), 0);
        // And 252 us for each burst of twelve.
        assert_eq!(corrected(10, 42.0, bursts_per_s(&BURSTS), 1), 220);
    }
}
