//! What the integration tests share.
#![allow(dead_code, reason = "each test crate uses a part")]

use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::pin;
use std::process::{Command, Output};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use std::task::Poll;
use std::time::{Duration, Instant};

/// Longer than any test takes on a busy machine.
const HUNG: Duration = Duration::from_secs(60);

/// The output of `future`. Panics if it does not come in time.
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

/// Checks that an operation that waits for an event is cancel safe: dropped after each number of
/// polls, with the event before or after any of them, it loses nothing. If a dropped operation did
/// not return an output, a second operation does, and `check` sees each output once.
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
pub(crate) fn descriptors() -> usize {
    std::fs::read_dir(if cfg!(target_os = "linux") {
        "/proc/self/fd"
    } else {
        "/dev/fd"
    })
    .unwrap()
    .count()
}

const ALONE: &str = "EVENKEEL_TEST_ALONE";

/// Runs `body` if this process was started for `test` alone, otherwise starts such a process, which
/// has the descriptors, limits and system calls of this one test.
pub(crate) fn alone(test: &str, body: impl FnOnce()) {
    if is_alone(test) {
        return body();
    }
    let this = std::env::current_exe().unwrap();
    let output = command_alone(Command::new(this), test).output().unwrap();
    assert_passed(&output);
}

/// Whether this process was started for `test` alone.
pub(crate) fn is_alone(test: &str) -> bool {
    std::env::var_os(ALONE).is_some_and(|name| name == test)
}

/// A command that ends in the path of this program, completed so that it runs `test` alone.
pub(crate) fn command_alone(mut command: Command, test: &str) -> Command {
    command
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(ALONE, test);
    command
}

/// Checks that a process of [`command_alone`] has run its test, and passed.
pub(crate) fn assert_passed(output: &Output) {
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && said.contains("1 passed"),
        "{said}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Lowers the limit of this process and opens files until it is reached.
#[cfg(target_os = "linux")]
pub(crate) fn take_every_descriptor() -> Vec<std::fs::File> {
    use nix::sys::resource::{Resource, setrlimit};

    setrlimit(Resource::RLIMIT_NOFILE, 128, 128).unwrap();
    let mut taken = Vec::new();
    loop {
        match std::fs::File::open("/dev/null") {
            Ok(file) => taken.push(file),
            Err(error) => {
                assert_eq!(error.raw_os_error(), Some(libc::EMFILE));
                assert!(!taken.is_empty());
                return taken;
            }
        }
    }
}

/// How many descriptors the readiness queues of this process watch. Each counts once for each
/// duplicate of its queue.
#[cfg(target_os = "linux")]
pub(crate) fn watched() -> usize {
    let queues = std::fs::read_dir("/proc/self/fdinfo").unwrap();
    let infos = queues.filter_map(|queue| std::fs::read_to_string(queue.ok()?.path()).ok());
    infos
        .map(|info| info.lines().filter(|line| line.starts_with("tfd:")).count())
        .sum()
}

/// Checks that the calling test, an `evenkeel::test`, closes what it opens: the descriptors are
/// counted now, and again when the test's thread ends or begins another test, after its runtime has
/// shut down. Such tests run one at a time within a program, since descriptors belong to the
/// process. Tests that wait have runtimes already, so a runtime's own descriptors are not counted
/// here; `net_descriptors` does that.
pub(crate) fn watch_descriptors() {
    thread_local! {
        static WATCH: RefCell<Option<Watch>> = const { RefCell::new(None) };
    }
    static ALONE: Mutex<()> = Mutex::new(());
    WATCH.with_borrow_mut(|watch| {
        drop(watch.take());
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        *watch = Some(Watch {
            before: not_of_runtimes(),
            _alone: alone,
        });
    });
}

/// The number of descriptors, except those of readiness queues and their wake-ups. 0 if it is not
/// known, as under a sanitizer, which opens pipes to its symbolizer.
fn not_of_runtimes() -> usize {
    if std::env::var_os("TSAN_OPTIONS").is_some() {
        return 0;
    }
    let Ok(descriptors) = std::fs::read_dir("/proc/self/fd") else {
        return 0;
    };
    descriptors
        .flatten()
        .filter_map(|descriptor| std::fs::read_link(descriptor.path()).ok())
        .filter(|target| !target.starts_with("anon_inode:[eventpoll]"))
        .filter(|target| !target.starts_with("anon_inode:[eventfd]"))
        .count()
}

struct Watch {
    before: usize,
    _alone: MutexGuard<'static, ()>,
}

impl Drop for Watch {
    fn drop(&mut self) {
        let until = Instant::now() + HUNG;
        // Threads that the test left behind may be about to end.
        while not_of_runtimes() > self.before {
            if Instant::now() >= until {
                let (before, after) = (self.before, not_of_runtimes());
                eprintln!("{before} descriptors before a test of this program, {after} after");
                // A panic while the thread ends would give less information.
                std::process::exit(101);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// A path for a Unix socket, which is removed on drop.
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
