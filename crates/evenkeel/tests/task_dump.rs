//! A dump names the place where each task waits, whatever happens to the tasks meanwhile.
#![cfg(target_os = "linux")]

mod support;

use std::future::{Future, pending, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::task::Poll;
use std::time::{Duration, Instant};

use evenkeel::net::{TcpListener, TcpStream, UdpSocket};
use evenkeel::runtime::{Builder, Handle, Runtime};
use evenkeel::stats::{DumpOptions, DumpOutcome, DumpedTask, TaskDump, TaskOrder, TaskState, Wait};
use evenkeel::task::JoinHandle;
use evenkeel::{Class, blocking};
use support::within;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const HOUR: Duration = Duration::from_secs(3600);

fn runtime() -> Runtime {
    Builder::new().workers(2).build().unwrap()
}

/// Far longer than any dump takes here.
fn patient() -> DumpOptions {
    DumpOptions::new().timeout(Duration::from_secs(50))
}

async fn dump(options: DumpOptions) -> TaskDump {
    within(Handle::current().dump(options)).await.unwrap()
}

/// Spawns a task, and waits until it waits.
async fn waiting<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    let task = evenkeel::spawn(future);
    until_it_waits(&task).await;
    task
}

async fn until_it_waits<T>(task: &JoinHandle<T>) {
    let is_there = || {
        let tasks = Handle::current().tasks(Default::default(), usize::MAX);
        let mut its_own = tasks.iter().filter(|it| it.id == task.id());
        its_own.any(|it| it.state == TaskState::Waiting)
    };
    within(async {
        while !is_there() {
            evenkeel::task::yield_now().await;
        }
    })
    .await;
}

/// The entry of a task, with the functions that are named, each on a line.
#[track_caller]
fn entry<T>(dump: &TaskDump, task: &JoinHandle<T>) -> (DumpOutcome, DumpedTask, Vec<String>) {
    for group in &dump.groups {
        let mut its_own = group.tasks.iter().filter(|it| it.task.id == task.id());
        if let Some(entry) = its_own.next() {
            let stacks = group.stacks.iter().map(|stack| {
                let named = stack.iter().filter(|frame| !frame.is_internal);
                let lines: Vec<&str> = named.map(|frame| &*frame.function).collect();
                lines.join("\n")
            });
            return (group.outcome, entry.clone(), stacks.collect());
        }
    }
    panic!("the task is not there: {dump}");
}

/// With stacks, asserts that one names these functions, the innermost first.
#[track_caller]
fn assert_names(stacks: &[String], functions: &[&str]) {
    if !cfg!(feature = "hog-stacks") {
        return assert!(stacks.iter().all(String::is_empty), "{stacks:?}");
    }
    let names_all = |stack: &String| {
        let mut lines = stack.lines();
        let mut is_next = |part: &&str| lines.any(|line| line.contains(*part));
        functions.iter().all(&mut is_next)
    };
    assert!(stacks.iter().any(names_all), "{functions:?}: {stacks:#?}");
}

#[track_caller]
fn assert_waits<T>(dump: &TaskDump, task: &JoinHandle<T>, functions: &[&str]) -> Vec<Option<Wait>> {
    let (outcome, entry, stacks) = entry(dump, task);
    assert_eq!(outcome, DumpOutcome::Waits, "{dump}");
    assert_eq!(entry.task.state, TaskState::Waiting);
    assert_eq!(entry.waits.len(), stacks.len());
    assert_names(&stacks, functions);
    entry.waits
}

async fn reads_a_stream(mut stream: TcpStream) {
    let _ = stream.read(&mut [0]).await;
}

async fn serves_it(stream: TcpStream) {
    reads_a_stream(stream).await;
}

#[test]
fn a_read_of_a_stream_is_named_with_its_callers_and_its_socket() {
    runtime().block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut peer = TcpStream::connect(address).await.unwrap();
        let (stream, from) = listener.accept().await.unwrap();
        let task = waiting(serves_it(stream)).await;
        let waits = assert_waits(
            &dump(patient()).await,
            &task,
            &[
                "TcpStream",
                "task_dump::reads_a_stream",
                "task_dump::serves_it",
            ],
        );
        let [
            Some(Wait::Descriptor {
                local,
                peer: its_peer,
                readable,
                writable,
                ..
            }),
        ] = &waits[..]
        else {
            panic!("{waits:?}");
        };
        assert_eq!(local.as_deref(), Some(&*address.to_string()));
        assert_eq!(its_peer.as_deref(), Some(&*from.to_string()));
        assert_eq!((*readable, *writable), (true, false));
        // It can still be woken.
        peer.write_all(&[1]).await.unwrap();
        within(task).await.unwrap();
    });
}

async fn receives(socket: UdpSocket) {
    let _ = socket.recv_from(&mut [0]).await;
}

