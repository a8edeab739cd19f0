//! `--fresh`: short tasks at a steady rate, and how long each waited for its first poll, told by a
//! plain thread (`--waits`), so that it is told even while every worker is stuck. `--block`: tasks
//! that block their thread.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tokio::io::AsyncWriteExt;

use super::hogs::Schedule;
use super::platform::{Platform, micros};
use super::work::compute;

/// So many tasks are spawned at most, and none after them.
const TASKS_MAX: usize = 1 << 17;

/// What a fresh task is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Fresh {
    /// It computes for long, if anyone does.
    Hog,
    /// It ends at once.
    Innocent,
    /// As [`Innocent`](Fresh::Innocent), in a class that goes before others.
    Urgent,
}

impl Fresh {
    /// Of each five one hogs and one is urgent. Their places move by two from one five to the next,
    /// so that hogs meet each other, and leave room, in turn.
    fn numbered(index: usize) -> Self {
        match (index + 2 * (index / 5)) % 5 {
            0 => Fresh::Hog,
            2 => Fresh::Urgent,
            _ => Fresh::Innocent,
        }
    }
}

/// What is told of fresh tasks; moments are microseconds since the first of them was waited for.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Waits {
    /// When this was told.
    pub(crate) at_us: u64,
    /// All that were due by then: what each is, when it was due, when it was spawned, and when it
    /// ran.
    pub(crate) tasks: Vec<(Fresh, u64, Option<u64>, Option<u64>)>,
}

/// The accounts of all fresh tasks, kept by those who spawn and run them.
pub(crate) struct Book {
    start: Instant,
    per_second: u32,
    slots: Box<[Slot]>,
}

/// Moments in microseconds, 0 while there is none.
#[derive(Default)]
struct Slot {
    spawned_us: AtomicU64,
    ran_us: AtomicU64,
}

impl Book {
    pub(crate) fn new(per_second: u32) -> Self {
        Book {
            start: Instant::now(),
            per_second,
            slots: (0..TASKS_MAX).map(|_| Slot::default()).collect(),
        }
    }

    pub(crate) fn tell(&self) -> Waits {
        // Relaxed: each moment stands for itself.
        let moment = |cell: &AtomicU64| Some(cell.load(Ordering::Relaxed)).filter(|us| *us > 0);
        let at_us = self.now_us();
        let task = |(index, slot): (usize, &Slot)| {
            let (spawned, ran) = (moment(&slot.spawned_us), moment(&slot.ran_us));
            (Fresh::numbered(index), self.due_us(index), spawned, ran)
        };
        let tasks = self.slots.iter().enumerate().map(task);
        Waits {
            at_us,
            tasks: tasks.take_while(|task| task.1 <= at_us).collect(),
        }
    }

    /// As the [`Schedule`] has it: the first is due after one interval.
    fn due_us(&self, index: usize) -> u64 {
        (index as u64 + 1) * 1_000_000 / u64::from(self.per_second)
    }

    fn now_us(&self) -> u64 {
        // Never 0, which is no moment.
        micros(self.start.elapsed()).max(1)
    }

    fn mark(&self, moment: &AtomicU64) {
        // Relaxed: as above.
        moment.store(self.now_us(), Ordering::Relaxed);
    }
}

/// Spawns what is due, until there have been [`TASKS_MAX`].
pub(crate) async fn spawn<P: Platform>(
    book: &'static Book,
    hog_us: u64,
    apart: bool,
    urgent: Option<P::Class>,
) {
    let mut schedule = Schedule::new(book.start, book.per_second);
    let mut indices = 0..TASKS_MAX;
    while !indices.is_empty() {
        for index in indices.by_ref().take(schedule.due(Instant::now()) as usize) {
            let kind = Fresh::numbered(index);
            let task = async move {
                book.mark(&book.slots[index].ran_us);
                if kind == Fresh::Hog {
                    compute(hog_us);
                }
            };
            book.mark(&book.slots[index].spawned_us);
            let class = urgent.filter(|_| kind == Fresh::Urgent);
            match apart && kind == Fresh::Hog {
                true => P::spawn_in(None, "fresh hog", task),
                false => P::spawn_in(class, "fresh", task),
            }
        }
        P::sleep(schedule.until_next(Instant::now())).await;
    }
}

/// `--block`: a connection starts tasks that block their thread, and is told so.
pub(crate) async fn block<P: Platform>(mut stream: P::Stream, tasks: usize, us: u64) {
    let length = Duration::from_micros(us);
    for _ in 0..tasks {
        P::spawn_in(None, "blocked", async move { std::thread::sleep(length) });
    }
    // Who went away without an answer wants none.
    let _ = stream.write_all(b"!").await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_five_tasks_one_hogs_and_one_is_urgent() {
        for first in (0..1_000).step_by(5) {
            let five: Vec<Fresh> = (first..first + 5).map(Fresh::numbered).collect();
            for kind in [Fresh::Hog, Fresh::Urgent] {
                assert_eq!(five.iter().filter(|found| **found == kind).count(), 1);
            }
        }
        // Two of them closer together than the mean, and two further apart.
        let hogs: Vec<usize> = (0..25)
            .filter(|&index| Fresh::numbered(index) == Fresh::Hog)
            .collect();
        assert_eq!(hogs, [0, 8, 11, 19, 22]);
    }

    #[test]
    fn all_that_was_due_is_told_of_whether_spawned_or_not() {
        let mut book = Book::new(1_000_000);
        std::thread::sleep(Duration::from_millis(2));
        book.mark(&book.slots[1].spawned_us);
        book.mark(&book.slots[2].spawned_us);
        book.mark(&book.slots[2].ran_us);
        let told = book.tell();
        assert!(told.tasks.len() >= 2_000 && told.tasks.len() as u64 == told.at_us);
        let (_, due, spawned, ran) = told.tasks[2];
        assert!(due == 3 && spawned.is_some() && ran >= spawned);
        assert!(told.tasks[1].2.is_some() && told.tasks[1].3.is_none());
        assert!(told.tasks[0].2.is_none());
        book.per_second = 1;
        assert!(book.tell().tasks.is_empty());
    }
}
