//! Evenkeel's server and client, in a runtime that Tokio's builder has made and in one of
//! Evenkeel's own. With `EVENKEEL=off` in the environment, the first is Tokio's.

use std::time::Duration;

use served::{Outcome, serve_one};

/// Longer than any test takes on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

#[track_caller]
fn check(outcome: &Outcome) {
    assert_eq!(outcome.answer, "Some(normal)");
    assert_eq!((outcome.served.connections, outcome.served.cut_off), (1, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn they_work_in_a_runtime_of_tokios_builder() {
    if evenkeel::runtime::Handle::try_current().is_err() {
        return;
    }
    let outcome = tokio::time::timeout(LIMIT, serve_one(true)).await;
    check(&outcome.unwrap().unwrap());
}

/// It is one of Evenkeel's if that is forced.
#[tokio::test]
async fn they_work_in_a_current_thread_runtime_that_is_forced() {
    let is = |name, value| std::env::var_os(name).is_some_and(|found| found == value);
    let is_forced = is("EVENKEEL_FORCE", "1") && !is("EVENKEEL", "off");
    assert_eq!(evenkeel::runtime::Handle::try_current().is_ok(), is_forced);
    if is_forced {
        let outcome = tokio::time::timeout(LIMIT, serve_one(true)).await;
        check(&outcome.unwrap().unwrap());
    }
}

#[evenkeel::test]
async fn they_work_in_a_runtime_of_evenkeels_own() {
    let outcome = evenkeel::time::timeout(LIMIT, serve_one(false)).await;
    check(&outcome.unwrap().unwrap());
}