#[test]
fn a_datagram_socket_is_named() {
    runtime().block_on(async {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let address = socket.local_addr().unwrap();
        let task = waiting(receives(socket)).await;
        let waits = assert_waits(&dump(patient()).await, &task, &["task_dump::receives"]);
        let [
            Some(Wait::Descriptor {
                local, peer: None, ..
            }),
        ] = &waits[..]
        else {
            panic!("{waits:?}");
        };
        assert_eq!(local.as_deref(), Some(&*address.to_string()));
    });
}

async fn sleeps() {
    evenkeel::time::sleep(HOUR).await;
}

#[test]
fn a_timer_says_when_it_is_due() {
    runtime().block_on(async {
        let task = waiting(sleeps()).await;
        let waits = assert_waits(
            &dump(patient()).await,
            &task,
            &["Sleep", "task_dump::sleeps"],
        );
        let [Some(Wait::Timer { due_in })] = &waits[..] else {
            panic!("{waits:?}");
        };
        assert!((HOUR / 2..=HOUR).contains(due_in), "{due_in:?}");
    });
}

async fn awaits_work(goes_on: mpsc::Receiver<()>) {
    evenkeel::spawn_blocking(move || goes_on.recv())
        .await
        .unwrap()
        .unwrap_err();
}

async fn awaits_work_in(lane: blocking::Lane, goes_on: mpsc::Receiver<()>) {
    lane.run(move || goes_on.recv()).await.unwrap().unwrap_err();
}

#[test]
fn work_in_a_lane_is_named_by_the_lane() {
    runtime().block_on(async {
        let ((stop, goes_on), (stop_too, goes_on_too)) = (mpsc::channel(), mpsc::channel());
        let lane = blocking::Lane::builder("ours").build().unwrap();
        let general = waiting(awaits_work(goes_on)).await;
        let named = waiting(awaits_work_in(lane, goes_on_too)).await;
        let dump = dump(patient()).await;
        for (task, function, lane) in [
            (&general, "task_dump::awaits_work", "blocking"),
            (&named, "task_dump::awaits_work_in", "ours"),
        ] {
            let waits = assert_waits(&dump, task, &[function]);
            assert_eq!(waits, [Some(Wait::Lane { name: lane.into() })]);
        }
        drop((stop, stop_too));
        within(general).await.unwrap();
        within(named).await.unwrap();
    });
}

async fn awaits_a_task(other: JoinHandle<()>) {
    let _ = other.await;
}

#[test]
fn a_join_handle_names_the_task() {
    runtime().block_on(async {
        let other = waiting(pending::<()>()).await;
        let (id, abort) = (other.id(), other.abort_handle());
        let task = waiting(awaits_a_task(other)).await;
        let dump = dump(patient()).await;
        let waits = assert_waits(&dump, &task, &["JoinHandle", "task_dump::awaits_a_task"]);
        assert!(
            matches!(waits[..], [Some(Wait::Task { id: it, .. })] if it == id),
            "{waits:?}"
        );
        // Nothing can wake the other one.
        let pending = dump
            .groups
            .iter()
            .find(|group| group.tasks[0].task.id == id)
            .unwrap();
        assert!(pending.stacks.is_empty());
        assert!(pending.to_string().contains("no waker"), "{pending}");
        abort.abort();
        within(task).await.unwrap();
    });
}

async fn locks(lock: Arc<tokio::sync::Mutex<u8>>) {
    *lock.lock().await += 1;
}

async fn takes_a_message(mut messages: tokio::sync::mpsc::Receiver<()>) {
    messages.recv().await;
}

#[test]
fn locks_and_channels_of_another_crate_are_named() {
    runtime().block_on(async {
        let lock = Arc::new(tokio::sync::Mutex::new(0));
        let held = lock.lock().await;
        let locker = waiting(locks(Arc::clone(&lock))).await;
        let (sender, messages) = tokio::sync::mpsc::channel(1);
        let receiver = waiting(takes_a_message(messages)).await;
        let dump = dump(patient()).await;
        for (task, functions) in [
            (&locker, ["tokio::sync", "task_dump::locks"]),
            (
                &receiver,
                ["tokio::sync::mpsc", "task_dump::takes_a_message"],
            ),
        ] {
            let waits = assert_waits(&dump, task, &functions);
            let is_another_crates = waits.iter().all(Option::is_none);
            assert!(is_another_crates, "{waits:?}");
        }
        // Both can still be woken.
        drop((held, sender));
        within(locker).await.unwrap();
        within(receiver).await.unwrap();
        assert_eq!(*lock.lock().await, 1);
    });
}

async fn selects(mut messages: tokio::sync::mpsc::Receiver<()>) {
    tokio::select! {
        _ = messages.recv() => {}
        () = sleeps() => {}
    }
}

