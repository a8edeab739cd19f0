//! Time that a test decides.

use std::future::poll_fn;
use std::time::Duration;

use crate::clock::Pausable;
use crate::sched::context;
use crate::sched::shared::Shared;
use crate::sync::Arc;

/// Pauses time: it stands still while anything can run, and jumps to the next timer when all wait.
///
/// It is for tests, on a runtime made with
/// [`start_paused`](crate::runtime::Builder::start_paused), whose time is paused from the start. A
/// test of a timeout of an hour then takes no time, and its outcome does not depend on how busy the
/// machine is.
///
/// # What stands still
///
/// [`Instant::now`](super::Instant::now) on the runtime's threads and in its `block_on`, and with
/// it sleeps, timeouts, intervals, and readers that are held back
/// ([`Delivery`](crate::net::Delivery)). The clocks of the standard library go on, and so do time
/// slices and accounts.
///
/// # When it jumps
///
/// When a thread is in [`block_on`](crate::runtime::Runtime::block_on) and waits, as do all others
/// in it and all tasks; when no blocking work of this runtime is queued or under way, file work and
/// the lookup of names included; and when no descriptor has an event. Then time goes on to the next
/// timer, at once.
///
/// Another process, a thread of your own, or the network, may be about to wake a task. The runtime
/// does not know that, and time jumps while the task waits: its timeout fires. (Even bytes to this
/// process may be on their way for a moment over TCP; a pair of Unix sockets has no way.)
/// [`resume`] before such a part of a test. Blocking work that itself waits for a timer never ends,
/// as time stands until it does.
///
/// # Panics
///
/// If time is paused already, if the runtime was not made with `start_paused`, or outside a
/// runtime.
///
/// # Examples
///
/// ```
/// use evenkeel::time::{Duration, Instant, interval, sleep, timeout};
///
/// #[evenkeel::main(start_paused = true)] // or `#[evenkeel::test(start_paused = true)]`
/// async fn main() {
///     let start = Instant::now();
///     let limit = Duration::from_secs(60);
///     assert!(timeout(limit, std::future::pending::<()>()).await.is_err());
///     assert_eq!(start.elapsed(), limit);
/// }
/// ```
#[track_caller]
pub fn pause() {
    let (_, pausable) = here();
    assert!(
        pausable.pause(),
        "time is paused already; it is from the start of a runtime made with `start_paused`"
    );
}

/// Lets time go on, from where it stands, at the pace of the system's clock.
///
/// # Panics
///
/// If time is not paused, if the runtime was not made with
/// [`start_paused`](crate::runtime::Builder::start_paused), or outside a runtime.
#[track_caller]
pub fn resume() {
    let (shared, pausable) = here();
    assert!(
        pausable.resume(),
        "time is not paused, and cannot be resumed"
    );
    // The worker may sleep as one whose clock stands.
    shared.look_for_lull();
}

/// Makes time jump by `duration`, while it is paused.
///
/// First waits until all others wait, so that a task that was just spawned has set its timers; then
/// jumps; then waits again until all that became due has run and waits. Time that passes in one
/// jump does not stop at the timers in between: an interval has missed ticks. To go from timer to
/// timer, [`sleep`](super::sleep()) instead.
///
/// # Panics
///
/// If time is not paused, if the runtime was not made with
/// [`start_paused`](crate::runtime::Builder::start_paused), or outside a runtime. Also if the
/// clock, which counts some hundred years, has no time so far away.
///
/// # Cancel safety
///
/// Dropped before its end, it may have made time jump or not.
///
/// # Examples
///
/// ```
/// use evenkeel::time::{Duration, advance, sleep};
///
/// #[evenkeel::main(start_paused = true)]
/// async fn main() {
///     let task = evenkeel::spawn(sleep(Duration::from_secs(10)));
///     advance(Duration::from_secs(9)).await;
///     assert!(!task.is_finished());
///     advance(Duration::from_secs(1)).await;
///     assert!(task.is_finished());
/// }
/// ```
pub async fn advance(duration: Duration) {
    let (_, pausable) = here();
    let check = || {
        let message = "time is not paused, and cannot be advanced: it goes on by itself";
        assert!(pausable.is_paused(), "{message}");
    };
    check();
    lull(pausable).await;
    check();
    assert!(
        pausable.advance(duration),
        "time cannot be advanced by {duration:?}: the clock counts some hundred years"
    );
    lull(pausable).await;
}

/// Waits until all others wait.
async fn lull(pausable: &Pausable) {
    let mut since = None;
    poll_fn(|cx| pausable.poll_lull(&mut since, cx)).await;
}

#[track_caller]
fn here() -> (Arc<Shared>, &'static Pausable) {
    let shared = match context::current() {
        Ok(shared) => shared,
        Err(error) => panic!("{error}"),
    };
    match shared.clock.pausable() {
        Some(pausable) => (shared, pausable),
        None => panic!(
            "the time of this runtime cannot be paused: make it with `Builder::start_paused`, or \
             the test with `#[evenkeel::test(start_paused = true)]`"
        ),
    }
}
