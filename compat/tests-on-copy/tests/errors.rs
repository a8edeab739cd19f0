//! Errors and panics, which a program may look at: they are Tokio's.

use std::cell::RefCell;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::process::Command;
use std::sync::mpsc::{Sender, channel};

use tokio::runtime::{Builder, Handle};

const PANIC: Option<i32> = Some(101);

/// The exit code of a program with this limit of the shell's, and what it said.
fn limited(limit: &str, variables: &[(&str, &str)]) -> (Option<i32>, String) {
    let script = format!("ulimit {limit}; exec \"$0\"");
    let mut command = Command::new("sh");
    command.args(["-c", &script, env!("CARGO_BIN_EXE_tests-on-copy")]);
    let output = command.envs(variables.iter().copied()).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), error)
}

#[test]
fn a_runtime_without_descriptors_is_an_error() {
    let with_descriptors =
        |count, evenkeel| limited(&format!("-n {count}"), &[("EVENKEEL", evenkeel)]);
    let mut errors = 0;
    for count in 5..20 {
        let (code, error) = with_descriptors(count, "on");
        if code == PANIC {
            // Tokio panics in what it makes once for a process.
            let (code, _) = with_descriptors(count, "off");
            assert_eq!(code, PANIC, "with {count} descriptors: {error}");
        } else if code != Some(0) {
            assert!(error.contains("Too many open files"), "{error}");
            errors += 1;
        }
    }
    assert!(errors > 1, "{errors}");
}

#[test]
fn a_runtime_without_a_thread_for_tokios_driver_is_an_error() {
    // There is room for two stacks: those of the worker and the monitor, or of Tokio's worker.
    let limits = [
        ("RUST_MIN_STACK", "1073741824"),
        ("EVENKEEL_SETTINGS", "workers=1"),
        ("EVENKEEL", "on"),
    ];
    let (code, error) = limited("-v 2621440", &limits);
    assert_eq!(code, Some(1), "{error}");
    // Evenkeel's own has other words.
    assert!(error.starts_with("Error: Os {"), "{error}");
}

#[test]
fn a_handle_that_is_awaited_twice_panics_with_tokios_words() {
    let runtime = Builder::new_multi_thread().build().unwrap();
    let mut handle = runtime.spawn(async {});
    runtime.block_on(&mut handle).unwrap();
    let twice = || {
        let again = poll_fn(|cx| Pin::new(&mut handle).poll(cx));
        runtime.block_on(again)
    };
    let panic = catch_unwind(AssertUnwindSafe(twice)).unwrap_err();
    let words = panic.downcast_ref::<&str>();
    assert_eq!(words, Some(&"JoinHandle polled after completion"));
}

/// Says what runtime there is when its thread ends.
struct Looks(Sender<&'static str>);

impl Drop for Looks {
    fn drop(&mut self) {
        let found = match Handle::try_current() {
            Ok(_) => "one",
            Err(error) if error.is_missing_context() => "none",
            Err(_) => "none any more",
        };
        _ = self.0.send(found);
    }
}

thread_local! {
    static LOOKS: RefCell<Option<Looks>> = const { RefCell::new(None) };
}

#[test]
fn the_destructors_of_a_thread_are_outside_the_runtime() {
    let (tell, told) = channel();
    let by_hook = tell.clone();
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(1).on_thread_start(move || {
        LOOKS.set(Some(Looks(by_hook.clone())));
    });
    let runtime = builder.build().unwrap();
    let task = runtime.spawn(async move { LOOKS.set(Some(Looks(tell))) });
    runtime.block_on(task).unwrap();
    // The one of the hook went when the task put its own there.
    assert_eq!(told.recv(), Ok("one"));
    drop((runtime, builder));
    let all: Vec<_> = told.iter().collect();
    assert!(
        !all.is_empty() && all.iter().all(|found| *found == "none"),
        "{all:?}"
    );
}
