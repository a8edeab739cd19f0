//! The order in which a lane's work is done: urgent work first, and each class gets its share.
//!
//! Each class has a FIFO queue and a count of the thread time it has had, divided by its share, as
//! in stride scheduling (C. A. Waldspurger, W. E. Weihl, 1995). The class with the shortest latency
//! target goes first. But if it is ahead of the class that has had least by more than
//! [`Limits::lead`], that class goes first. So a little urgent work does not wait, and much of it
//! does not starve the others.
//!
//! Cancelled work is dropped at once; its ticket says where it is. Its entry becomes a gap. Gaps at
//! the front of a queue are removed, and all gaps once they outnumber the work. So a gap costs
//! amortized constant time, and a queue is at most twice as long as the work in it.
//!
//! There is no clock and no thread here: time is a number that the caller passes in.

use std::collections::VecDeque;

use crate::class::Class;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entitled {
    /// Its weight, at least 1.
    pub(crate) share: u32,
    /// Its latency target: the shortest goes first.
    pub(crate) target: u64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) queue: usize,
    pub(crate) wait: Option<u64>,
    /// How much thread time a class may have had beyond its share and still go first.
    pub(crate) lead: u64,
}

/// What a class was charged in advance for work that was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Charge {
    class: Class,
    /// As counted then: the class's share may change before the work is done.
    advance: u128,
}

#[derive(Debug)]
pub(crate) struct Order<T> {
    limits: Limits,
    rows: Box<[Row<T>]>,
    len: usize,
    /// The latest ticket.
    ticket: u64,
    /// The least time over share among the classes that had work when some was last taken.
    floor: u128,
}

#[derive(Debug)]
struct Waiting<T> {
    /// Ascends within a queue.
    ticket: u64,
    since: u64,
    /// Whether it may wait without limit.
    patient: bool,
    /// `None` once it has been cancelled.
    work: Option<T>,
}

#[derive(Debug)]
struct Row<T> {
    /// The queue. A gap is never first.
    line: VecDeque<Waiting<T>>,
    gaps: usize,
    entitled: Entitled,
    /// Thread time over share, in parts of 1 / [`SCALE`].
    had: u128,
    /// A moving mean of how long its work took.
    mean: u64,
}

/// The resolution of time over share: shares go up to 10 000.
const SCALE: u128 = 1 << 20;

impl<T> Row<T> {
    fn over_share(&self, time: u64) -> u128 {
        u128::from(time) * SCALE / u128::from(self.entitled.share.max(1))
    }

    fn take_first(&mut self) -> Option<(u64, T)> {
        let Waiting { since, work, .. } = self.line.pop_front()?;
        debug_assert!(work.is_some(), "a gap was first in its queue");
        self.close_gaps();
        work.map(|work| (since, work))
    }

    fn cancel(&mut self, ticket: u64) -> Option<T> {
        let place = (self.line)
            .binary_search_by_key(&ticket, |waiting| waiting.ticket)
            .ok()?;
        let work = self.line[place].work.take()?;
        self.gaps += 1;
        self.close_gaps();
        Some(work)
    }

    fn close_gaps(&mut self) {
        while self.line.front().is_some_and(Waiting::is_gap) {
            self.line.pop_front();
            self.gaps -= 1;
        }
        if self.gaps > self.line.len() / 2 {
            self.line.retain(|waiting| !waiting.is_gap());
            self.gaps = 0;
        }
        debug_assert!(!self.line.front().is_some_and(Waiting::is_gap));
        debug_assert!(self.gaps <= self.line.len() / 2);
    }
}

impl<T> Waiting<T> {
    fn is_gap(&self) -> bool {
        self.work.is_none()
    }
}

impl<T> Order<T> {
    /// For classes with these terms, in the order of their index.
    pub(crate) fn new(limits: Limits, classes: impl IntoIterator<Item = Entitled>) -> Self {
        let row = |entitled| Row {
            line: VecDeque::new(),
            gaps: 0,
            entitled,
            had: 0,
            mean: 0,
        };
        Self {
            limits,
            rows: classes.into_iter().map(row).collect(),
            len: 0,
            ticket: 0,
            floor: 0,
        }
    }

    /// The ticket by which the entry that is added next can be cancelled.
    pub(crate) fn next_ticket(&self) -> u64 {
        self.ticket + 1
    }

