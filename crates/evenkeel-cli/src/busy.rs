//! The tasks that were busy between two looks: pure, as `view` is.

use std::collections::HashMap;
use std::time::Duration;

use evenkeel::stats::TaskInfo;

/// How many tasks are asked for: those with the most run time. One beyond them is not seen, however
/// busy it has become of late.
pub(crate) const ASKED: usize = 1_000;

/// What a task has done between two looks.
#[derive(Clone, Debug)]
pub(crate) struct Busy {
    pub(crate) task: TaskInfo,
    pub(crate) run: Duration,
    pub(crate) blocked: Duration,
    pub(crate) polls: u32,
}

/// The tasks that have run, the one with the most time first. `before` and `now` are what the
/// server said.
pub(crate) fn busiest(before: &[TaskInfo], now: &[TaskInfo]) -> Vec<Busy> {
    let key = |task: &TaskInfo| (task.id, task.spawned_at.clone());
    let known: HashMap<_, _> = before.iter().map(|task| (key(task), task)).collect();
    // If there were more tasks, one that is new here may have run before.
    let had_all = before.len() < ASKED;
    let mut busy: Vec<Busy> = Vec::new();
    for task in now {
        let sum = |task: &TaskInfo| task.run.saturating_add(task.blocked);
        let (was_run, was_blocked, was_polls) = match known.get(&key(task)) {
            // Otherwise it is another task with the same id.
            Some(was) if was.polls <= task.polls && sum(was) <= sum(task) => {
                (was.run, was.blocked, was.polls)
            }
            None if !had_all => continue,
            _ => (Duration::ZERO, Duration::ZERO, 0),
        };
        // A poll counts as run time until it is over and was found blocked.
        let run = task.run.saturating_sub(was_run);
        let blocked = task.blocked.saturating_sub(was_blocked);
        if !(run.is_zero() && blocked.is_zero()) {
            busy.push(Busy {
                task: task.clone(),
                run,
                blocked,
                polls: task.polls - was_polls,
            });
        }
    }
    busy.sort_by_key(|busy| std::cmp::Reverse((busy.run, busy.blocked)));
    busy
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(id: usize, run: u64, polls: u32) -> TaskInfo {
        serde_json::from_value(serde_json::json!({
            "id": format!("{id:x}"), "class": 1, "name": null,
            "spawned_at": { "file": "src/main.rs", "line": 1, "column": 1 },
            "future": "app::serve", "state": "waiting", "since": 5, "polls": polls,
            "run": run, "longest": run,
        }))
        .unwrap()
    }

    fn rows(before: &[TaskInfo], now: &[TaskInfo]) -> Vec<(String, u128, u32)> {
        let busy = busiest(before, now).into_iter();
        busy.map(|it| (it.task.id.to_string(), it.run.as_nanos(), it.polls))
            .collect()
    }

    #[test]
    fn what_tasks_did_in_between_is_shown_the_most_first() {
        let before = [task(1, 900, 9), task(2, 10, 1), task(3, 50, 5)];
        let now = [
            task(1, 910, 10),
            task(2, 500, 3),
            task(3, 50, 5),
            task(4, 70, 2),
        ];
        let row = |id: &str, run, polls| (id.to_owned(), run, polls);
        let expected = [row("2", 490, 2), row("4", 70, 2), row("1", 10, 1)];
        assert_eq!(rows(&before, &now), expected);
    }

    #[test]
    fn another_task_with_the_same_id_is_not_compared() {
        assert_eq!(
            rows(&[task(1, 900, 9)], &[task(1, 30, 1)]),
            [("1".to_owned(), 30, 1)]
        );
    }

    /// A poll counts as run time until it is over: then it may turn out to have been blocked.
    #[test]
    fn what_was_blocked_is_shown_apart() {
        let blocked = |mut task: TaskInfo, nanos| {
            task.blocked = Duration::from_nanos(nanos);
            task
        };
        let before = [task(1, 10, 1), task(2, 900, 1)];
        let now = [blocked(task(1, 30, 2), 500), blocked(task(2, 10, 2), 950)];
        let rows = busiest(&before, &now);
        let of = |index: usize| {
            let it: &Busy = &rows[index];
            (it.run.as_nanos(), it.blocked.as_nanos(), it.polls)
        };
        assert_eq!((of(0), of(1)), ((20, 500, 1), (0, 950, 1)));
    }

    #[test]
    fn what_was_perhaps_cut_off_before_is_not_taken_for_new() {
        let before: Vec<_> = (1..=ASKED).map(|id| task(id, 100, 1)).collect();
        let now = [task(ASKED + 1, 5_000, 9), task(1, 101, 2)];
        assert_eq!(rows(&before, &now), [("1".to_owned(), 1, 1)]);
    }
}
