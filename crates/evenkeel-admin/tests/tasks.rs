//! What the tasks have cost and where they wait, over HTTP.

mod support;

use std::sync::Arc;

use evenkeel::runtime::Handle;
use evenkeel::stats::{TaskDump, TaskInfo, TaskOrder, TaskState};
use evenkeel::task::{Id, JoinHandle};
use evenkeel_admin::listen;
use evenkeel_admin::{Admin, TASKS_MAX};
use support::{LIMIT, get, runtime};

async fn waits_for_ever(lock: tokio::sync::mpsc::Receiver<()>) {
    let mut lock = lock;
    lock.recv().await;
}

/// A task that waits, and what it waits for.
async fn waiting() -> (JoinHandle<()>, tokio::sync::mpsc::Sender<()>) {
    let (sender, receiver) = tokio::sync::mpsc::channel(1);
    let task = evenkeel::spawn(waits_for_ever(receiver));
    until(task.id(), TaskState::Waiting).await;
    (task, sender)
}

async fn until(id: Id, state: TaskState) {
    let is_so = || {
        let tasks = Handle::current().tasks(TaskOrder::Run, usize::MAX);
        tasks
            .iter()
            .any(|task| task.id == id && task.state == state)
    };
    let wait = async {
        while !is_so() {
            evenkeel::task::yield_now().await;
        }
    };
    evenkeel::time::timeout(LIMIT, wait).await.unwrap();
}

async fn tasks(admin: &Admin, query: &str) -> Vec<TaskInfo> {
    let answer = get(admin, &format!("/tasks{query}")).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    serde_json::from_str(&answer.body).unwrap()
}

#[test]
fn tasks_are_listed_in_an_order_and_up_to_a_limit() {
    runtime().block_on(async {
        let admin = listen("127.0.0.1:0").await.unwrap();
        let (task, _sender) = waiting().await;
        let listed = tasks(&admin, "").await;
        assert!(listed.iter().any(|it| it.id == task.id()));
        for sort in ["run", "blocked", "longest", "polls", "since"] {
            assert_eq!(
                tasks(&admin, &format!("?sort={sort}&limit=1")).await.len(),
                1
            );
        }
        let by_polls = tasks(&admin, "?sort=polls").await;
        assert!(by_polls.is_sorted_by_key(|it| std::cmp::Reverse(it.polls)));
        assert_eq!(tasks(&admin, "?limit=0").await, []);
        let text = get(&admin, "/tasks.txt").await;
        assert!(
            text.head.contains("content-type: text/plain"),
            "{}",
            text.head
        );
        assert!(text.body.contains("tests/tasks.rs"), "{}", text.body);
        // Whatever a task is called, it has one line.
        let named = evenkeel::task::Builder::new().name("one\nFORGED");
        let forged = named.spawn(std::future::pending::<()>());
        until(forged.id(), TaskState::Waiting).await;
        let lines = get(&admin, "/tasks.txt").await.body;
        assert!(lines.contains("one FORGED"), "{lines}");
        forged.abort();
        admin.shutdown().await;
    });
}

#[test]
fn a_dump_says_where_tasks_wait() {
    runtime().block_on(async {
        let admin = listen("127.0.0.1:0").await.unwrap();
        let (task, _sender) = waiting().await;
        let text = get(&admin, "/dump.txt?timeout_ms=5000").await;
        assert_eq!(text.status, 200, "{text:?}");
        assert!(text.body.contains("tasks::waits_for_ever"), "{}", text.body);
        let long = get(&admin, "/dump.txt?long=true&timeout_ms=5000").await;
        assert!(long.body.contains("::Waker as "), "{}", long.body);
        assert!(!text.body.contains("::Waker as "), "{}", text.body);
        let json = get(&admin, "/dump?timeout_ms=5000").await;
        let dump: TaskDump = serde_json::from_str(&json.body).unwrap();
        let all = dump.groups.iter().flat_map(|group| &group.tasks);
        assert!(all.clone().any(|it| it.task.id == task.id()), "{dump}");
        let one = get(&admin, "/dump?limit=1&timeout_ms=5000").await.json();
        assert_eq!(one["groups"].as_array().unwrap().len(), 1);
        admin.shutdown().await;
    });
}

#[test]
fn queries_that_ask_too_much_or_fit_nothing_are_refused() {
    runtime().block_on(async {
        let admin = listen("127.0.0.1:0").await.unwrap();
        let most = TASKS_MAX.to_string();
        for (path, part) in [
            (format!("/tasks?limit={}", TASKS_MAX + 1), &*most),
            (format!("/dump?limit={}", TASKS_MAX + 1), &*most),
            ("/dump?timeout_ms=5001".to_owned(), "5000"),
            ("/tasks?sort=name".to_owned(), "name"),
            ("/tasks?limit=-1".to_owned(), "limit"),
            ("/dump?limits=1".to_owned(), "limits"),
            ("/tasks.txt?long=true".to_owned(), "long"),
        ] {
            get(&admin, &path).await.assert_problem(400, part);
        }
        admin.shutdown().await;
    });
}

/// A task that runs keeps the first dump waiting until its timeout.
#[test]
fn a_second_dump_at_once_is_refused() {
    runtime().block_on(async {
        let admin = Arc::new(listen("127.0.0.1:0").await.unwrap());
        let (stop, goes_on) = std::sync::mpsc::channel::<()>();
        let runs = evenkeel::spawn(async move {
            evenkeel::task::yield_now().await;
            let _ = goes_on.recv();
        });
        until(runs.id(), TaskState::Running).await;
        let asks = Arc::clone(&admin);
        let first = evenkeel::spawn(async move {
            // Refused in turn if a short one is being made.
            loop {
                let answer = get(&asks, "/dump?timeout_ms=5000").await;
                if answer.status != 429 {
                    return answer;
                }
            }
        });
        let refused = async {
            loop {
                let answer = get(&admin, "/dump?timeout_ms=0").await;
                if answer.status != 200 {
                    return answer;
                }
            }
        };
        let refused = evenkeel::time::timeout(LIMIT, refused).await.unwrap();
        refused.assert_problem(429, "ask again");
        drop(stop);
        let first = evenkeel::time::timeout(LIMIT, first).await.unwrap();
        assert_eq!(first.unwrap().status, 200);
        evenkeel::time::timeout(LIMIT, runs).await.unwrap().unwrap();
    });
}