#[test]
fn each_branch_of_a_select_is_named() {
    runtime().block_on(async {
        let (_sender, messages) = tokio::sync::mpsc::channel(1);
        let task = waiting(selects(messages)).await;
        let dump = dump(patient()).await;
        let waits = assert_waits(&dump, &task, &["tokio::sync::mpsc", "task_dump::selects"]);
        assert_waits(&dump, &task, &["task_dump::sleeps", "task_dump::selects"]);
        let timers = waits.iter().flatten();
        assert!(
            timers
                .clone()
                .all(|wait| matches!(wait, Wait::Timer { .. }))
        );
        assert_eq!(timers.count(), 1, "{waits:?}");
    });
}

/// Waits for a message and a timer. From its second poll on it takes longer in between than a slice
/// lasts, as if a stack were deep.
async fn waits_for_both(mut messages: tokio::sync::mpsc::Receiver<()>) {
    let mut message = pin!(messages.recv());
    let mut timer = pin!(sleeps());
    let mut polls = 0;
    poll_fn(|cx| {
        let is_over = message.as_mut().poll(cx).is_ready();
        let began = Instant::now();
        while polls > 0 && began.elapsed() < Duration::from_millis(1) {}
        polls += 1;
        match is_over || timer.as_mut().poll(cx).is_ready() {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    })
    .await;
}

#[test]
fn a_future_is_not_cut_short_for_what_a_stack_costs() {
    runtime().block_on(async {
        let (_sender, messages) = tokio::sync::mpsc::channel(1);
        let task = waiting(waits_for_both(messages)).await;
        let dump = dump(patient()).await;
        assert_waits(&dump, &task, &["tokio::sync::mpsc", "waits_for_both"]);
        assert_waits(&dump, &task, &["task_dump::sleeps", "waits_for_both"]);
    });
}

#[test]
fn tasks_that_wait_at_one_place_are_one_group_the_largest_first() {
    runtime().block_on(async {
        let mut tasks = Vec::new();
        for _ in 0..20 {
            tasks.push(evenkeel::spawn(sleeps()));
        }
        let alone = waiting(pending::<()>()).await;
        for task in &tasks {
            until_it_waits(task).await;
        }
        let dump = dump(patient()).await;
        assert_eq!(dump.groups[0].tasks.len(), 20, "{dump}");
        assert_eq!(dump.shown(), dump.tasks);
        let text = dump.to_string();
        assert!(text.contains("20 tasks from"), "{text}");
        assert!(text.contains("and 17 more"), "{text}");
        let long = format!("{dump:#}");
        assert!(long.len() >= text.len());
        alone.abort();
    });
}

#[test]
fn a_limit_holds_with_many_tasks() {
    const TASKS: usize = 100_000;
    let runtime = runtime();
    runtime.block_on(async {
        for _ in 0..TASKS {
            drop(evenkeel::spawn(pending::<()>()));
        }
        let handle = Handle::current();
        within(async {
            while handle.stats().tasks_waiting < TASKS {
                evenkeel::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await;
        let dump = dump(patient().limit(300)).await;
        assert_eq!((dump.shown(), dump.tasks), (300, TASKS));
        let group = &dump.groups[0];
        assert_eq!(
            (group.tasks.len(), group.outcome),
            (300, DumpOutcome::Waits)
        );
        // The others have not been polled for it.
        let polled = handle.tasks(evenkeel::stats::TaskOrder::Polls, TASKS + 1);
        assert_eq!(polled.iter().filter(|task| task.polls == 2).count(), 300);
        assert_eq!(
            polled.iter().filter(|task| task.polls == 1).count(),
            TASKS - 300
        );
    });
}

/// A dump asks tasks that wait on threads of the heavy pool as well, and shows what runs there.
#[test]
fn a_task_that_runs_says_so_and_one_in_the_pool_is_asked() {
    let runtime = runtime();
    let (stop, goes_on) = mpsc::channel::<()>();
    let runs = runtime.spawn(async move {
        evenkeel::task::yield_now().await;
        let _ = goes_on.recv();
    });
    let hogs = Arc::new(AtomicBool::new(true));
    let until = Arc::clone(&hogs);
    // Its polls are long, so it is polled in the pool from then on.
    let in_pool = runtime.spawn(async move {
        while until.load(SeqCst) {
            let began = Instant::now();
            while began.elapsed() < Duration::from_millis(5) {}
            evenkeel::task::yield_now().await;
        }
        sleeps().await;
    });
    runtime.block_on(within(async {
        let handle = Handle::current();
        let heavy = || handle.stats().classes[Class::NORMAL.index()].hogs;
        while heavy() < 3 {
            evenkeel::time::sleep(Duration::from_millis(1)).await;
        }
        hogs.store(false, SeqCst);
        until_it_waits(&in_pool).await;
        let dump = dump(DumpOptions::new().timeout(Duration::from_secs(3))).await;
        assert_waits(&dump, &in_pool, &["task_dump::sleeps"]);
        let (outcome, entry, stacks) = entry(&dump, &runs);
        assert_eq!(
            (outcome, entry.task.state),
            (DumpOutcome::Runs, TaskState::Running)
        );
        assert!(stacks.is_empty() && !entry.task.since.is_zero());
    }));
    drop(stop);
    runtime.block_on(within(runs)).unwrap();
}

/// The worker is in a poll that keeps it, so no other task is polled.
#[test]
fn tasks_that_were_not_polled_in_time_are_listed() {
    let mut builder = Builder::new();
    let runtime = builder.workers(1).hand_off_after(None).build().unwrap();
    let waits = runtime.spawn(sleeps());
    runtime.block_on(until_it_waits(&waits));
    let ((begun, begins), (stop, goes_on)) = (mpsc::channel(), mpsc::channel::<()>());
    let runs = runtime.spawn(async move {
        begun.send(()).unwrap();
        let _ = goes_on.recv();
    });
    begins.recv().unwrap();
    let options = DumpOptions::new().timeout(Duration::from_millis(50));
    let (made, dump) = mpsc::channel();
    let handle = runtime.handle().clone();
    let asks = std::thread::spawn(move || {
        // Not `within`: there is no timer while the worker is stuck.
        made.send(handle.block_on(handle.dump(options)).unwrap())
            .unwrap();
    });
    let dump = dump.recv_timeout(Duration::from_secs(60)).unwrap();
    let (outcome, entry, _) = entry(&dump, &waits);
    assert_eq!(
        (outcome, entry.task.state),
        (DumpOutcome::NotReached, TaskState::Ready)
    );
    drop(stop);
    asks.join().unwrap();
    runtime.block_on(within(runs)).unwrap();
    // It can be asked again.
    let later = runtime.block_on(self::dump(patient()));
    assert_waits(&later, &waits, &["task_dump::sleeps"]);
}

#[test]
fn tasks_may_be_aborted_complete_and_be_spawned_meanwhile() {
    let runtime = runtime();
    runtime.block_on(async {
        let done = Arc::new(AtomicBool::new(false));
        let until = Arc::clone(&done);
        let churn = evenkeel::spawn(async move {
            while !until.load(SeqCst) {
                let tasks: Vec<_> = (0..64).map(|_| evenkeel::spawn(sleeps())).collect();
                let short: Vec<_> = (0..64)
                    .map(|_| evenkeel::spawn(evenkeel::time::sleep(Duration::from_millis(1))))
                    .collect();
                evenkeel::time::sleep(Duration::from_millis(2)).await;
                tasks.iter().for_each(JoinHandle::abort);
                for task in tasks {
                    assert!(task.await.unwrap_err().is_cancelled());
                }
                for task in short {
                    task.await.unwrap();
                }
            }
        });
        for _ in 0..30 {
            let two = [dump(patient()), dump(patient())];
            for dump in two {
                assert!(dump.await.shown() <= 200);
            }
        }
        done.store(true, SeqCst);
        within(churn).await.unwrap();
    });
}

#[test]
fn a_dump_does_not_begin_the_wait_anew() {
    runtime().block_on(async {
        let task = waiting(sleeps()).await;
        evenkeel::time::sleep(Duration::from_millis(100)).await;
        let _ = dump(patient()).await;
        let tasks = Handle::current().tasks(TaskOrder::Since, usize::MAX);
        let its = tasks.iter().find(|it| it.id == task.id()).unwrap();
        assert!(its.since >= Duration::from_millis(100), "{its}");
    });
}

#[test]
fn dumps_at_once_are_made_one_after_the_other() {
    runtime().block_on(async {
        let task = waiting(sleeps()).await;
        let dumps = [(); 3].map(|()| evenkeel::spawn(dump(patient())));
        for dump in dumps {
            assert_waits(&within(dump).await.unwrap(), &task, &["task_dump::sleeps"]);
        }
    });
}

#[test]
fn a_runtime_ends_while_a_dump_waits() {
    for _ in 0..20 {
        let runtime = Builder::new().workers(1).build().unwrap();
        let handle = runtime.handle().clone();
        for _ in 0..100 {
            drop(runtime.spawn(sleeps()));
            drop(runtime.spawn_in(Class::BULK, pending::<()>()));
        }
        let (begun, begins) = mpsc::channel();
        let asks = std::thread::spawn(move || {
            begun.send(()).unwrap();
            match handle.block_on(handle.dump(patient())) {
                Ok(dump) => assert!(dump.shown() <= dump.tasks),
                Err(error) => assert!(error.is_cancelled(), "{error}"),
            }
        });
        begins.recv().unwrap();
        runtime.shutdown(Duration::from_secs(60)).unwrap();
        asks.join().unwrap();
    }
}
