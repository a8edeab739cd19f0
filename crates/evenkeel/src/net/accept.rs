//! Accepting when things go wrong: a connection that died in the backlog, and a process that has
//! no descriptor left for the next one.
//!
//! A connection that cannot be accepted for want of a descriptor stays in the backlog, so the
//! listener stays readable, and a server that simply tries again burns its processor until some
//! other connection closes. [`Pause`] makes the attempt after such a failure wait.

use std::fmt;
use std::io;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::time::{Instant, Sleep, sleep_until};

/// The pause after the first failure in a row: short enough that nobody notices, long enough that
/// a hundred failures a second cost nothing.
const PAUSE_MIN: Duration = Duration::from_millis(10);

/// The longest pause, and so the longest that a freed descriptor stays unused.
const PAUSE_MAX: Duration = Duration::from_millis(100);

/// Dead connections that one attempt skips before it reports the last of them, so that a flood of
/// them cannot keep a poll from ending.
const SKIPPED_MAX: usize = 16;

/// Accepts, skipping connections that their peers, or the network, gave up while they were queued.
pub(super) fn skip_dead<T>(mut accept: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let mut skipped = 0;
    loop {
        match accept() {
            Err(error) if is_dead_connection(&error) && skipped < SKIPPED_MAX => skipped += 1,
            result => return result,
        }
    }
}

/// Errors that `accept` hands on from the connection it was about to return.
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

/// Errors that say that this process or this system has run out of something.
fn is_shortage(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM)
    )
}

/// The wait of a listener between an attempt that failed for want of a descriptor and the next.
pub(super) struct Pause {
    /// Spares the lock while nothing is wrong. All that is acted upon stands under the lock; a
    /// task that sees an old value makes one attempt too early or takes the lock in vain.
    pausing: AtomicBool,
    state: Mutex<State>,
}

struct State {
    /// The latest pause, doubled at each failure after its end.
    pause: Duration,
    until: Option<Instant>,
    /// What [`Pause::poll`] waits on between its calls.
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
        // Relaxed: a hint, see the field.
        if self.pausing.load(Ordering::Relaxed) {
            let until = self.state.lock().until;
            if let Some(until) = until {
                sleep_until(until).await;
            }
        }
    }

    /// Like [`wait`](Self::wait), for one waiter at a time.
    pub(super) fn poll(&self, cx: &mut Context<'_>) -> Poll<()> {
        // Relaxed: a hint, see the field.
        while self.pausing.load(Ordering::Relaxed) {
            let Some((until, mut sleep)) = self.take_sleep() else {
                break;
            };
            // Without the lock: polling stores and drops wakers, which are others' code.
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

    /// What to wait on, and its time, if there is a pause.
    fn take_sleep(&self) -> Option<(Instant, Pin<Box<Sleep>>)> {
        let mut state = self.state.lock();
        let until = state.until?;
        let sleep = state.sleep.take();
        drop(state);
        Some((until, sleep.unwrap_or_else(|| Box::pin(sleep_until(until)))))
    }

    /// Keeps what is waited on until the next call, unless the pause has changed: then false.
    fn put_sleep(&self, until: Instant, sleep: Pin<Box<Sleep>>) -> bool {
        let mut state = self.state.lock();
        let is_current = state.until == Some(until);
        let before = if is_current {
            state.sleep.replace(sleep)
        } else {
            Some(sleep)
        };
        drop(state);
        // Its waker goes with it, so not under the lock.
        drop(before);
        is_current
    }

    /// Hears how an attempt ended, and hands its result on.
    pub(super) fn note<T>(&self, result: io::Result<T>) -> io::Result<T> {
        match &result {
            Err(error) if is_shortage(error) => self.begin(Instant::now()),
            // Relaxed: a hint, see the field.
            Ok(_) if self.pausing.load(Ordering::Relaxed) => self.end(),
            _ => {}
        }
        result
    }

    fn begin(&self, now: Instant) {
        let mut state = self.state.lock();
        let mut outdated = None;
        // Several tasks may fail at once at the end of one pause. That is one failure.
        if state.until.is_none_or(|until| until <= now) {
            state.pause = (state.pause * 2).clamp(PAUSE_MIN, PAUSE_MAX);
            state.until = Some(now + state.pause);
            outdated = state.sleep.take();
        }
        // Relaxed: a hint, see the field.
        self.pausing.store(true, Ordering::Relaxed);
        drop(state);
        drop(outdated);
    }

    fn end(&self) {
        let mut state = self.state.lock();
        let ended = mem::replace(&mut *state, State::NONE);
        // Relaxed: a hint, see the field.
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
