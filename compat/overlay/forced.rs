//! Current-thread runtimes on Evenkeel as well, with one worker each, if the program is started
//! with `EVENKEEL_FORCE=1`. Those whose clock is paused from the start stay Tokio's.

use super::is_on;
use std::sync::OnceLock;

pub(crate) fn is_forced() -> bool {
    static FORCED: OnceLock<bool> = OnceLock::new();
    let is_asked_for = || std::env::var_os("EVENKEEL_FORCE").is_some_and(|value| value == "1");
    *FORCED.get_or_init(|| is_on() && is_asked_for())
}

/// Says what to do, where Tokio would ask for the current-thread runtime that this one was meant to
/// be.
#[cfg(feature = "test-util")]
#[track_caller]
pub(crate) fn check_pause() {
    let on_evenkeel = |current: crate::runtime::Handle| current.inner.evenkeel().is_some();
    assert!(
        !(is_forced() && crate::runtime::Handle::try_current().is_ok_and(on_evenkeel)),
        "`time::pause()` requires a `current_thread` runtime of Tokio's own, and EVENKEEL_FORCE=1 \
         has put this one onto Evenkeel. Build it with `start_paused(true)`, which leaves it to \
         Tokio, or run the program without EVENKEEL_FORCE."
    );
}
