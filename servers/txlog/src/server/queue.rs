//! A connection's pending appends, in their order: from the task that reads requests to the one
//! that sends answers.
//!
//! Of all of them only the first is polled, so that a batch wakes the sending task once, however
//! many of the connection's appends it contains. If the sending task waits and there is no other,
//! the reading task polls a new one on its behalf: with its waker. So it is woken when the append
//! is durable, and not before, to look at it in vain.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::mem;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use txlog_client::frame::Response;

use super::memory::Room;
use super::peers::Peer;
use crate::log::Stored;
use crate::store::StoreError;

/// For how many appends an empty queue keeps memory.
const KEPT: usize = 64;

/// What is answered in order.
pub(super) enum Ordered<P> {
    Append(Append<P>),
    /// An answer that is ready.
    Ready(Response),
}

/// A pending append.
pub(super) struct Append<P> {
    pub(super) id: u64,
    pub(super) record: Awaited<P>,
    /// How many bytes it has.
    pub(super) bytes: usize,
    /// Whether the client sent a batch.
    pub(super) is_batch: bool,
    /// When it came.
    pub(super) began: Instant,
    /// Whether the connection's [`Peer`] knows that it is answered next.
    pub(super) is_front: bool,
    /// The memory of its record, until it is answered.
    pub(super) _room: Room,
}

/// What the store does with an append.
pub(super) enum Awaited<P> {
    Pending(P),
    /// It ended when it was polled for the sending task, which takes this once.
    Ended(Option<Result<Stored, StoreError>>),
}

impl<P> Future for Awaited<P>
where
    P: Future<Output = Result<Stored, StoreError>> + Unpin,
{
    type Output = Result<Stored, StoreError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.get_mut() {
            Awaited::Pending(pending) => Pin::new(pending).poll(cx),
            Awaited::Ended(result) => result.take().map_or(Poll::Pending, Poll::Ready),
        }
    }
}

/// The reading task's end. When it is dropped, no more will come.
pub(super) struct Tail<P>(Arc<Queue<P>>);

/// The sending task's end. When it is dropped, all that is pending is dropped as well.
pub(super) struct Head<P>(Arc<Queue<P>>);

struct Queue<P> {
    peer: Arc<Peer>,
    /// How many may be pending.
    most: usize,
    state: Mutex<State<P>>,
}

struct State<P> {
    queue: VecDeque<Ordered<P>>,
    /// The sending task has one that it took from here.
    is_one_taken: bool,
    /// No more will come.
    is_over: bool,
    /// There is no sending task any more.
    is_gone: bool,
    /// The sending task's, from the first time that it waited.
    sender: Option<Waker>,
    /// The reading task's, while it waits for a place.
    reader: Option<Waker>,
}

/// A queue for up to `most` appends of this connection.
pub(super) fn queue<P>(most: usize, peer: Arc<Peer>) -> (Tail<P>, Head<P>) {
    let queue = Arc::new(Queue {
        peer,
        most,
        state: Mutex::new(State {
            queue: VecDeque::new(),
            is_one_taken: false,
            is_over: false,
            is_gone: false,
            sender: None,
            reader: None,
        }),
    });
    (Tail(Arc::clone(&queue)), Head(queue))
}

impl<P> Queue<P> {
    fn lock(&self) -> MutexGuard<'_, State<P>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<P> State<P> {
    fn pending(&self) -> usize {
        self.queue.len() + usize::from(self.is_one_taken)
    }
}

impl<P> Tail<P> {
    /// Waits until one more may be pending. Only this task adds some, so that is so until it does.
    /// `None` if there is no sending task any more.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub(super) async fn place(&self) -> Option<()> {
        poll_fn(|cx| {
            let mut state = self.0.lock();
            if state.is_gone {
                return Poll::Ready(None);
            }
            if state.pending() < self.0.most {
                return Poll::Ready(Some(()));
            }
            let before = state.reader.replace(cx.waker().clone());
            drop(state);
            drop(before);
            Poll::Pending
        })
        .await
    }
}

impl<P> Tail<P>
where
    P: Future<Output = Result<Stored, StoreError>> + Unpin,
{
    /// Adds one, for which there has to be a place.
    pub(super) fn push(&self, mut added: Ordered<P>) {
        let mut state = self.0.lock();
        if state.is_gone {
            // Dropped without the lock, as that may run any code.
            drop(state);
            return;
        }
        let mut wakes = state.pending() == 0;
        if let (true, Ordered::Append(append), Some(sender)) = (wakes, &mut added, &state.sender) {
            self.0.peer.front(append.began);
            append.is_front = true;
            // Under the lock, so that the sending task finds it here if it is woken at once.
            match Pin::new(&mut append.record).poll(&mut Context::from_waker(sender)) {
                Poll::Ready(result) => append.record = Awaited::Ended(Some(result)),
                Poll::Pending => wakes = false,
            }
        }
        state.queue.push_back(added);
        let sender = wakes.then(|| state.sender.clone()).flatten();
        drop(state);
        if let Some(sender) = sender {
            sender.wake();
        }
    }
}

