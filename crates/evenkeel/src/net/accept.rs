//! Errors of `accept`: a connection that died in the backlog, and a process that has run out of
//! descriptors.
//!
//! A connection that cannot be accepted for want of a descriptor stays in the backlog. The listener
//! stays readable, so a server that simply tries again burns its processor until some other
//! connection closes. [`Pause`] makes the attempt after such a failure wait.
//!
//! `Pause` has a flag that spares the lock while nothing is wrong. All its accesses are `Relaxed`,
//! because it is only a hint: all that counts stands under the lock. A task that sees an old value
//! makes one attempt too early, or takes the lock in vain.

use std::fmt;
use std::io;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::time::{Instant, Sleep, sleep_until};

/// The pause after the first failure in a row: short enough that nobody notices, long enough that a
/// hundred failures a second cost nothing.
const PAUSE_MIN: Duration = Duration::from_millis(10);

/// The longest pause, and so the longest that a freed descriptor stays unused.
const PAUSE_MAX: Duration = Duration::from_millis(100);

/// Dead connections that one attempt skips before it reports the last of them, so that a flood of
/// them cannot keep a poll from ending.
const SKIPPED_MAX: usize = 16;

/// Accepts, and skips connections that were aborted while they were queued.
pub(super) fn skip_dead<T>(mut accept: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let mut skipped = 0;
    loop {
        match accept() {
            Err(error) if is_dead_connection(&error) && skipped < SKIPPED_MAX => skipped += 1,
            result => return result,
        }
    }
}

/// Whether this is an error of the connection that `accept` was about to return.
fn is_dead_connection(error: &io::Error) -> bool {
    let Some(code) = error.raw_os_error() else {
        return false;
    };
    #[cfg(target_os = "linux")]
    if code == libc::ENONET {
        return true;
    }
    matches!(
        code,
        libc::ECONNABORTED
            | libc::ECONNRESET
            | libc::EPERM
            | libc::EPROTO
            | libc::ENOPROTOOPT
            | libc::ENETDOWN
            | libc::ENETUNREACH
            | libc::EHOSTDOWN
            | libc::EHOSTUNREACH
    )
}

/// Whether the process or the system has run out of descriptors or memory.
fn is_shortage(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM)
    )
}

/// The wait of a listener between an attempt that failed for want of a descriptor and the next.
pub(super) struct Pause {
    /// Whether there is a pause: a hint, see the module.
    pausing: AtomicBool,
    state: Mutex<State>,
}

struct State {
    /// The latest pause, doubled at each failure after its end.
    pause: Duration,
    until: Option<Instant>,
    /// The timer of [`Pause::poll`], kept between its calls. It ends at `until`.
    sleep: Option<Pin<Box<Sleep>>>,
}

impl State {
    const NONE: Self = Self {
        pause: Duration::ZERO,
        until: None,
        sleep: None,
    };
}

impl Pause {
    pub(super) fn new() -> Self {
        Self {
            pausing: AtomicBool::new(false),
            state: Mutex::new(State::NONE),
        }
    }

    /// Waits for the end of the pause, if there is one. Cancel safe: the end stays where it is.
    pub(super) async fn wait(&self) {
        // Relaxed: a hint.
        if self.pausing.load(Ordering::Relaxed) {
            let until = self.state.lock().until;
            if let Some(until) = until {
                sleep_until(until).await;
            }
        }
    }

    /// Like [`wait`](Self::wait), for one waiter at a time.
    pub(super) fn poll(&self, cx: &mut Context<'_>) -> Poll<()> {
        // Relaxed: a hint.
        while self.pausing.load(Ordering::Relaxed) {
            let Some((until, mut sleep)) = self.take_sleep() else {
                break;
            };
            // Without the lock: polling clones and drops wakers, which run foreign code.
            let polled = sleep.as_mut().poll(cx);
            if polled.is_ready() {
                break;
            }
            if self.put_sleep(until, sleep) {
                return Poll::Pending;
            }
        }
        Poll::Ready(())
    }

    /// The end of the pause and the timer for it, if there is a pause.
    fn take_sleep(&self) -> Option<(Instant, Pin<Box<Sleep>>)> {
        let mut state = self.state.lock();
        let until = state.until?;
        let sleep = state.sleep.take();
        drop(state);
        debug_assert!(
            sleep.as_ref().is_none_or(|sleep| sleep.deadline() == until),
            "a timer of an earlier pause was kept"
        );
        Some((until, sleep.unwrap_or_else(|| Box::pin(sleep_until(until)))))
    }

    /// Keeps the timer for the next call. Returns false if the pause has changed meanwhile.
    fn put_sleep(&self, until: Instant, sleep: Pin<Box<Sleep>>) -> bool {
        let mut state = self.state.lock();
        let is_current = state.until == Some(until);
        let before = if is_current {
            state.sleep.replace(sleep)
        } else {
            Some(sleep)
        };
        drop(state);
        // Not under the lock, since its waker is dropped with it.
        drop(before);
        is_current
    }

