//! Workers of real-time priority: which threads have it, which must not, and the error if it is
//! refused.
#![cfg(target_os = "linux")]

#[path = "support/hang.rs"]
mod hang;
#[path = "support/hogs.rs"]
mod hogs;
mod support;

use std::fs;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::task::Poll;
use std::thread;
use std::time::Duration;

use evenkeel::runtime::{BuildError, Builder, Runtime};
use evenkeel::task::JoinHandle;
use hang::{until, watched};
use hogs::{Gate, Hold};
use support::within;

/// The names of policies in `sched(7)`.
const RR: u32 = 2;
const BATCH: u32 = 3;
const OTHER: u32 = 0;

/// The highest priority that a process without privilege may have; set for a child.
const LIMIT: &str = "REAL_TIME_LIMIT";

/// A thread's policy and real-time priority.
type Scheduling = (u32, u32);

fn scheduling(stat: &str) -> Scheduling {
    // Fields 40 and 41 of `proc_pid_stat(5)`; the third is the first behind the name.
    let (_, rest) = stat.rsplit_once(')').unwrap();
    let field = |number: usize| -> u32 {
        let field = rest.split_whitespace().nth(number - 3).unwrap();
        field.parse().unwrap()
    };
    (field(41), field(40))
}

fn own() -> Scheduling {
    scheduling(&fs::read_to_string("/proc/thread-self/stat").unwrap())
}

/// How the threads of this name are scheduled.
fn of(name: &str) -> Vec<Scheduling> {
    let mut all = Vec::new();
    for thread in fs::read_dir("/proc/self/task").unwrap() {
        let path = thread.unwrap().path();
        let comm = fs::read_to_string(path.join("comm")).unwrap_or_default();
        if comm.trim_end() == name
            && let Ok(stat) = fs::read_to_string(path.join("stat"))
        {
            all.push(scheduling(&stat));
        }
    }
    all.sort_unstable();
    all
}

fn runtime(name: &str, workers: usize) -> Option<Runtime> {
    build(Builder::new().workers(workers).thread_name(name))
}

