//! The list of tasks: what each has cost, and what it does.

mod support;

use std::future::{pending, poll_fn};
use std::task::Poll;
use std::time::{Duration, Instant};

use evenkeel::Class;
use evenkeel::runtime::{Builder, Handle, Runtime};
use evenkeel::stats::{TaskInfo, TaskOrder, TaskState};
use evenkeel::task::{Id, change_class, yield_now};
use support::within;

fn runtime() -> Runtime {
    Builder::new().workers(2).build().unwrap()
}

fn find(id: Id) -> Option<TaskInfo> {
    let tasks = Handle::current().tasks(TaskOrder::Run, usize::MAX);
    tasks.into_iter().find(|task| task.id == id)
}

/// The task's entry when it has this state.
async fn when(id: Id, state: TaskState) -> TaskInfo {
    within(async {
        loop {
            if let Some(task) = find(id).filter(|task| task.state == state) {
                return task;
            }
            yield_now().await;
        }
    })
    .await
}

/// Returns pending and is woken at once, so often.
async fn pending_polls(count: u32) {
    let mut left = count;
    poll_fn(|cx| {
        if left == 0 {
            return Poll::Ready(());
        }
        left -= 1;
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

fn compute(time: Duration) {
    let began = Instant::now();
    while began.elapsed() < time {}
}

#[test]
fn polls_are_counted_exactly() {
    runtime().block_on(async {
        for count in [0, 1, 1_000] {
            let task = evenkeel::spawn(async move {
                pending_polls(count).await;
                pending::<()>().await;
            });
            let entry = when(task.id(), TaskState::Waiting).await;
            assert_eq!(entry.polls, count + 1);
            task.abort();
        }
    });
}

/// A poll that keeps its worker, and one that ends in the heavy pool.
#[test]
fn the_time_that_a_task_computes_is_its_run_time() {
    for hand_off in [None, Some(Duration::from_millis(1))] {
        let mut builder = Builder::new();
        let runtime = builder.workers(2).hand_off_after(hand_off).build().unwrap();
        runtime.block_on(async {
            let time = Duration::from_millis(20);
            // On a busy machine a poll that the kernel leaves out for longer than it runs may
            // count as blocked, if it has waited for anything at all: then once more.
            for left in (0..10).rev() {
                if computes_and_is_seen_to(time, left == 0).await {
                    break;
                }
            }
        });
    }
}

/// Whether the task was not found blocked; if it `has_to`, everything else is seen as well.
async fn computes_and_is_seen_to(time: Duration, has_to: bool) -> bool {
    let began = Instant::now();
    let task = evenkeel::spawn(async move {
        for _ in 0..3 {
            compute(time);
            yield_now().await;
        }
        pending::<()>().await;
    });
    let entry = when(task.id(), TaskState::Waiting).await;
    let took = began.elapsed();
    task.abort();
    if !has_to && entry.blocked > Duration::ZERO {
        return false;
    }
    // The counter's scale is not quite that of the clock.
    let slack = took / 100;
    assert!(entry.run + slack >= 3 * time, "{entry}");
    assert!(entry.run <= took + slack, "{entry} in {took:?}");
    assert!(
        entry.longest + slack >= time && entry.longest <= entry.run,
        "{entry}"
    );
    assert_eq!(entry.polls, 4);
    let mean = entry.mean().unwrap();
    assert!(
        mean + slack >= 3 * time / 4 && mean <= entry.longest,
        "{entry}"
    );
    true
}

/// A poll that loses its worker, and one that the heavy pool expects to block.
#[test]
fn the_time_that_a_task_blocks_is_not_its_run_time() {
    let runtime = runtime();
    runtime.block_on(async {
        let time = Duration::from_millis(50);
        let task = evenkeel::spawn(async move {
            for _ in 0..3 {
                std::thread::sleep(time);
                yield_now().await;
            }
            pending::<()>().await;
        });
        let computes = evenkeel::spawn(async move {
            compute(time);
            pending::<()>().await;
        });
        let entry = when(task.id(), TaskState::Waiting).await;
        let slack = time / 100;
        assert!(entry.blocked + slack >= 3 * time, "{entry}");
        assert!(entry.to_string().contains(" blocked, "), "{entry}");
        assert!(entry.run < entry.blocked, "{entry}");
        assert!(entry.longest + slack >= time, "{entry}");
        assert!(entry.mean().unwrap() + slack >= 3 * time / 4, "{entry}");
        let other = when(computes.id(), TaskState::Waiting).await;
        assert_eq!(other.blocked, Duration::ZERO, "{other}");
        let first = |order| Handle::current().tasks(order, 1)[0].id;
        assert_eq!(first(TaskOrder::Blocked), task.id());
        task.abort();
        computes.abort();
    });
}

#[test]
fn a_task_that_runs_is_running_and_the_poll_counts() {
    let runtime = runtime();
    let (stop, goes_on) = std::sync::mpsc::channel::<()>();
    let task = runtime.spawn(async move {
        yield_now().await;
        let _ = goes_on.recv();
    });
    runtime.block_on(async {
        // The first poll is about to be counted when the task comes into the list.
        let mut entry = when(task.id(), TaskState::Running).await;
        while entry.polls == 0 {
            entry = when(task.id(), TaskState::Running).await;
        }
        assert_eq!(entry.polls, 1);
        assert!(
            entry.run >= entry.since && entry.longest >= entry.since,
            "{entry}"
        );
        let later = when(task.id(), TaskState::Running).await;
        assert!(later.since > entry.since, "{entry} then {later}");
    });
    drop(stop);
    runtime.block_on(within(task)).unwrap();
}

#[test]
fn tasks_say_who_they_are_and_are_gone_at_their_end() {
    runtime().block_on(async {
        let line = line!() + 1;
        let task = evenkeel::task::Builder::new()
            .name("ours")
            .class(Class::BULK)
            .spawn(pending::<()>());
        let entry = when(task.id(), TaskState::Waiting).await;
        assert_eq!(entry.name.as_deref(), Some("ours"));
        assert_eq!(entry.class, Class::BULK);
        assert!(entry.spawned_at.file.ends_with("task_list.rs"));
        assert!((line..line + 5).contains(&entry.spawned_at.line));
        assert!(entry.future.contains("Pending"), "{}", entry.future);
        let text = entry.to_string();
        for part in ["waiting", "ours", "task_list.rs", "class bulk"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        task.abort();
        within(async {
            while find(entry.id).is_some() {
                yield_now().await;
            }
        })
        .await;
    });
}

#[test]
fn the_list_has_an_order_and_a_limit() {
    runtime().block_on(async {
        let mut ids = Vec::new();
        for count in [5, 50, 500] {
            let task = evenkeel::spawn(async move {
                pending_polls(count).await;
                pending::<()>().await;
            });
            when(task.id(), TaskState::Waiting).await;
            ids.push(task.id());
        }
        let handle = Handle::current();
        let polls = |limit| {
            let tasks = handle.tasks(TaskOrder::Polls, limit);
            tasks.iter().map(|task| task.polls).collect::<Vec<_>>()
        };
        assert!(polls(0).is_empty());
        assert_eq!(polls(2), [501, 51]);
        assert_eq!(polls(usize::MAX), [501, 51, 6]);
        // The first one has been waiting for longest.
        let longest = handle.tasks(TaskOrder::Since, 1);
        assert_eq!(longest[0].id, ids[0]);
        for order in [TaskOrder::Run, TaskOrder::Longest] {
            let tasks = handle.tasks(order, 3);
            let rank = |task: &TaskInfo| match order {
                TaskOrder::Run => task.run,
                _ => task.longest,
            };
            assert!(tasks.is_sorted_by(|a, b| rank(a) >= rank(b)), "{tasks:?}");
        }
    });
}

#[test]
fn tasks_are_counted_by_class_also_when_they_change_it() {
    runtime().block_on(async {
        let handle = Handle::current();
        let alive = || {
            let classes = handle.stats().classes;
            [0, 1, 2].map(|index| classes[index].alive)
        };
        let moves = |to: Option<Class>| async move {
            yield_now().await;
            if let Some(to) = to {
                change_class(to).unwrap();
            }
            pending::<()>().await;
        };
        let tasks = [
            evenkeel::spawn(moves(None)),
            evenkeel::spawn(moves(Some(Class::URGENT))),
            evenkeel::spawn_in(Class::BULK, moves(None)),
            evenkeel::spawn_in(Class::BULK, moves(Some(Class::URGENT))),
        ];
        for task in &tasks {
            when(task.id(), TaskState::Waiting).await;
        }
        assert_eq!(alive(), [2, 1, 1]);
        for task in tasks {
            task.abort();
            within(task).await.unwrap_err();
        }
        assert_eq!(alive(), [0, 0, 0]);
    });
}

#[cfg(feature = "serde")]
#[test]
fn entries_come_back_as_they_were() {
    runtime().block_on(async {
        let task = evenkeel::spawn(pending::<()>());
        let entry = when(task.id(), TaskState::Waiting).await;
        let text = serde_json::to_string(&entry).unwrap();
        assert!(text.contains(&format!("\"id\":\"{}\"", entry.id)), "{text}");
        assert_eq!(serde_json::from_str::<TaskInfo>(&text).unwrap(), entry);
        assert!(serde_json::from_str::<Id>("\"0\"").is_err());
        task.abort();
    });
}
