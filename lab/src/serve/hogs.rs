//! Tasks that do nothing but compute: a fixed number of them that go on for ever (`--hogs`), and
//! fresh ones at a steady rate that each compute once (`--burn`).

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use super::args::{Burn, HogPoll, HogYield};
use super::platform::Platform;
use super::work::Done;

/// Fresh tasks that may be under way at once. A runtime that falls behind further sheds load, which
/// its count of work shows.
pub(crate) const BURNING_MAX: usize = 1_000;

pub(crate) fn spawn<P: Platform>(
    hogs: usize,
    poll: HogPoll,
    yields: HogYield,
    class: Option<P::Class>,
    done: &Done,
) {
    for _ in 0..hogs {
        let done = done.clone();
        match (poll, yields) {
            (HogPoll::Micros(us), HogYield::Runtime) => P::spawn_in(class, "hog", async move {
                loop {
                    done.compute(us);
                    P::yield_now().await;
                }
            }),
            (HogPoll::Micros(us), HogYield::Wake) => {
                let hog = poll_fn(move |cx| {
                    done.compute(us);
                    cx.waker().wake_by_ref();
                    Poll::Pending
                });
                P::spawn_in(class, "hog", hog);
            }
            (HogPoll::Never, _) => P::spawn_in(class, "hog", async move { never_yield(&done) }),
        }
    }
}

/// Computes until the process ends.
pub(crate) fn never_yield(done: &Done) -> ! {
    loop {
        done.compute(1_000);
    }
}

/// Spawns what is due, for ever: the schedule is fixed, so a spawner that was held up catches up.
pub(crate) async fn burn<P: Platform>(burn: Burn, class: Option<P::Class>, done: Done) {
    let mut schedule = Schedule::new(Instant::now(), burn.per_second);
    loop {
        for _ in 0..schedule.due(Instant::now()) {
            if let Some(place) = schedule.place() {
                let done = done.clone();
                P::spawn_in(class, "burn", async move {
                    done.compute(burn.us);
                    drop(place);
                });
            }
        }
        P::sleep(schedule.until_next(Instant::now())).await;
    }
}

/// When fresh tasks are due, and how many of them are under way.
pub(crate) struct Schedule {
    start: Instant,
    per_second: u32,
    begun: u64,
    /// Each of those under way has a clone.
    under_way: Arc<()>,
}

impl Schedule {
    pub(crate) fn new(start: Instant, per_second: u32) -> Self {
        Schedule {
            start,
            per_second,
            begun: 0,
            under_way: Arc::default(),
        }
    }

    /// How many came due since this was asked last.
    pub(crate) fn due(&mut self, now: Instant) -> u64 {
        let elapsed = now.saturating_duration_since(self.start).as_secs_f64();
        let due = (elapsed * f64::from(self.per_second)) as u64;
        let new = due.saturating_sub(self.begun);
        self.begun += new;
        new
    }

    /// How long until the next one is due.
    pub(crate) fn until_next(&self, now: Instant) -> Duration {
        let at = (self.begun + 1) as f64 / f64::from(self.per_second);
        (self.start + Duration::from_secs_f64(at)).saturating_duration_since(now)
    }

    /// A place for one more, unless too many are under way; dropping it gives it back.
    pub(crate) fn place(&self) -> Option<Arc<()>> {
        let under_way = Arc::strong_count(&self.under_way) - 1;
        (under_way < BURNING_MAX).then(|| Arc::clone(&self.under_way))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spawner_that_was_held_up_catches_up() {
        let mut schedule = Schedule::new(Instant::now(), 50);
        let start = schedule.start;
        let after = |ms| start + Duration::from_millis(ms);
        assert_eq!(schedule.due(after(19)), 0);
        assert_eq!(schedule.until_next(after(19)), Duration::from_millis(1));
        assert_eq!(schedule.due(after(20)), 1);
        assert_eq!(schedule.due(after(130)), 5);
        assert_eq!(schedule.until_next(after(130)), Duration::from_millis(10));
        assert_eq!(schedule.until_next(after(500)), Duration::ZERO);
    }

    #[test]
    fn only_so_many_burn_at_once() {
        let schedule = Schedule::new(Instant::now(), 1);
        let places: Vec<_> = (0..BURNING_MAX).filter_map(|_| schedule.place()).collect();
        assert_eq!(places.len(), BURNING_MAX);
        assert!(schedule.place().is_none());
        drop(places);
        assert!(schedule.place().is_some());
    }
}
