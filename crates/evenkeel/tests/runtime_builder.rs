//! Settings of a runtime before it starts: limits, names, hooks.

#[path = "support/hang.rs"]
mod hang;

use std::collections::{BTreeMap, HashSet};
use std::error::Error;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::{self, ThreadId};
use std::time::Duration;

use evenkeel::BusyWait;
use evenkeel::runtime::{BuildError, Builder};
use hang::{until, watched};

#[test]
fn a_setting_that_makes_no_sense_is_an_error_that_says_what_would() {
    type Set = fn(&mut Builder) -> &mut Builder;
    let refused: [(&str, &str, &str, Set); 11] = [
        ("workers", "0", "1 to 1024", |builder| builder.workers(0)),
        ("workers", "1025", "1 to 1024", |builder| {
            builder.workers(1025)
        }),
        ("thread_name", "\"\"", "at least one", |builder| {
            builder.thread_name("")
        }),
        ("thread_name", "\\0", "without NUL", |builder| {
            builder.thread_name("a\0b")
        }),
        ("io_check_bound", "0ns", "10 microseconds", |builder| {
            builder.io_check_bound(Duration::ZERO)
        }),
        ("io_check_bound", "2s", "1 second", |builder| {
            builder.io_check_bound(Duration::from_secs(2))
        }),
        ("io_check_events", "0", "1 to 65536", |builder| {
            builder.io_check_events(0)
        }),
        ("max_blocking_threads", "0", "1 to 32768", |builder| {
            builder.max_blocking_threads(0)
        }),
        ("max_blocking_threads", "32769", "1 to 32768", |builder| {
            builder.max_blocking_threads(32_769)
        }),
        ("blocking_queue_limit", "0", "at least 1", |builder| {
            builder.blocking_queue_limit(0)
        }),
        ("workers", "18446744073709551615", "1 to 1024", |builder| {
            builder.workers(usize::MAX)
        }),
    ];
    for (method, given, advice, set) in refused {
        let error = set(&mut Builder::new()).build().expect_err(method);
        assert!(matches!(error, BuildError::Setting { setting, .. } if setting == method));
        let text = error.to_string();
        for part in [method, given, advice] {
            assert!(text.contains(part), "`{part}` is not in: {text}");
        }
        assert!(error.source().is_none());
    }
}

#[test]
fn settings_at_their_limits_are_taken() {
    watched("limits", || {
        let mut builder = Builder::new();
        builder
            .workers(1)
            .max_blocking_threads(1)
            .blocking_queue_limit(1);
        builder
            .blocking_keep_alive(Duration::MAX)
            .io_check_bound(Duration::from_micros(10));
        let runtime = builder.build().unwrap();
        assert_eq!(runtime.block_on(runtime.spawn_blocking(|| 1)).unwrap(), 1);
        drop(runtime);
        builder
            .max_blocking_threads(32_768)
            .blocking_queue_limit(usize::MAX);
        builder
            .blocking_keep_alive(Duration::ZERO)
            .io_check_bound(Duration::from_secs(1));
        let runtime = builder.build().unwrap();
        assert_eq!(runtime.block_on(runtime.spawn_blocking(|| 2)).unwrap(), 2);
        assert_eq!(runtime.block_on(runtime.spawn(async { 3 })).unwrap(), 3);
    });
}

#[test]
fn one_builder_makes_many_runtimes() {
    watched("many", || {
        let mut builder = Builder::new();
        builder.workers(2).thread_name("again");
        let runtimes: Vec<_> = (0..3).map(|_| builder.build().unwrap()).collect();
        for (number, runtime) in runtimes.iter().enumerate() {
            assert_eq!(
                runtime
                    .block_on(runtime.spawn(async move { number }))
                    .unwrap(),
                number
            );
        }
    });
}

#[test]
fn every_busy_wait_level_works() {
    watched("levels", || {
        for level in BusyWait::ALL {
            let runtime = Builder::new().workers(2).busy_wait(level).build().unwrap();
            for _ in 0..20 {
                let nap = evenkeel::time::sleep(Duration::from_micros(100));
                let task = runtime.spawn(async {
                    nap.await;
                    level_is_no_matter().await
                });
                assert_eq!(runtime.block_on(task).unwrap(), 7, "{level}");
            }
        }
    });
}

async fn level_is_no_matter() -> u32 {
    evenkeel::task::yield_now().await;
    evenkeel::spawn(async { 7 }).await.unwrap()
}

fn name() -> String {
    thread::current().name().unwrap_or("unnamed").to_owned()
}

