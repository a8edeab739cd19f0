//! How the recording of a camera is doing, for whoever asks.

use std::sync::{Mutex, MutexGuard, PoisonError};

use evenkeel::time::Instant;
use servers_common::counters::Counter;

use super::gap::{Gap, Reason};
use crate::media::Gop;

/// How many of the last gaps are shown.
const GAPS_SHOWN: usize = 16;

/// Written by the camera's tasks, read by anybody.
#[derive(Debug, Default)]
pub struct Report {
    state: Mutex<State>,
    gops: Counter,
    bytes: Counter,
    segments: Counter,
    failures: Counter,
    /// Groups that were lost, by reason.
    lost: [Counter; Reason::ALL.len()],
    lost_bytes: Counter,
}

#[derive(Debug, Default)]
struct State {
    busy_since: Option<Instant>,
    error: Option<String>,
    gaps: std::collections::VecDeque<Gap>,
}

/// A report at one time.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reported {
    /// For how long the disk has been writing the same group.
    pub busy_for: Option<std::time::Duration>,
    /// What went wrong last, if nothing was written since.
    pub error: Option<String>,
    /// Groups that were written.
    pub gops: u64,
    /// Bytes of their samples.
    pub bytes: u64,
    /// Segments that were begun.
    pub segments: u64,
    /// Failures.
    pub failures: u64,
    /// Groups that were lost, by reason.
    pub lost: Vec<(Reason, u64)>,
    /// Bytes of their samples.
    pub lost_bytes: u64,
    /// The last gaps, from the oldest on.
    pub gaps: Vec<Gap>,
}

impl Report {
    pub(super) fn begins(&self) {
        self.state().busy_since = Some(Instant::now());
    }

    pub(super) fn ends(&self) {
        self.state().busy_since = None;
    }

    pub(super) fn began(&self) {
        self.segments.one();
    }

    pub(super) fn wrote(&self, gop: &Gop) {
        self.gops.one();
        self.bytes.add(gop.bytes() as u64);
        self.state().error = None;
    }

    pub(super) fn failed(&self, error: String) {
        self.failures.one();
        self.state().error = Some(error);
    }

    pub(super) fn lost(&self, gap: Gap) {
        self.lost[usize::from(gap.reason.code())].add(u64::from(gap.gops));
        self.lost_bytes.add(gap.bytes);
        let gaps = &mut self.state().gaps;
        match gaps.back_mut() {
            // One after the other is one gap.
            Some(last) if last.reason == gap.reason && last.until_us >= gap.from_us => {
                *last = last.and(gap);
            }
            _ => gaps.push_back(gap),
        }
        while gaps.len() > GAPS_SHOWN {
            gaps.pop_front();
        }
    }

    /// How it is doing.
    pub fn read(&self) -> Reported {
        let state = self.state();
        Reported {
            busy_for: state.busy_since.map(|since| since.elapsed()),
            error: state.error.clone(),
            gops: self.gops.total(),
            bytes: self.bytes.total(),
            segments: self.segments.total(),
            failures: self.failures.total(),
            lost: (Reason::ALL.iter().zip(&self.lost))
                .map(|(reason, counter)| (*reason, counter.total()))
                .collect(),
            lost_bytes: self.lost_bytes.total(),
            gaps: state.gaps.iter().copied().collect(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Fields that are set at once, which no panic leaves half-done.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
