//! What the integration tests share.
#![allow(dead_code, reason = "each test crate uses a part")]

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Once;
use std::task::Poll;
use std::time::Duration;

/// Longer than any test takes on a busy machine.
const HUNG: Duration = Duration::from_secs(60);

/// The output of `future`, or a panic if it does not come.
///
/// A future that hangs inside one poll cannot be timed out, so a thread outside the runtime ends
/// the whole process a little later.
pub(crate) async fn within<F: Future>(future: F) -> F::Output {
    static WATCHDOG: Once = Once::new();
    WATCHDOG.call_once(|| {
        std::thread::spawn(|| {
            std::thread::sleep(HUNG * 3);
            eprintln!("the tests of this crate hang");
            std::process::exit(101);
        });
    });
    match evenkeel::time::timeout(HUNG, future).await {
        Ok(output) => output,
        Err(_) => panic!("no answer within {HUNG:?}"),
    }
}

/// Polls `future` up to `polls` times, calls `event` after poll number `event_after`, and then
/// drops the future, unless it was ready.
async fn dropped_after<F: Future>(
    future: F,
    polls: usize,
    event_after: usize,
    event: &mut impl FnMut(),
) -> Option<F::Output> {
    let mut future = pin!(future);
    let mut done = 0;
    let mut happened = false;
    let output = poll_fn(|cx| {
        if done == event_after && !happened {
            happened = true;
            event();
        }
        if done == polls {
            return Poll::Ready(None);
        }
        done += 1;
        match future.as_mut().poll(cx) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending => {
                cx.waker().wake_by_ref();
                Poll::Pending
            }
        }
    })
    .await;
    if !happened {
        event();
    }
    output
}

/// Holds an operation that waits for an event to be cancel safe: dropped after each number of
/// polls, with the event before or after any of them, it loses nothing. What a dropped operation
/// did not return, a second one does, and `check` sees each output once.
pub(crate) async fn assert_cancel_safe<F: Future>(
    mut operation: impl FnMut() -> F,
    mut event: impl FnMut(),
    mut check: impl AsyncFnMut(F::Output),
) {
    for polls in 0..=4 {
        for event_after in 0..=polls {
            let first = within(dropped_after(operation(), polls, event_after, &mut event)).await;
            let output = match first {
                Some(output) => output,
                None => within(operation()).await,
            };
            check(output).await;
        }
    }
}

/// The number of descriptors that this process has open.
#[cfg(target_os = "linux")]
pub(crate) fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// A path for a Unix socket, removed with what is there when dropped.
pub(crate) struct SocketPath(pub(crate) std::path::PathBuf);

impl SocketPath {
    pub(crate) fn new(name: &str) -> Self {
        let name = format!("evenkeel-{}-{name}.sock", std::process::id());
        Self(std::env::temp_dir().join(name))
    }
}

impl Drop for SocketPath {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

impl AsRef<std::path::Path> for SocketPath {
    fn as_ref(&self) -> &std::path::Path {
        &self.0
    }
}