#[test]
fn threads_are_called_after_the_runtime() {
    watched("names", || {
        let runtime = Builder::new()
            .workers(3)
            .thread_name("boat")
            // No thread takes another's seat, and its name, while that one waits in a poll.
            .hand_off_after(None)
            .build()
            .unwrap();
        // Three tasks that wait for each other are on three workers.
        let (arrived, all) = (Arc::new(std::sync::Barrier::new(3)), mpsc::channel());
        for _ in 0..3 {
            let (arrived, names) = (Arc::clone(&arrived), all.0.clone());
            drop(runtime.spawn(async move {
                names.send(name()).unwrap();
                arrived.wait();
            }));
        }
        let mut names: Vec<_> = all.1.iter().take(3).collect();
        names.sort();
        assert_eq!(names, ["boat-0", "boat-1", "boat-2"]);
        assert_eq!(
            runtime.block_on(runtime.spawn_blocking(name)).unwrap(),
            "boat-blocking"
        );
    });
}

/// Which hooks ran on which thread, in order.
type Log = Arc<Mutex<BTreeMap<String, Vec<&'static str>>>>;

#[test]
fn hooks_run_first_and_last_on_every_thread() {
    watched("hooks", || {
        let log: Log = Log::default();
        let note = |what: &'static str| {
            let log = Arc::clone(&log);
            move || {
                let id = format!("{} {:?}", name(), thread::current().id());
                log.lock().unwrap().entry(id).or_default().push(what);
            }
        };
        let runtime = Builder::new()
            .workers(2)
            .thread_name("hook")
            .on_thread_start(note("start"))
            .on_thread_stop(note("stop"))
            .build()
            .unwrap();
        let work = [runtime.spawn(note_in_task(note("task")))];
        for task in work {
            runtime.block_on(task).unwrap();
        }
        runtime
            .block_on(runtime.spawn_blocking(note("blocking")))
            .unwrap();
        runtime.shutdown(Duration::from_secs(60)).unwrap();

        let log = log.lock().unwrap();
        assert_eq!(log.len(), 3, "two workers and a blocking thread: {log:?}");
        for (thread, noted) in log.iter() {
            assert_eq!(noted.first(), Some(&"start"), "{thread}: {noted:?}");
            assert_eq!(noted.last(), Some(&"stop"), "{thread}: {noted:?}");
            assert!(noted.len() <= 3, "{thread}: {noted:?}");
        }
        assert_eq!(
            log.values().filter(|noted| noted.contains(&"task")).count(),
            1
        );
        assert_eq!(
            log.values()
                .filter(|noted| noted.contains(&"blocking"))
                .count(),
            1
        );
    });
}

async fn note_in_task(note: impl Fn()) {
    note();
}

/// A hook that panics must not leave a shutdown waiting for its thread.
#[test]
fn a_hook_that_panics_ends_its_thread_alone() {
    watched("panicking hook", || {
        let runtime = Builder::new()
            .workers(1)
            .on_thread_start(|| assert!(!name().contains("blocking"), "on purpose"))
            .build()
            .unwrap();
        let task = runtime.spawn_blocking(|| 1);
        assert_eq!(runtime.block_on(runtime.spawn(async { 2 })).unwrap(), 2);
        runtime.shutdown(Duration::from_secs(30)).unwrap();
        assert!(
            task.is_finished(),
            "work that no thread could do is not left waiting"
        );
    });
}

/// Nor must one at the end of a thread: neither while the runtime works nor at its own end.
#[test]
fn a_stop_hook_that_panics_stops_nothing() {
    watched("panicking stop hook", || {
        let stopped = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&stopped);
        let runtime = Builder::new()
            .workers(2)
            .blocking_keep_alive(Duration::ZERO)
            .on_thread_stop(move || {
                count.fetch_add(1, SeqCst);
                panic!("on purpose");
            })
            .build()
            .unwrap();
        for round in 1..=3 {
            assert_eq!(runtime.block_on(runtime.spawn_blocking(|| 1)).unwrap(), 1);
            until("its thread ends", || stopped.load(SeqCst) == round);
            assert_eq!(runtime.block_on(runtime.spawn(async { 2 })).unwrap(), 2);
        }
        runtime.shutdown(Duration::from_secs(30)).unwrap();
        let stopped = stopped.load(SeqCst);
        // A pause of the preemption harness may cost a worker its seat, and start one more thread.
        let is_right = stopped == 3 + 2 || (cfg!(evenkeel_preempt) && stopped > 3 + 2);
        assert!(is_right, "the workers' ran, too: {stopped}");
    });
}

#[test]
fn a_runtime_without_settings_has_a_worker_for_each_cpu() {
    watched("defaults", || {
        let runtime = evenkeel::runtime::Runtime::new().unwrap();
        let workers = runtime.stats().workers.len();
        assert!(workers >= 1 && workers <= thread::available_parallelism().unwrap().get());
        assert!(format!("{runtime:?}").contains(&format!("workers: {workers}")));
    });
}

