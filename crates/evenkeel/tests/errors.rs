//! The output of a program that returns an error from `main`, which is the error's `Debug`.

use std::fmt::{Debug, Display};
use std::sync::mpsc;
use std::time::Duration;

use evenkeel::BusyWait;
use evenkeel::runtime::{Builder, Handle, Runtime};
use evenkeel::time::timeout;

fn check(error: impl Debug + Display, word: &str) {
    let (debug, message) = (format!("{error:?}"), error.to_string());
    assert!(message.contains(word), "{message}");
    assert!(debug.contains(&message), "`{debug}` lacks `{message}`");
}

#[test]
fn an_error_that_main_returns_says_what_happened() {
    check(Handle::try_current().unwrap_err(), "no evenkeel runtime");
    check(Builder::new().workers(0).build().unwrap_err(), "use 1 to");
    check("never".parse::<BusyWait>().unwrap_err(), "never");

    let runtime = Runtime::new().unwrap();
    let late = timeout(Duration::from_millis(1), std::future::pending::<()>());
    check(runtime.block_on(late).unwrap_err(), "the time limit passed");
    let task = runtime.spawn(std::future::pending::<()>());
    task.abort();
    check(runtime.block_on(task).unwrap_err(), "was cancelled");

    let (release, held) = mpsc::channel::<()>();
    let (begin, begun) = mpsc::channel();
    let work = runtime.spawn_blocking(move || {
        begin.send(()).unwrap();
        held.recv()
    });
    // Otherwise it would be cancelled.
    begun.recv().unwrap();
    let error = runtime.shutdown(Duration::from_millis(1)).unwrap_err();
    check(error, "errors.rs");
    drop((release, work));
}
