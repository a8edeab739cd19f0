//! Where the records of a connection's producers have a gap.
//!
//! ```text
//!   1 ──▶ refused, as its store is away          1 ──▶ stored
//!   2 ──▶ refused, though its store is back      2 ──▶ stored, behind 1
//! ```
//!
//! A producer repeats a record that was refused like this, with all behind it, and they are to be
//! in the log in their order. A log in a directory knows which number of a producer is next. NATS
//! does not: without this it would store what came behind a record that is yet to be repeated.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use txlog_client::frame::{Code, Produced};

use crate::store::StoreError;

/// Of how many producers gaps are known. A session has one at a time on its connection.
const PRODUCERS_MAX: usize = 16;

/// The first number that was refused of each producer, until it comes again. The oldest is
/// forgotten when there are too many.
#[derive(Debug, Default)]
pub(super) struct Gaps(Mutex<VecDeque<Produced>>);

impl Gaps {
    /// A producer's records were refused for this.
    pub(super) fn refused(&self, produced: Produced, code: Code) {
        if !(code.is_of_failed_log() || matches!(code, Code::Closing | Code::Busy)) {
            return;
        }
        let mut gaps = self.lock();
        if let Some(gap) = of(&mut gaps, produced) {
            gap.number = gap.number.min(produced.number);
            return;
        }
        if gaps.len() == PRODUCERS_MAX {
            gaps.pop_front();
        }
        gaps.push_back(produced);
    }

    /// Lets records pass, unless one before them was refused and has not come again.
    pub(super) fn pass(&self, produced: Produced) -> Result<(), StoreError> {
        let mut gaps = self.lock();
        let Some(gap) = of(&mut gaps, produced).copied() else {
            return Ok(());
        };
        if produced.number > gap.number {
            let (number, missing) = (produced.number, gap.number);
            let text = format!(
                "the producer's record {number} is not stored, as its record {missing} was \
                 refused: send them again from that one on"
            );
            return Err(StoreError {
                numbers: Some([missing, 0]),
                ..StoreError::new(Code::ProducerGap, text)
            });
        }
        gaps.retain(|gap| gap.producer != produced.producer);
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Produced>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn of(gaps: &mut VecDeque<Produced>, produced: Produced) -> Option<&mut Produced> {
    gaps.iter_mut()
        .find(|gap| gap.producer == produced.producer)
}

#[cfg(test)]
mod tests;
