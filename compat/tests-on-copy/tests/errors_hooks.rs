//! A system without a second thread for a runtime that has hooks for them.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use tokio::runtime::{Builder, Handle};

/// Says that this is the process that is limited.
const LIMITED: &str = "LIMITED";

/// As many KiB of addresses as one large stack needs, and not two.
const ADDRESSES: usize = 1_900_000;

#[test]
fn a_build_that_lacks_a_thread_has_ended_the_others_when_it_returns() {
    if std::env::var("EVENKEEL").is_ok_and(|value| value == "off") {
        // Tokio panics.
        return;
    }
    if std::env::var_os(LIMITED).is_some() {
        return build();
    }
    let name = "a_build_that_lacks_a_thread_has_ended_the_others_when_it_returns";
    let script = format!("ulimit -v {ADDRESSES}; exec \"$0\" --exact {name} --nocapture");
    let mut command = Command::new("sh");
    command
        .args(["-c", &script])
        .arg(std::env::current_exe().unwrap());
    let output = command.env(LIMITED, "1").output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("1 passed"), "{said}");
}

fn build() {
    let counts: [Arc<AtomicUsize>; 2] = Default::default();
    let [start, stop] = counts.clone();
    let mut builder = Builder::new_multi_thread();
    builder
        .worker_threads(2)
        .enable_all()
        .thread_stack_size(1 << 30)
        .on_thread_start(move || {
            // It is in the runtime, which has it run nothing more.
            drop(Handle::current().spawn(async {}));
            start.fetch_add(1, SeqCst);
        })
        .on_thread_stop(move || _ = stop.fetch_add(1, SeqCst));
    let error = builder.build().map(drop).unwrap_err();
    assert!(error.to_string().contains("thread"), "{error}");
    assert_eq!(counts.map(|count| count.load(SeqCst)), [1, 1]);
}