impl<P> Drop for Tail<P> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.is_over = true;
        let sender = state.sender.clone();
        drop(state);
        if let Some(sender) = sender {
            sender.wake();
        }
    }
}

impl<P> Head<P> {
    /// The next one, of which the place is free when this is called again. `None` if there will be
    /// no more.
    pub(super) fn poll_next(&self, cx: &Context<'_>) -> Poll<Option<Ordered<P>>> {
        let mut state = self.0.lock();
        let next = state.queue.pop_front();
        let had_one = mem::replace(&mut state.is_one_taken, next.is_some());
        let reader = had_one.then(|| state.reader.take()).flatten();
        let (is_over, mut before) = (state.is_over, None);
        if state.queue.is_empty() && state.queue.capacity() > KEPT {
            // The memory of many is not kept for few.
            state.queue = VecDeque::new();
        }
        if next.is_none()
            && !state
                .sender
                .as_ref()
                .is_some_and(|it| it.will_wake(cx.waker()))
        {
            before = state.sender.replace(cx.waker().clone());
        }
        drop(state);
        drop(before);
        if let Some(reader) = reader {
            reader.wake();
        }
        match next {
            None if !is_over => Poll::Pending,
            next => Poll::Ready(next),
        }
    }
}

impl<P> Drop for Head<P> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.is_gone = true;
        let left = mem::take(&mut state.queue);
        let (reader, sender) = (state.reader.take(), state.sender.take());
        drop(state);
        drop((left, sender));
        if let Some(reader) = reader {
            reader.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use txlog_client::frame::Code;

    use super::super::ServerConfig;
    use super::super::memory::{Memory, connection_bytes};
    use super::super::peers::{Member, Past, Peers};
    use super::*;

    /// A task that counts how often it is woken.
    #[derive(Default)]
    struct Task(AtomicUsize);

    impl Wake for Task {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    impl Task {
        fn new() -> (Arc<Self>, Waker) {
            let task = Arc::<Self>::default();
            (Arc::clone(&task), Waker::from(task))
        }

        fn wakes(&self) -> usize {
            self.0.load(Ordering::SeqCst)
        }
    }

    /// What a store does with one record.
    #[derive(Clone, Default)]
    struct Record(Arc<Mutex<(Option<u64>, Option<Waker>)>>);

    impl Record {
        fn end(&self, number: u64) {
            let mut state = self.0.lock().unwrap();
            state.0 = Some(number);
            let waker = state.1.take();
            drop(state);
            waker.into_iter().for_each(Waker::wake);
        }

        fn is_polled(&self) -> bool {
            self.0.lock().unwrap().1.is_some()
        }
    }

    impl Future for Record {
        type Output = Result<Stored, StoreError>;

        fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
            let mut state = self.0.lock().unwrap();
            match state.0.take() {
                Some(number) => Poll::Ready(Ok(number.into())),
                None => {
                    state.1 = Some(cx.waker().clone());
                    Poll::Pending
                }
            }
        }
    }

    /// A connection and its queue.
    struct Pair {
        member: Member,
        peers: Arc<Peers>,
        memory: Memory,
        tail: Tail<Record>,
        head: Head<Record>,
    }

    impl Pair {
        fn new(most: usize) -> Self {
            let peers = Arc::new(Peers::new(8, 0));
            let member = peers.join(Instant::now()).unwrap();
            let (tail, head) = queue(most, Arc::clone(&member.peer));
            let config = ServerConfig::default();
            let memory = Memory::new(&config, connection_bytes(false), (1_000, 0)).unwrap();
            Self {
                member,
                peers,
                memory,
                tail,
                head,
            }
        }

        fn append(&self, id: u64, record: &Record) -> Ordered<Record> {
            let mut room = std::pin::pin!(self.memory.for_append(&self.member.peer, 1));
            let mut cx = Context::from_waker(Waker::noop());
            let Poll::Ready(_room) = room.as_mut().poll(&mut cx) else {
                panic!("there is room");
            };
            Ordered::Append(Append {
                id,
                record: Awaited::Pending(record.clone()),
                bytes: 1,
                is_batch: false,
                began: Instant::now(),
                is_front: false,
                _room,
            })
        }

        /// What the sending task finds: an append with its result, if it has one.
        fn next(&self, sender: &Waker) -> Poll<Option<(u64, Option<u64>)>> {
            let mut cx = Context::from_waker(sender);
            self.head.poll_next(&cx).map(|next| match next? {
                Ordered::Append(mut append) => {
                    let ended = Pin::new(&mut append.record).poll(&mut cx);
                    let number = match ended {
                        Poll::Ready(stored) => Some(stored.unwrap().first),
                        Poll::Pending => None,
                    };
                    Some((append.id, number))
                }
                Ordered::Ready(_) => Some((0, None)),
            })
        }

        /// Whether there is a place; `None` if nobody takes appends any more.
        fn place(&self, reader: &Waker) -> Poll<Option<()>> {
            let place = std::pin::pin!(self.tail.place());
            place.poll(&mut Context::from_waker(reader))
        }
    }

    #[test]
    fn who_waits_is_woken_when_an_append_is_durable_and_not_before() {
        let (pair, (sender, waker)) = (Pair::new(8), Task::new());
        let (first, second) = (Record::default(), Record::default());
        assert!(pair.next(&waker).is_pending());
        pair.tail.push(pair.append(1, &first));
        pair.tail.push(pair.append(2, &second));
        assert_eq!(sender.wakes(), 0);
        assert!(!second.is_polled(), "only the first one is");
        first.end(10);
        assert_eq!(sender.wakes(), 1);
        assert_eq!(pair.next(&waker), Poll::Ready(Some((1, Some(10)))));
        assert_eq!(pair.next(&waker), Poll::Ready(Some((2, None))));
        second.end(11);
        assert_eq!(sender.wakes(), 2);
    }

    #[test]
    fn what_has_ended_at_once_or_is_ready_wakes_who_waits_for_it() {
        let (pair, (sender, waker)) = (Pair::new(8), Task::new());
        let ended = Record::default();
        ended.end(10);
        assert!(pair.next(&waker).is_pending());
        pair.tail.push(pair.append(1, &ended));
        assert_eq!(sender.wakes(), 1);
        assert_eq!(pair.next(&waker), Poll::Ready(Some((1, Some(10)))));
        assert!(pair.next(&waker).is_pending());
        let refused = || {
            let (code, text) = (Code::RecordTooLarge, String::new());
            Ordered::Ready(Response::Refused { id: 0, code, text })
        };
        pair.tail.push(refused());
        assert_eq!(sender.wakes(), 2);
        pair.tail.push(pair.append(2, &Record::default()));
        pair.tail.push(refused());
        assert_eq!(pair.next(&waker), Poll::Ready(Some((0, None))));
        assert_eq!(pair.next(&waker), Poll::Ready(Some((2, None))));
        assert_eq!(pair.next(&waker), Poll::Ready(Some((0, None))));
        assert_eq!(sender.wakes(), 2, "it was not waited for");
    }

    #[test]
    fn a_place_is_free_when_its_append_has_been_answered() {
        let (pair, (_, sender)) = (Pair::new(1), Task::new());
        let (reader, waker) = Task::new();
        assert_eq!(pair.place(&waker), Poll::Ready(Some(())));
        pair.tail.push(pair.append(1, &Record::default()));
        assert!(pair.place(&waker).is_pending());
        assert!(pair.next(&sender).is_ready());
        assert!(pair.place(&waker).is_pending(), "it is not answered yet");
        assert_eq!(reader.wakes(), 0);
        assert!(pair.next(&sender).is_pending());
        assert_eq!(reader.wakes(), 1);
        assert_eq!(pair.place(&waker), Poll::Ready(Some(())));
    }

    #[test]
    fn either_task_hears_that_the_other_one_has_ended() {
        let (pair, (sender, waker)) = (Pair::new(2), Task::new());
        assert!(pair.next(&waker).is_pending());
        let record = Record::default();
        pair.tail.push(pair.append(1, &record));
        let Pair { tail, head, .. } = pair;
        drop(tail);
        assert_eq!(sender.wakes(), 1);
        let cx = Context::from_waker(&waker);
        assert!(
            matches!(head.poll_next(&cx), Poll::Ready(Some(_))),
            "the last one"
        );
        assert!(matches!(head.poll_next(&cx), Poll::Ready(None)));

        let (mut pair, (reader, waker)) = (Pair::new(1), Task::new());
        let record = Record::default();
        pair.tail.push(pair.append(1, &record));
        assert!(pair.place(&waker).is_pending());
        let (_, other) = queue(1, Arc::clone(&pair.member.peer));
        drop(std::mem::replace(&mut pair.head, other));
        assert_eq!(reader.wakes(), 1);
        assert_eq!(pair.place(&waker), Poll::Ready(None));
        assert_eq!(Arc::strong_count(&record.0), 1, "it was dropped");
        pair.tail.push(pair.append(2, &record));
        assert_eq!(
            Arc::strong_count(&record.0),
            1,
            "and so is what comes later"
        );
    }

    #[test]
    fn the_append_that_is_answered_next_is_known_though_nobody_has_looked_at_it() {
        let (pair, (_, waker)) = (Pair::new(8), Task::new());
        let past = Arc::<Past>::default();
        pair.member.peer.serves(&past);
        assert!(pair.next(&waker).is_pending());
        assert_eq!(pair.peers.evidence(&past).oldest, None);
        let began = Instant::now();
        pair.tail.push(pair.append(1, &Record::default()));
        assert!(pair.peers.evidence(&past).oldest >= Some(began));
    }
}
