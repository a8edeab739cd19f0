//! Records that are given up, and with each what its producer sent behind it over the same
//! connection: the producer sends all of them again, and they are to be stored in that order.

use std::collections::HashMap;

use txlog_client::frame::Produced;

use super::{Entry, State};
use crate::log::gaps::Gaps;
use crate::store::StoreError;

/// Why a record is given up whose producer is to send an earlier one again.
const BEHIND: &str = "a record of its producer before it was given up";

/// A record's number among those of its producer.
#[derive(Clone, Debug)]
pub(in crate::nats) struct Numbered {
    pub(in crate::nats) produced: Produced,
    /// Those of the connection over which it came, if it came over one.
    pub(in crate::nats) gaps: Option<Gaps>,
}

impl Numbered {
    /// Lets it pass, unless one before it has to come again.
    pub(super) fn pass(&self) -> Result<(), StoreError> {
        let gaps = self.gaps.as_ref();
        Ok(gaps.map_or(Ok(()), |gaps| gaps.pass(self.produced))?)
    }

    /// It has to come again.
    fn refused(&self) {
        if let Some(gaps) = &self.gaps {
            gaps.refused(self.produced);
        }
    }

    /// Whose it is, over which connection.
    fn line(&self) -> Line {
        (self.produced.producer, self.gaps.clone())
    }
}

type Line = (u128, Option<Gaps>);

/// Which records are given up. All of it is done with the lock that new ones need as well, so that
/// none comes between.
#[derive(Default)]
pub(super) struct GivenUp {
    /// Each by its id, and whether it is for one before it.
    all: Vec<(u64, bool)>,
    /// The least number of each producer that has to come again.
    first: HashMap<Line, u64>,
}

impl GivenUp {
    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Notes that a record has to come again.
    pub(super) fn note(&mut self, entry: &Entry) {
        if let Some(numbered) = &entry.produced {
            numbered.refused();
            let number = numbered.produced.number;
            let first = self.first.entry(numbered.line()).or_insert(number);
            *first = number.min(*first);
        }
    }

    /// Gives up a record.
    pub(super) fn add(&mut self, id: u64, entry: &Entry) {
        self.note(entry);
        self.all.push((id, false));
    }

    /// Gives up a record if it is behind one that has to come again.
    pub(super) fn add_behind(&mut self, id: u64, entry: &Entry) -> bool {
        // Asked of each record that is sent, and nearly always so.
        if self.first.is_empty() {
            return false;
        }
        let first = |numbered: &Numbered| self.first.get(&numbered.line()).copied();
        let is_behind = entry.produced.as_ref().is_some_and(|numbered| {
            first(numbered).is_some_and(|first| numbered.produced.number > first)
        });
        if is_behind {
            self.all.push((id, true));
            if let Some(numbered) = &entry.produced {
                numbered.refused();
            }
        }
        is_behind
    }

    /// Takes them out.
    pub(super) fn take(self, state: &mut State) -> Vec<(Entry, bool)> {
        let taken = |(id, is_behind)| Some((state.by_id.remove(&id)?, is_behind));
        self.all.into_iter().filter_map(taken).collect()
    }
}

/// Tells whoever waits for them that they are given up; why, if it is for none before it.
pub(super) fn tell(entries: Vec<(Entry, bool)>, why: &str) {
    for (entry, is_behind) in entries {
        entry.give_up(if is_behind { BEHIND } else { why });
    }
}