/// Returns `None`, with a message, if this process may not.
fn build(builder: &mut Builder) -> Option<Runtime> {
    match builder.real_time_workers(true).build() {
        Ok(runtime) => Some(runtime),
        Err(BuildError::RealTime(error)) => {
            let allowed = Command::new("chrt").args(["--rr", "2", "true"]).status();
            assert!(!allowed.is_ok_and(|status| status.success()), "{error}");
            eprintln!("not tested: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Asks repeatedly, each time after a sleep of the worker: a busy machine may take so long to run
/// it that it counts as busy.
async fn have_it_once() {
    while own() != (RR, 1) {
        evenkeel::time::sleep(Duration::from_millis(5)).await;
    }
}

/// This many tasks that compute for 20 ms at a time, until the flag is set.
fn hogs_in_the_pool(runtime: &Runtime, count: usize) -> (Vec<JoinHandle<()>>, Arc<AtomicBool>) {
    let stop = Arc::new(AtomicBool::new(false));
    let hog = |_| {
        let stop = Arc::clone(&stop);
        runtime.spawn(async move {
            while !stop.load(SeqCst) {
                hogs::compute(Duration::from_millis(20));
                evenkeel::task::yield_now().await;
            }
        })
    };
    ((0..count).map(hog).collect(), stop)
}

#[test]
fn workers_have_it_and_what_they_start_has_not() {
    watched("inheritance", || {
        let Some(runtime) = runtime("kin", 2) else {
            return;
        };
        for worker in ["kin-0", "kin-1"] {
            until(worker, || of(worker) == [(RR, 1)]);
        }
        until("the monitor", || of("kin-monitor") == [(RR, 2)]);
        let task = runtime.spawn(async {
            have_it_once().await;
            let thread = thread::spawn(own).join().unwrap();
            let process = Command::new("cat").arg("/proc/self/stat").output();
            let process = String::from_utf8(process.unwrap().stdout).unwrap();
            let blocking = evenkeel::spawn_blocking(own).await.unwrap();
            [thread, scheduling(&process), blocking]
        });
        let others = runtime.block_on(within(task)).unwrap();
        assert!(others.iter().all(|&(_, level)| level == 0), "{others:?}");
    });
}

#[test]
fn hooks_and_what_they_start_have_it_not() {
    watched("hooks", || {
        let (send, seen) = mpsc::channel();
        let tell = move |what| {
            let thread = thread::spawn(own).join().unwrap();
            send.send((what, own(), thread)).unwrap();
        };
        let (started, stopped, hog) = (tell.clone(), tell.clone(), tell);
        let mut builder = Builder::new();
        builder
            .workers(1)
            .thread_name("hooks")
            .blocking_keep_alive(Duration::from_millis(5))
            .on_thread_start(move || started("start"))
            .on_thread_stop(move || stopped("stop"))
            .on_hog(move |_| hog("hog"));
        let Some(runtime) = build(&mut builder) else {
            return;
        };
        // Known hogs, which the monitor reports once a second: each time on a new thread.
        let (tasks, stop) = hogs_in_the_pool(&runtime, 2);
        let mut reports = 0;
        while reports < 3 {
            let (what, hook, thread) = seen.recv().unwrap();
            assert_eq!((hook.1, thread.1), (0, 0), "{what}");
            reports += u32::from(what == "hog");
        }
        stop.store(true, SeqCst);
        for task in tasks {
            runtime.block_on(within(task)).unwrap();
        }
        runtime.shutdown(Duration::from_secs(60)).unwrap();
        let rest: Vec<_> = seen.try_iter().collect();
        assert!(rest.iter().any(|&(what, ..)| what == "stop"), "{rest:?}");
        assert!(
            rest.iter()
                .all(|&(_, hook, thread)| (hook.1, thread.1) == (0, 0)),
            "{rest:?}"
        );
    });
}

#[test]
fn a_hogs_thread_loses_it_and_its_heir_has_it() {
    watched("hand-off", || {
        for hold in [Hold::Spins, Hold::Sleeps] {
            let Some(runtime) = runtime("heir", 1) else {
                return;
            };
            let mut gate = Gate::closed();
            let entrance = gate.entrance();
            let hog = runtime.spawn(async move {
                have_it_once().await;
                entrance.wait(hold);
            });
            until("the hog runs", || gate.arrived() == 1);
            // Both are called on the worker.
            until("one of each", || of("heir-0") == [(RR, 1), (BATCH, 0)]);
            runtime
                .block_on(within(runtime.spawn(have_it_once())))
                .unwrap();
            gate.open();
            runtime.block_on(within(hog)).unwrap();
        }
    });
}

#[test]
fn a_hog_that_nobody_takes_the_seat_from_loses_it() {
    watched("full", || {
        let mut builder = Builder::new();
        builder
            .workers(2)
            .heavy_threads(1)
            .blocked_threads(0)
            .thread_name("full");
        let Some(runtime) = build(&mut builder) else {
            return;
        };
        let mut gate = Gate::closed();
        let hogs: Vec<_> = (0..3)
            .map(|_| {
                let entrance = gate.entrance();
                runtime.spawn(async move {
                    have_it_once().await;
                    entrance.wait(Hold::Spins);
                })
            })
            .collect();
        // The lane has one and each worker one, for good.
        until("all are stuck", || gate.arrived() == 3);
        let has_it = |name| of(name).iter().any(|&(_, level)| level > 0);
        until("all are ordinary", || {
            !has_it("full-0") && !has_it("full-1")
        });
        gate.open();
        for hog in hogs {
            runtime.block_on(within(hog)).unwrap();
        }
        // They have it again after they have slept. One that found an event when it was about to
        // has it the next time, so there has to be one.
        until("the workers", || {
            for _ in 0..4 {
                drop(runtime.spawn(evenkeel::time::sleep(Duration::from_millis(3))));
            }
            has_it("full-0") && has_it("full-1")
        });
    });
}

#[test]
fn a_hog_at_the_end_loses_it() {
    watched("end", || {
        for _ in 0..10 {
            let Some(runtime) = runtime("end", 1) else {
                return;
            };
            let gate = Gate::closed();
            let entrance = gate.entrance();
            drop(runtime.spawn(async move {
                have_it_once().await;
                entrance.wait(Hold::Spins);
            }));
            until("the hog runs", || gate.arrived() == 1);
            assert!(runtime.shutdown(Duration::from_millis(1)).is_err());
            until("all are ordinary", || {
                of("end-0").iter().all(|&(_, level)| level == 0)
            });
            drop(gate);
            until("the end", || of("end-0").is_empty());
        }
    });
}

#[test]
fn a_worker_that_is_busy_for_long_has_it_not_until_it_sleeps() {
    watched("busy", || {
        let Some(runtime) = runtime("busy", 1) else {
            return;
        };
        let task = runtime.spawn(async {
            have_it_once().await;
            while own().1 > 0 {
                hogs::compute(Duration::from_micros(20));
                evenkeel::task::yield_now().await;
            }
            have_it_once().await;
        });
        runtime.block_on(within(task)).unwrap();
    });
}

/// It goes to the kernel for events again and again, and never sleeps there.
#[test]
fn a_worker_that_is_kept_from_sleeping_by_events_has_it_seldom() {
    watched("events", || {
        let Some(runtime) = runtime("events", 1) else {
            return;
        };
        let task = runtime.spawn(async {
            let (here, there) = evenkeel::net::UnixStream::pair().unwrap();
            let (mut with, mut without) = (0, 0);
            for _ in 0..4_000 {
                let mut buffer = [0; 8];
                assert!(there.try_read(&mut buffer).is_err());
                let mut readable = pin!(there.readable());
                // It waits before the event comes.
                poll_fn(|cx| Poll::Ready(readable.as_mut().poll(cx).is_pending())).await;
                here.try_write(&[1]).unwrap();
                hogs::compute(Duration::from_micros(50));
                readable.await.unwrap();
                there.try_read(&mut buffer).unwrap();
                *(if own().1 > 0 { &mut with } else { &mut without }) += 1;
            }
            (with, without)
        });
        let (with, without) = runtime.block_on(within(task)).unwrap();
        assert!(
            with < 2 * without,
            "{with} rounds with it, {without} without"
        );
    });
}

#[test]
fn threads_of_the_heavy_pool_do_not_have_it() {
    watched("lane", || {
        let Some(runtime) = runtime("lane", 1) else {
            return;
        };
        // More than threads that have lost their seat come to serve.
        let (tasks, stop) = hogs_in_the_pool(&runtime, 12);
        until("an ordinary thread of the lane, and no other", || {
            let seen = of("lane-heavy");
            !seen.is_empty() && seen.iter().all(|&(_, level)| level == 0)
        });
        stop.store(true, SeqCst);
        for task in tasks {
            runtime.block_on(within(task)).unwrap();
        }
    });
}

#[test]
fn beside_hogs_alone_workers_have_it_only_while_one_computes() {
    watched("beside", || {
        let mut builder = Builder::new();
        builder.workers(1).thread_name("beside");
        let Some(_) = build(builder.clone().thread_name("asked")) else {
            return;
        };
        let runtime = builder.real_time_beside_hogs(true).build().unwrap();
        until("the monitor", || of("beside-monitor") == [(RR, 2)]);
        let own_after_a_sleep = async || {
            evenkeel::time::sleep(Duration::from_millis(5)).await;
            own()
        };
        for _ in 0..6 {
            let task = runtime.spawn(async move {
                // A pause of the kernel's may be as long as a hog's poll, and looks like one.
                while own_after_a_sleep().await != (OTHER, 0) {}
            });
            runtime.block_on(within(task)).unwrap();
            let (tasks, stop) = hogs_in_the_pool(&runtime, 1);
            let task = runtime.spawn(async move {
                have_it_once().await;
                stop.store(true, SeqCst);
                // It falls asleep with it, and when it wakes no hog has computed for long.
                evenkeel::time::sleep(Duration::from_millis(300)).await;
                // Takes it away, and is mostly over before another thread has the seat.
                evenkeel::task::block_in_place(|| {});
            });
            runtime.block_on(within(task)).unwrap();
            for task in tasks {
                runtime.block_on(within(task)).unwrap();
            }
        }
    });
}

#[test]
fn a_thread_that_takes_over_a_seat_has_the_nice_level_of_the_process() {
    watched("nice", || {
        let id = fs::read_link("/proc/thread-self").unwrap();
        let id = id.file_name().unwrap().to_owned();
        // The level of a runtime is that of the thread that builds it.
        let lowered = Command::new("renice")
            .args(["-n", "5", "-p"])
            .arg(id)
            .output();
        if !lowered.is_ok_and(|output| output.status.success()) {
            eprintln!("not tested: there is no `renice`");
            return;
        }
        let Some(runtime) = runtime("nice", 1) else {
            return;
        };
        let (tasks, stop) = hogs_in_the_pool(&runtime, 1);
        let level = runtime.spawn(async {
            // It has been handed over by then.
            evenkeel::time::sleep(Duration::from_millis(50)).await;
            let stat = fs::read_to_string("/proc/thread-self/stat").unwrap();
            let (_, rest) = stat.rsplit_once(')').unwrap();
            // Field 19 of `proc_pid_stat(5)`; the third is the first behind the name.
            rest.split_whitespace().nth(16).unwrap().to_owned()
        });
        assert_eq!(runtime.block_on(within(level)).unwrap(), "5");
        assert!(runtime.stats().heavy.hand_offs > 0);
        stop.store(true, SeqCst);
        for task in tasks {
            runtime.block_on(within(task)).unwrap();
        }
    });
}

#[test]
fn it_is_refused_where_workers_would_keep_it_for_long() {
    let refused = |builder: &mut Builder| {
        let error = builder.real_time_workers(true).build().err().unwrap();
        let error = error.to_string();
        assert!(error.contains("real_time_workers"), "{error}");
    };
    refused(Builder::new().hand_off_after(None));
    refused(Builder::new().hand_off_after(Some(Duration::from_millis(11))));
    refused(Builder::new().io_check_bound(Duration::from_millis(3)));
    let mut late = Builder::new();
    late.io_check_bound(Duration::from_millis(3));
    let error = late.real_time_beside_hogs(true).build().err().unwrap();
    let error = error.to_string();
    assert!(error.contains("real_time_beside_hogs"), "{error}");
    // Who switches one of the two off leaves the other.
    let error = late.real_time_workers(false).build().err().unwrap();
    assert!(error.to_string().contains("real_time_beside_hogs"));
    late.real_time_beside_hogs(false).build().unwrap();
}

/// Runs another test of this file in a process without the privilege, which may have priorities up
/// to this.
fn run_limited(test: &str, limit: u32) {
    let output = Command::new("prlimit")
        .arg(format!("--rtprio={limit}"))
        .args([
            "setpriv",
            "--bounding-set=-sys_nice",
            "--inh-caps=-sys_nice",
        ])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", test])
        .env(LIMIT, limit.to_string())
        .output();
    match output {
        Ok(output) if output.status.success() => {
            let output = String::from_utf8_lossy(&output.stdout);
            assert!(output.contains("1 passed"), "{output}");
        }
        // This process may not have the priority either, or not drop privileges.
        Ok(output) if output.stderr.starts_with(b"prlimit") => {
            eprintln!("not tested: {}", String::from_utf8_lossy(&output.stderr));
        }
        Ok(output) => panic!("{output:?}"),
        Err(error) => eprintln!("not tested, there is no `prlimit`: {error}"),
    }
}

#[test]
fn a_limit_does_in_place_of_a_privilege() {
    run_limited("a_hogs_thread_loses_it_and_its_heir_has_it", 2);
}

#[test]
fn where_it_is_not_allowed_the_error_says_what_to_do() {
    if std::env::var_os(LIMIT).is_none() {
        return run_limited("where_it_is_not_allowed_the_error_says_what_to_do", 0);
    }
    let built = Builder::new().workers(1).real_time_workers(true).build();
    let error = built.err().unwrap();
    assert!(matches!(error, BuildError::RealTime(_)), "{error}");
    let error = error.to_string();
    assert!(
        error.contains("CAP_SYS_NICE") && error.contains("ulimit -r 2"),
        "{error}"
    );
}