    /// Begins or ends the pause by the result of an attempt, and hands the result on.
    pub(super) fn note<T>(&self, result: io::Result<T>) -> io::Result<T> {
        match &result {
            Err(error) if is_shortage(error) => self.begin(Instant::now()),
            // Relaxed: a hint.
            Ok(_) if self.pausing.load(Ordering::Relaxed) => self.end(),
            _ => {}
        }
        result
    }

    fn begin(&self, now: Instant) {
        let mut state = self.state.lock();
        let mut outdated = None;
        // Several tasks may fail at once at the end of a pause. That counts as one failure.
        if state.until.is_none_or(|until| until <= now) {
            state.pause = (state.pause * 2).clamp(PAUSE_MIN, PAUSE_MAX);
            state.until = Some(now + state.pause);
            outdated = state.sleep.take();
        }
        // Relaxed: a hint.
        self.pausing.store(true, Ordering::Relaxed);
        drop(state);
        drop(outdated);
    }

    fn end(&self) {
        let mut state = self.state.lock();
        let ended = mem::replace(&mut *state, State::NONE);
        // Relaxed: a hint.
        self.pausing.store(false, Ordering::Relaxed);
        drop(state);
        drop(ended);
    }
}

impl fmt::Debug for Pause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Relaxed: a report.
        f.debug_tuple("Pause")
            .field(&self.pausing.load(Ordering::Relaxed))
            .finish()
    }
}

#[cfg(all(test, not(evenkeel_loom)))]
mod tests {
    use std::task::{Wake, Waker};

    use super::*;
    use crate::sync::Arc;

    fn os_error<T>(code: i32) -> io::Result<T> {
        Err(io::Error::from_raw_os_error(code))
    }

    #[test]
    fn dead_connections_are_skipped_up_to_a_bound() {
        let mut left = SKIPPED_MAX;
        let accepted = skip_dead(|| match left {
            0 => Ok("alive"),
            _ => {
                left -= 1;
                os_error(libc::ECONNABORTED)
            }
        });
        assert_eq!(accepted.unwrap(), "alive");

        let mut attempts = 0;
        let flooded = skip_dead::<()>(|| {
            attempts += 1;
            os_error(libc::ECONNABORTED)
        });
        assert_eq!(
            flooded.unwrap_err().raw_os_error(),
            Some(libc::ECONNABORTED)
        );
        assert_eq!(attempts, SKIPPED_MAX + 1);
    }

    #[test]
    fn any_other_error_is_returned_at_once() {
        for code in [libc::EMFILE, libc::EAGAIN, libc::EINVAL] {
            let mut attempts = 0;
            let failed = skip_dead::<()>(|| {
                attempts += 1;
                os_error(code)
            });
            assert_eq!(failed.unwrap_err().raw_os_error(), Some(code));
            assert_eq!(attempts, 1);
        }
    }

    #[test]
    fn a_pause_doubles_to_its_limit_and_ends_with_success() {
        let pause = Pause::new();
        let mut now = Instant::now();
        let mut lengths_ms = Vec::new();
        for _ in 0..6 {
            pause.begin(now);
            // A second failure within the pause changes nothing.
            pause.begin(now);
            lengths_ms.push(pause.state.lock().pause.as_millis());
            now = pause.state.lock().until.expect("a pause was begun");
        }
        assert_eq!(lengths_ms, [10, 20, 40, 80, 100, 100]);

        assert!(pause.note(Ok(())).is_ok());
        assert!(pause.state.lock().until.is_none());
        assert!(!pause.pausing.load(Ordering::Relaxed));
        assert!(pause.note::<()>(os_error(libc::ENFILE)).is_err());
        assert_eq!(pause.state.lock().pause, PAUSE_MIN);
    }

    /// A waker whose drop comes back to the pause that held it.
    struct Reentrant(Arc<Pause>);

    impl Wake for Reentrant {
        fn wake(self: Arc<Self>) {}
    }

    impl Drop for Reentrant {
        fn drop(&mut self) {
            let free = self.0.state.try_lock().is_some();
            assert!(free, "a waker's code runs under the lock of the pause");
        }
    }

    #[test]
    fn no_code_of_a_waker_runs_under_the_lock() {
        let runtime = crate::runtime::Runtime::new().unwrap();
        runtime.block_on(async {
            let pause = Arc::new(Pause::new());
            let poll = || {
                let waker = Waker::from(Arc::new(Reentrant(Arc::clone(&pause))));
                pause.poll(&mut Context::from_waker(&waker))
            };
            pause.begin(Instant::now());
            assert!(poll().is_pending());
            // The first waker makes way for the second.
            assert!(poll().is_pending());
            pause.end();
            pause.begin(Instant::now());
            assert!(poll().is_pending());
            sleep_until(Instant::now() + PAUSE_MAX).await;
            pause.begin(Instant::now());
            assert!(poll().is_pending(), "the new pause is waited for");
            pause.end();
            assert!(poll().is_ready());
        });
    }

    #[test]
    fn only_a_shortage_begins_a_pause() {
        let pause = Pause::new();
        assert!(pause.note::<()>(os_error(libc::ECONNABORTED)).is_err());
        assert!(pause.state.lock().until.is_none());
    }
}
