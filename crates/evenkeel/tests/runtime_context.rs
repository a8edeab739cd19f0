//! Which runtime a thread belongs to, and what code may do there.

#[path = "support/hang.rs"]
mod hang;
mod support;

use std::any::Any;
use std::future::Future;
use std::panic::{self, AssertUnwindSafe};
use std::pin::pin;
use std::task::{Context, Waker};
use std::thread;
use std::time::Duration;

use evenkeel::Class;
use evenkeel::net::{TcpListener, TcpStream, UdpSocket};
use evenkeel::runtime::{Builder, Handle, Runtime};
use evenkeel::task::JoinSet;
use hang::watched;
use support::within;

/// The classes of every runtime.
const ALL: [Class; 3] = [Class::URGENT, Class::NORMAL, Class::BULK];

fn runtime(name: &str, workers: usize) -> Runtime {
    Builder::new()
        .workers(workers)
        .thread_name(name)
        .build()
        .unwrap()
}

fn said(payload: Box<dyn Any + Send>) -> String {
    payload
        .downcast::<String>()
        .map(|text| *text)
        .unwrap_or_else(|payload| {
            payload
                .downcast_ref::<&str>()
                .map_or_else(String::new, ToString::to_string)
        })
}

/// The message of `act` when it panicked.
fn panic_of<R>(act: impl FnOnce() -> R) -> String {
    match panic::catch_unwind(AssertUnwindSafe(act)) {
        Ok(_) => panic!("this does not panic, but should"),
        Err(payload) => said(payload),
    }
}

/// One poll outside every runtime.
fn poll_outside<F: Future>(future: F) {
    let mut context = Context::from_waker(Waker::noop());
    let _ = pin!(future).poll(&mut context);
}

const ADVICE: &str = "inside `Runtime::block_on`";

#[test]
fn what_needs_a_runtime_says_so_without_one() {
    let panics = [
        panic_of(|| evenkeel::spawn(async {})),
        panic_of(|| evenkeel::spawn_in(Class::BULK, async {})),
        panic_of(|| evenkeel::spawn_blocking(|| ())),
        panic_of(Handle::current),
        panic_of(|| JoinSet::new().spawn(async {})),
        panic_of(|| JoinSet::new().spawn_blocking(|| ())),
        panic_of(|| poll_outside(evenkeel::time::sleep(Duration::from_secs(1)))),
    ];
    for text in panics {
        assert!(text.contains(ADVICE), "no advice in: {text}");
    }
    let error = Handle::try_current().unwrap_err();
    assert!(error.to_string().contains(ADVICE), "{error}");
    let errors = [
        std::net::TcpListener::bind("127.0.0.1:0")
            .and_then(TcpListener::from_std)
            .err(),
        std::net::UdpSocket::bind("127.0.0.1:0")
            .and_then(UdpSocket::from_std)
            .err(),
    ];
    for error in errors {
        let error = error.expect("there is no runtime");
        assert!(error.to_string().contains(ADVICE), "{error}");
    }
}

/// Futures that only wait for others need no runtime.
#[test]
fn what_needs_no_runtime_works_without_one() {
    poll_outside(evenkeel::task::yield_now());
    poll_outside(evenkeel::task::checkpoint());
    assert!(JoinSet::<()>::new().is_empty());
}

#[test]
fn the_context_ends_with_block_on() {
    watched("context", || {
        let runtime = runtime("context", 1);
        runtime.block_on(async { assert!(Handle::try_current().is_ok()) });
        assert!(Handle::try_current().is_err());
        let text = panic_of(|| runtime.block_on(async { panic!("on purpose") }));
        assert_eq!(text, "on purpose");
        assert!(
            Handle::try_current().is_err(),
            "also when the future panics"
        );
        assert_eq!(runtime.block_on(async { 1 }), 1);
    });
}

