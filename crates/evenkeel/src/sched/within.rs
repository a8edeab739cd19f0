//! What a thread is within: the spans that are entered on it, for other threads to see.
//!
//! A layer of `tracing`, such as that of the crate `evenkeel-tracing`, says on each thread what is
//! entered and left there. When the monitor finds a poll that takes too long, it can then name what
//! the thread was doing at that moment. Without such a layer nothing is kept and no lock is taken.
//!
//! The list is part of the thread's desk, which a thread keeps while it lives: a span that is
//! entered in a poll stays with the thread that polls, also if it loses its seat meanwhile. Threads
//! that poll no tasks, such as those of lanes, keep nothing.
//!
//! What belongs together has one number, which the layer chooses and which no other span has while
//! this one is entered: `tracing` numbers its spans.

use crate::sync::{Arc, Mutex, MutexGuard};

use super::context;
use super::worker::Worker;

/// How many are kept for a thread, the innermost. Deeper nesting says no more in a report, and an
/// entry whose end is never told would otherwise stay for good.
const DEPTH: usize = 32;

/// How long the text of all may be, in bytes: what fits into a line of a log beside other things.
const LENGTH: usize = 256;

/// What the calling thread has entered. For layers: says that it is within `text` from now on.
///
/// The number tells it from what else is entered; the same may be entered again before it is left,
/// and has to be left as often. On a thread that polls no tasks, nothing happens.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
/// use evenkeel::runtime::within;
///
/// # #[evenkeel::main]
/// # async fn main() {
/// let task = evenkeel::spawn(async {
///     within::enter(1, &Arc::from("request{uri=/}"));
///     within::enter(2, &Arc::from("query"));
///     assert_eq!(within::here().as_deref(), Some("request{uri=/}:query"));
///     within::exit(1);
///     within::exit(2);
///     assert_eq!(within::here(), None);
/// });
/// task.await.unwrap();
/// # }
/// ```
pub fn enter(number: u64, text: &Arc<str>) {
    with_list(|list| list.enter(number, text));
}

/// The calling thread has left what has this number, in whatever order; the last of them if it was
/// entered several times. If there is none, nothing happens.
pub fn exit(number: u64) {
    with_list(|list| list.exit(number));
}

/// What has this number is described by `text` from now on, if the calling thread is within it.
pub fn describe(number: u64, text: &Arc<str>) {
    with_list(|list| list.describe(number, text));
}

/// What the calling thread is within, the outermost first, separated by `:`, of at most 256 bytes.
/// `None` if it is within nothing, or polls no tasks.
pub fn here() -> Option<String> {
    context::with_worker(|worker| worker.and_then(|worker| worker.desk().spans().here()))
}

fn with_list(change: impl FnOnce(&Within)) {
    context::with_worker(|worker| {
        if let Some(list) = worker.map(Worker::desk) {
            change(list.spans());
        }
    });
}

/// One span that is entered.
#[derive(Debug)]
struct Entered {
    number: u64,
    text: Arc<str>,
}

/// What one thread is within, the innermost last. Its thread changes it; others read it.
#[derive(Debug)]
pub(super) struct Within(Mutex<Vec<Entered>>);

impl Within {
    pub(super) fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    fn enter(&self, number: u64, text: &Arc<str>) {
        let text = Arc::clone(text);
        let mut list = self.0.lock();
        // Its text is dropped without the lock.
        let outermost = (list.len() == DEPTH).then(|| list.remove(0));
        list.push(Entered { number, text });
        drop(list);
        drop(outermost);
    }

    fn exit(&self, number: u64) {
        let mut list = self.0.lock();
        let last = list.iter().rposition(|entered| entered.number == number);
        let left = last.map(|index| list.remove(index));
        drop(list);
        drop(left);
    }

    fn describe(&self, number: u64, text: &Arc<str>) {
        let mut list = self.0.lock();
        for entered in list.iter_mut().filter(|entered| entered.number == number) {
            entered.text = Arc::clone(text);
        }
    }

    /// The thread leaves its desk.
    pub(super) fn clear(&self) {
        drop(std::mem::take(&mut *self.0.lock()));
    }

    /// For the thread itself.
    fn here(&self) -> Option<String> {
        in_words(&self.0.lock())
    }

    /// For other threads. The lock is only tried, since its holder may be a thread of low priority;
    /// such a thread is at this moment entering or leaving something.
    pub(super) fn seen_from_outside(&self) -> Option<String> {
        let list: MutexGuard<'_, _> = self.0.try_lock()?;
        in_words(&list)
    }
}