    /// Changes the terms of a class from now on. The time it has had stays as it was counted.
    pub(crate) fn entitle(&mut self, class: Class, entitled: Entitled) {
        self.rows[class.index()].entitled = entitled;
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// # Errors
    ///
    /// The queues are full: returns the work.
    pub(crate) fn push(&mut self, now: u64, class: Class, work: T) -> Result<(), T> {
        if self.len >= self.limits.queue {
            return Err(work);
        }
        self.add(now, class, work, false);
        Ok(())
    }

    /// Adds work that is subject to no limit, neither of number nor of time.
    pub(crate) fn push_anyway(&mut self, now: u64, class: Class, work: T) {
        self.add(now, class, work, true);
    }

    fn add(&mut self, since: u64, class: Class, work: T, patient: bool) {
        let row = &mut self.rows[class.index()];
        if row.line.is_empty() {
            // An idle class saves up no right to hold up the others.
            row.had = row.had.max(self.floor);
        }
        self.ticket += 1;
        debug_assert!((row.line.back()).is_none_or(|last| last.ticket < self.ticket));
        row.line.push_back(Waiting {
            ticket: self.ticket,
            since,
            patient,
            work: Some(work),
        });
        self.len += 1;
        self.check();
    }

    /// Asserts that `len` is the number of entries that are not gaps.
    fn check(&self) {
        let in_row = |row: &Row<T>| row.line.len() - row.gaps;
        debug_assert_eq!(self.len, self.rows.iter().map(in_row).sum::<usize>());
    }

    pub(crate) fn cancel(&mut self, ticket: u64) -> Option<T> {
        let work = (self.rows.iter_mut()).find_map(|row| row.cancel(ticket))?;
        self.len -= 1;
        self.check();
        Some(work)
    }

    /// Takes the work to be done next, with the time at which it was added.
    pub(crate) fn pop(&mut self) -> Option<(u64, T, Charge)> {
        let index = self.next_row()?;
        let row = &mut self.rows[index];
        let (since, work) = row.take_first()?;
        let advance = row.over_share(row.mean);
        row.had += advance;
        self.len -= 1;
        self.check();
        let class = Class::at(index);
        Some((since, work, Charge { class, advance }))
    }

    /// The row whose work is to be done next.
    fn next_row(&mut self) -> Option<usize> {
        let with_work = |(_, row): &(usize, &Row<T>)| !row.line.is_empty();
        let rows = || self.rows.iter().enumerate().filter(with_work);
        let (least_index, least) = rows().min_by_key(|(_, row)| row.had)?;
        let floor = least.had;
        let within =
            |(_, row): &(usize, &Row<T>)| row.had - floor <= row.over_share(self.limits.lead);
        let first = rows()
            .filter(within)
            .min_by_key(|(_, row)| (row.entitled.target, row.had));
        let index = first.map_or(least_index, |(index, _)| index);
        self.floor = self.floor.max(floor);
        Some(index)
    }

    pub(crate) fn usual(&self, class: Class) -> u64 {
        self.rows[class.index()].mean
    }

    /// Work that was taken has been done.
    pub(crate) fn done(&mut self, charge: Charge, took: u64) {
        let most = self.floor;
        let lead = self.limits.lead.saturating_mul(4);
        let row = &mut self.rows[charge.class.index()];
        row.mean = row.mean - row.mean / 8 + took / 8;
        let had = (row.had + row.over_share(took)).saturating_sub(charge.advance);
        // Bounded, so that work that hung for an hour does not keep its class out for as long.
        row.had = had.min(most.max(row.had) + row.over_share(lead));
    }

    pub(crate) fn undone(&mut self, charge: Charge) {
        let row = &mut self.rows[charge.class.index()];
        row.had = row.had.saturating_sub(charge.advance);
    }

    /// Takes work that has waited too long, oldest first within its class.
    pub(crate) fn take_expired(&mut self, now: u64) -> Vec<(u64, T)> {
        let mut expired = Vec::new();
        let Some(wait) = self.limits.wait else {
            return expired;
        };
        for row in &mut self.rows {
            let late = |waiting: &Waiting<T>| now.saturating_sub(waiting.since) >= wait;
            let late = row.line.iter().take_while(|waiting| late(waiting)).count();
            let old: Vec<_> = row.line.drain(..late).collect();
            let (patient, given_up): (Vec<_>, Vec<_>) =
                old.into_iter().partition(|waiting| waiting.patient);
            patient
                .into_iter()
                .rev()
                .for_each(|waiting| row.line.push_front(waiting));
            for old in given_up {
                match old.work {
                    Some(work) => expired.push((old.since, work)),
                    None => row.gaps -= 1,
                }
            }
            row.close_gaps();
        }
        self.len -= expired.len();
        self.check();
        expired
    }

    /// When the next entry will have waited too long.
    pub(crate) fn next_expiry(&self) -> Option<u64> {
        let wait = self.limits.wait?;
        let impatient = |row: &Row<T>| {
            let mut line = row.line.iter();
            line.find(|waiting| !waiting.patient && !waiting.is_gap())
                .map(|waiting| waiting.since.saturating_add(wait))
        };
        self.rows.iter().filter_map(impatient).min()
    }

    /// Takes all work, in the order in which it would be done.
    pub(crate) fn take_all(&mut self) -> Vec<T> {
        std::iter::from_fn(|| self.pop())
            .map(|(_, work, _)| work)
            .collect()
    }
}

#[cfg(test)]
mod tests;