#[test]
fn blocking_on_a_worker_panics_with_advice() {
    watched("block_on", || {
        let (first, second) = (runtime("first", 1), runtime("second", 1));
        let handles = [first.handle().clone(), second.handle().clone()];
        for handle in handles {
            // Also on another runtime's worker: it would be held up all the same.
            let task = first.spawn(async move { handle.block_on(async {}) });
            let text = said(first.block_on(task).unwrap_err().into_panic());
            assert!(
                text.contains("worker") && text.contains("spawn_blocking"),
                "{text}"
            );
        }
        let handle = first.handle().clone();
        let task = first.spawn_blocking(move || handle.block_on(async { 5 }));
        assert_eq!(first.block_on(task).unwrap(), 5, "blocking work may block");
    });
}

#[test]
fn block_on_may_be_nested_outside_workers() {
    watched("nested", || {
        let (first, second) = (runtime("outer", 1), runtime("inner", 1));
        let thread_name = || thread::current().name().unwrap_or_default().to_owned();
        first.block_on(async {
            let inner = second.block_on(async move {
                evenkeel::spawn(async move { thread_name() }).await.unwrap()
            });
            assert_eq!(inner, "inner-0");
            let outer = evenkeel::spawn(async move { thread_name() }).await.unwrap();
            assert_eq!(
                outer, "outer-0",
                "the outer runtime is the current one again"
            );
        });
    });
}

#[test]
fn a_handle_works_on_any_thread() {
    watched("handle", || {
        let runtime = runtime("home", 2);
        let threads: Vec<_> = (0..4u64)
            .map(|thread| {
                let handle = runtime.handle().clone();
                thread::spawn(move || {
                    let tasks: Vec<_> = (0..100)
                        .map(|n| handle.spawn(async move { thread * 100 + n }))
                        .collect();
                    let sum = |tasks: Vec<evenkeel::task::JoinHandle<u64>>| async move {
                        let mut sum = 0;
                        for task in tasks {
                            sum += task.await.unwrap();
                        }
                        sum
                    };
                    handle.block_on(within(sum(tasks)))
                })
            })
            .collect();
        let sum: u64 = threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .sum();
        assert_eq!(sum, (0..400).sum());
    });
}

#[test]
fn a_task_finds_its_own_runtime() {
    watched("own", || {
        let runtimes = ["one", "two", "three"].map(|name| runtime(name, 1));
        let here = || async {
            let named = || thread::current().name().unwrap_or_default().to_owned();
            let task = evenkeel::spawn(async move { named() }).await.unwrap();
            let blocking = evenkeel::spawn_blocking(named).await.unwrap();
            (task, blocking)
        };
        for (runtime, name) in runtimes.iter().zip(["one", "two", "three"]) {
            let found = runtime.block_on(runtime.spawn(here())).unwrap();
            assert_eq!(found, (format!("{name}-0"), format!("{name}-blocking")));
            // A task of one runtime may wait for one of another.
            let other = runtimes[0].handle().clone();
            let task = runtime.spawn(async move { other.spawn(here()).await.unwrap() });
            assert_eq!(runtime.block_on(task).unwrap().0, "one-0");
        }
    });
}

#[test]
fn blocking_work_is_inside_its_runtime() {
    watched("blocking", || {
        let runtime = runtime("inside", 1);
        let task = runtime.spawn_blocking(|| {
            let handle = Handle::current();
            handle.block_on(evenkeel::spawn(async { 8 })).unwrap()
        });
        assert_eq!(runtime.block_on(task).unwrap(), 8);
    });
}

/// The class under which a task's polls are counted.
fn class_of_polls(runtime: &Runtime, run: impl FnOnce()) -> Vec<Class> {
    let before = runtime.stats();
    run();
    let classes = runtime.stats().since(&before).classes;
    classes
        .into_iter()
        .filter(|class| class.polls > 0)
        .map(|class| class.class)
        .collect()
}