/// The texts in one line; what was entered again stands there once.
fn in_words(list: &[Entered]) -> Option<String> {
    if list.is_empty() {
        return None;
    }
    let mut words = String::new();
    for (index, entered) in list.iter().enumerate() {
        let is_again = |before: &Entered| before.number == entered.number;
        if list[..index].iter().any(is_again) {
            continue;
        }
        if index > 0 {
            words.push(':');
        }
        words.push_str(&entered.text);
        if words.len() >= LENGTH {
            break;
        }
    }
    words.truncate(words.floor_char_boundary(LENGTH));
    // It is a part of lines.
    Some(words.replace(char::is_control, " "))
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;
    use crate::runtime::Builder;
    use crate::time::{self, Duration};

    /// Longer than any test takes on a busy machine.
    const LIMIT: Duration = Duration::from_secs(30);

    fn text(text: &str) -> Arc<str> {
        Arc::from(text)
    }

    fn list(spans: &[(u64, &str)]) -> Within {
        let list = Within::new();
        for &(number, span) in spans {
            list.enter(number, &text(span));
        }
        list
    }

    #[test]
    fn spans_are_left_in_any_order() {
        let list = list(&[(1, "a"), (2, "b"), (3, "c")]);
        assert_eq!(list.here().as_deref(), Some("a:b:c"));
        list.exit(2);
        assert_eq!(list.here().as_deref(), Some("a:c"));
        list.exit(1);
        list.exit(7);
        assert_eq!(list.here().as_deref(), Some("c"));
        list.exit(3);
        assert_eq!(list.here(), None);
    }

    #[test]
    fn a_span_that_is_entered_twice_is_left_twice() {
        let list = list(&[(1, "a"), (2, "b"), (1, "a")]);
        assert_eq!(list.here().as_deref(), Some("a:b"));
        list.exit(1);
        assert_eq!(list.here().as_deref(), Some("a:b"));
        list.exit(1);
        assert_eq!(list.here().as_deref(), Some("b"));
    }

    #[test]
    fn a_span_is_described_anew() {
        let list = list(&[(1, "a"), (2, "b")]);
        list.describe(1, &text("a{x=1}"));
        list.describe(3, &text("c"));
        assert_eq!(list.here().as_deref(), Some("a{x=1}:b"));
    }

    #[test]
    fn the_innermost_are_kept_however_deep_they_are() {
        let list = Within::new();
        for number in 0..1000 {
            list.enter(number, &text(&format!("{number}")));
        }
        assert_eq!(list.0.lock().len(), DEPTH);
        assert!(list.here().is_some_and(|here| here.ends_with(":998:999")));
        (0..1000).for_each(|number| list.exit(number));
        assert_eq!(list.here(), None);
    }

    #[test]
    fn the_words_are_cut_where_a_character_ends() {
        let list = list(&[(1, &"\u{e4}".repeat(200)), (2, "b")]);
        assert_eq!(list.here(), Some("\u{e4}".repeat(LENGTH / 2)));
        let list = self::list(&[(1, &format!("a{}", "\u{e4}".repeat(200)))]);
        assert_eq!(list.here().map(|here| here.len()), Some(LENGTH - 1));
    }

    #[test]
    fn a_lock_that_is_held_is_not_waited_for() {
        let list = list(&[(1, "a")]);
        let held = list.0.lock();
        assert_eq!(list.seen_from_outside(), None);
        drop(held);
        assert_eq!(list.seen_from_outside().as_deref(), Some("a"));
    }

    /// What the monitor asks for, while the thread is in a poll that does not return.
    #[test]
    fn another_thread_sees_what_a_poll_is_within() {
        let runtime = Builder::new().workers(1).build().expect("it starts");
        let (entered, has_entered) = mpsc::channel();
        let (go_on, may_go_on) = mpsc::channel::<()>();
        let task = runtime.spawn(async move {
            enter(1, &text("request{uri=/compute}"));
            entered.send(()).expect("the test waits");
            let told = may_go_on.recv_timeout(LIMIT);
            exit(1);
            told.is_ok()
        });
        has_entered.recv_timeout(LIMIT).expect("it is polled");
        let seen = || {
            let desks = runtime.handle().shared().desks.iter();
            desks.filter_map(|desk| desk.within()).collect::<Vec<_>>()
        };
        assert_eq!(seen(), ["request{uri=/compute}"]);
        go_on.send(()).expect("the task waits");
        let told = runtime.block_on(time::timeout(LIMIT, task));
        assert_eq!(told.expect("in time").ok(), Some(true));
        assert!(seen().is_empty());
        enter(1, &text("a thread that polls no tasks"));
        assert_eq!(here(), None);
    }

    #[test]
    fn a_thread_that_leaves_takes_its_spans_along() {
        let runtime = Builder::new().workers(1).build().expect("it starts");
        let shared = Arc::clone(runtime.handle().shared());
        let task = runtime.spawn(async { enter(1, &text("never left")) });
        runtime.block_on(task).expect("it does not panic");
        runtime.shutdown(LIMIT).expect("all threads end");
        assert!(shared.desks.iter().all(|desk| desk.within().is_none()));
    }
}