/// All workers take part: tasks that block until enough of them run together do run together.
#[test]
fn every_worker_runs_tasks() {
    watched("every worker", || {
        for workers in [1, 2, 4, 9] {
            let runtime = Builder::new()
                .workers(workers)
                .hand_off_after(None)
                .build()
                .unwrap();
            let together = Arc::new(std::sync::Barrier::new(workers));
            let tasks: Vec<_> = (0..workers)
                .map(|_| {
                    let together = Arc::clone(&together);
                    runtime.spawn(async move {
                        together.wait();
                        thread::current().id()
                    })
                })
                .collect();
            let ids: HashSet<ThreadId> = tasks
                .into_iter()
                .map(|task| runtime.block_on(task).unwrap())
                .collect();
            assert_eq!(ids.len(), workers);
        }
    });
}

#[test]
fn workers_have_names_of_their_own_and_so_have_their_heirs() {
    watched("names", || {
        let mut builder = Builder::new();
        builder.workers(1).thread_name("other");
        builder.worker_name_fn(|worker| format!("mine {worker}"));
        let runtime = builder.build().unwrap();
        let name = || thread::current().name().map(str::to_owned).unwrap();
        let (sender, receiver) = mpsc::channel();
        let names = runtime.spawn(async move {
            evenkeel::block_in_place(|| {
                drop(evenkeel::spawn(async move { sender.send(name()).unwrap() }));
                (name(), receiver.recv().unwrap())
            })
        });
        let (holder, heir) = runtime.block_on(names).unwrap();
        assert_eq!((&*holder, &*heir), ("mine 0", "mine 0"));
        let blocking = runtime.block_on(runtime.spawn_blocking(name)).unwrap();
        assert_eq!(blocking, "other-blocking");
        drop(runtime);
        let runtime = builder.thread_name("again").build().unwrap();
        let worker = runtime.block_on(runtime.spawn(async move { name() }));
        assert_eq!(worker.unwrap(), "again-0");
        let error = builder.worker_name_fn(|_| String::new()).build();
        let text = error.unwrap_err().to_string();
        assert!(text.contains("worker_name_fn"), "{text}");
    });
}

#[test]
fn stacks_are_as_large_as_was_asked_for() {
    /// Needs more than the 2 MiB that there are by default.
    fn deep(left: usize) -> usize {
        let frame = std::hint::black_box([left; 512]);
        if left == 0 {
            return frame[0];
        }
        deep(left - 1) + frame[511] - left + 1
    }

    watched("stacks", || {
        let mut builder = Builder::new();
        builder.workers(1).thread_stack_size(16 * 1024 * 1024);
        let runtime = builder.build().unwrap();
        let in_task = runtime.spawn(async { deep(600) });
        let in_work = runtime.spawn_blocking(|| deep(600));
        assert_eq!(runtime.block_on(in_task).unwrap(), 600);
        assert_eq!(runtime.block_on(in_work).unwrap(), 600);
        let error = builder.thread_stack_size(65_535).build().unwrap_err();
        assert!(error.to_string().contains("65536"), "{error}");
        let runtime = builder.thread_stack_size(256 * 1024).build().unwrap();
        assert_eq!(runtime.block_on(runtime.spawn(async { 1 })).unwrap(), 1);
    });
}

#[test]
fn a_worker_says_when_it_sleeps_and_wakes_and_may_be_given_work_then() {
    watched("park hooks", || {
        let count = || Arc::new(AtomicUsize::new(0));
        let (parks, unparks, ran) = (count(), count(), count());
        let [park, unpark, run] = [&parks, &unparks, &ran].map(Arc::clone);
        let mut builder = Builder::new();
        builder.workers(1).on_thread_unpark(move || {
            unpark.fetch_add(1, SeqCst);
        });
        builder.on_thread_park(move || {
            if park.fetch_add(1, SeqCst) < 3 {
                let run = Arc::clone(&run);
                drop(evenkeel::spawn(async move {
                    run.fetch_add(1, SeqCst);
                }));
            }
            if park.load(SeqCst) == 2 {
                panic!("on purpose");
            }
        });
        let runtime = builder.build().unwrap();
        // No event and no timer wakes the worker meanwhile.
        until("the tasks ran", || ran.load(SeqCst) == 3);
        until("it sleeps", || {
            parks.load(SeqCst) == unparks.load(SeqCst) + 1
        });
        runtime.block_on(runtime.spawn(async {})).unwrap();
        runtime.shutdown(Duration::from_secs(60)).unwrap();
        assert_eq!(parks.load(SeqCst), unparks.load(SeqCst));
    });
}