#[test]
fn a_child_is_of_its_parents_class() {
    watched("classes", || {
        let runtime = runtime("class", 1);
        for class in ALL {
            let polled = class_of_polls(&runtime, || {
                let family = async {
                    evenkeel::spawn(async { evenkeel::spawn(async {}).await })
                        .await
                        .unwrap()
                };
                runtime
                    .block_on(runtime.spawn_in(class, family))
                    .unwrap()
                    .unwrap();
            });
            assert_eq!(polled, [class]);
        }
        for child in ALL {
            let polled = class_of_polls(&runtime, || {
                let parent = async move { evenkeel::spawn_in(child, async {}).await };
                runtime
                    .block_on(runtime.spawn_in(Class::NORMAL, parent))
                    .unwrap()
                    .unwrap();
            });
            let mut expected = vec![child, Class::NORMAL];
            expected.sort();
            expected.dedup();
            assert_eq!(polled, expected);
        }
        let polled = class_of_polls(&runtime, || {
            runtime
                .block_on(async { evenkeel::spawn(async {}).await })
                .unwrap();
        });
        assert_eq!(
            polled,
            [Class::NORMAL],
            "what no task spawned is of the normal class"
        );
    });
}

/// Across runtimes, too: the parent's worker knows the class.
#[test]
fn a_child_on_another_runtime_is_of_its_parents_class() {
    watched("classes", || {
        let (first, second) = (runtime("parent", 1), runtime("child", 1));
        let other = second.handle().clone();
        let polled = class_of_polls(&second, || {
            let parent = async move { other.spawn(async {}).await };
            first
                .block_on(first.spawn_in(Class::BULK, parent))
                .unwrap()
                .unwrap();
        });
        assert_eq!(polled, [Class::BULK]);
    });
}

#[test]
fn a_join_set_gathers_tasks_of_every_kind() {
    watched("join set", || {
        let runtime = runtime("set", 2);
        runtime.block_on(within(async {
            let mut set = JoinSet::new();
            for number in 0..200u64 {
                match number % 4 {
                    0 => set.spawn(async move { number }),
                    1 => set.spawn_in(Class::URGENT, async move {
                        evenkeel::task::yield_now().await;
                        number
                    }),
                    2 => set.spawn_blocking(move || number),
                    _ => set.spawn(async move {
                        evenkeel::time::sleep(Duration::from_millis(number % 7)).await;
                        number
                    }),
                };
            }
            set.spawn(async { panic!("on purpose") });
            set.spawn(std::future::pending()).abort();
            let (mut sum, mut panics, mut aborts) = (0, 0, 0);
            while let Some(result) = set.join_next().await {
                match result {
                    Ok(number) => sum += number,
                    Err(error) if error.is_panic() => panics += 1,
                    Err(_) => aborts += 1,
                }
            }
            assert_eq!((sum, panics, aborts), ((0..200).sum(), 1, 1));
        }));
        assert_eq!(runtime.stats().tasks_waiting, 0);
    });
}

#[test]
fn dropping_a_join_set_aborts_its_tasks() {
    watched("dropped set", || {
        let runtime = runtime("dropped", 2);
        let canary = std::sync::Arc::new(());
        runtime.block_on(async {
            let mut set = JoinSet::new();
            for _ in 0..50 {
                let canary = std::sync::Arc::clone(&canary);
                set.spawn(async move {
                    std::future::pending::<()>().await;
                    drop(canary);
                });
            }
        });
        hang::until("aborted", || std::sync::Arc::strong_count(&canary) == 1);
    });
}

/// A connection may be made on one runtime and served by another.
#[test]
fn sockets_of_two_runtimes_talk() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    watched("two runtimes", || {
        let (server, client) = (runtime("server", 1), runtime("client", 1));
        let listener = server.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let serving = server.spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut byte = [0];
            stream.read_exact(&mut byte).await.unwrap();
            stream.write_all(&[byte[0] + 1]).await.unwrap();
        });
        let mut stream = client.block_on(TcpStream::connect(address)).unwrap();
        // It is polled on the other runtime's workers, but its events still come from its own.
        let answer = server.spawn(async move {
            stream.write_all(&[41]).await.unwrap();
            let mut byte = [0];
            stream.read_exact(&mut byte).await.unwrap();
            byte[0]
        });
        assert_eq!(client.block_on(within(answer)).unwrap(), 42);
        server.block_on(within(serving)).unwrap();
    });
}
