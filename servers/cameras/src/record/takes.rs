//! Takes groups of one camera from the hub into the backlog. It waits for nothing else, so it is
//! never late for long, whatever disks do.

use std::sync::Arc;
use std::time::SystemTime;

use tokio::sync::oneshot;

use super::gap::{Gap, Reason};
use super::queues::Queue;
use super::report::Report;
use crate::hub::{Event, Subscriber};
use crate::media::Gop;
use crate::mp4::origin::unix_us;

/// The task of one camera.
pub(super) struct Takes {
    queue: Arc<Queue>,
    report: Arc<Report>,
    /// The end alone: a group that was kept here would be memory of each camera.
    last_end: Option<SystemTime>,
    missed: u64,
}

impl Takes {
    /// Has taken nothing yet.
    pub(super) fn new(queue: &Arc<Queue>, report: &Arc<Report>) -> Self {
        Self {
            queue: Arc::clone(queue),
            report: Arc::clone(report),
            last_end: None,
            missed: 0,
        }
    }

    /// Takes what comes, until it is told to end or the camera is removed; then what is left, and
    /// the incomplete group as far as it has come.
    pub(super) async fn run(mut self, mut gops: Subscriber, mut ended: oneshot::Receiver<()>) {
        loop {
            let event = tokio::select! {
                event = gops.next() => event,
                _ = &mut ended => break,
            };
            if matches!(event, Event::Removed) {
                break;
            }
            self.take(event);
        }
        while let Some(event) = gops.rest() {
            self.take(event);
        }
    }

    fn take(&mut self, event: Event) {
        match event {
            Event::Gop(gop) => {
                if self.missed > 0 {
                    let gap = missing(self.last_end, &gop, std::mem::take(&mut self.missed));
                    self.report.lost(gap);
                    self.queue.missing(gap);
                }
                self.last_end = Some(gop.end.wall);
                self.queue.push(gop);
            }
            Event::Lagged { gops } => self.missed += gops,
            _ => {}
        }
    }
}

/// Groups that the hub no longer had.
fn missing(before: Option<SystemTime>, after: &Gop, gops: u64) -> Gap {
    let until_us = unix_us(after.start.wall);
    Gap {
        reason: Reason::Lagged,
        gops: u32::try_from(gops).unwrap_or(u32::MAX),
        bytes: 0,
        from_us: before.map_or(until_us, unix_us),
        until_us,
    }
}
