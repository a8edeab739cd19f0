//! What `show info` says of the runtime. To find it out, files of the system are read, which takes
//! as long as the rest of the answer several times; so it may be a second old.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use evenkeel::runtime::Handle;
use evenkeel::time::Instant;

/// How old an answer may be.
const AGE_MAX: Duration = Duration::from_secs(1);

/// What was found out last.
#[derive(Debug, Default)]
pub struct Brief(Mutex<Option<Known>>);

/// What there is to know.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known {
    at: Instant,
    /// How many workers there are.
    pub(super) workers: usize,
    /// How many tasks wait.
    pub(super) tasks: usize,
    /// How much of their time workers work, from 0 to 1.
    pub(super) utilisation: f64,
}

impl Brief {
    /// What is known, or is found out now.
    pub(super) fn look(&self, runtime: &Handle) -> Known {
        let now = Instant::now();
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = |known: &Known| now.saturating_duration_since(known.at) < AGE_MAX;
        if let Some(known) = known.filter(is_new) {
            return known;
        }
        let stats = runtime.stats();
        *known.insert(Known {
            at: now,
            workers: stats.workers.len(),
            tasks: stats.tasks_waiting,
            utilisation: stats.utilisation(),
        })
    }
}

#[cfg(test)]
mod tests {
    use evenkeel::runtime::Builder;

    use super::*;

    #[test]
    fn it_is_a_second_old_at_most() {
        let runtime = Builder::new().workers(1).start_paused(true).build();
        runtime.unwrap().block_on(async {
            let brief = Brief::default();
            let runtime = Handle::current();
            let first = brief.look(&runtime);
            assert_eq!(first.workers, 1);
            evenkeel::time::sleep(AGE_MAX / 2).await;
            assert_eq!(brief.look(&runtime).at, first.at);
            evenkeel::time::sleep(AGE_MAX / 2).await;
            assert_ne!(brief.look(&runtime).at, first.at);
        });
    }
}
