//! Reads of a device through the kernel's completion queue (io_uring), with one thread for all.
//!
//! A thread that waits for the device in a read can do no other work, and each such thread is woken
//! separately. The ring's thread begins all reads that came together by one system call, and is
//! woken once for all that have ended. Reads that hit the cache do not come here, since this one
//! thread would have to copy all their bytes.

use std::io;
use std::mem;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use crate::clock;
use crate::io::readiness::wake_all;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Arc, Condvar, Mutex, thread};
use crate::sys::ring::{Bell, Reading, Reads};

/// The length of the submission queue.
const ENTRIES: u32 = 128;
/// How many reads may be under way; threads do the rest.
const READS_MAX: usize = 512;

pub(crate) struct Read<F> {
    file: F,
    descriptor: i32,
    buffer: Vec<u8>,
    offset: u64,
    filled: usize,
    /// Whether the buffer is to be filled.
    exact: bool,
    reply: Arc<Reply>,
}

/// The result of a read, once there is one.
#[derive(Debug, Default)]
pub(crate) struct Reply(Mutex<Answer>);

#[derive(Debug, Default)]
struct Answer {
    result: Option<io::Result<Vec<u8>>>,
    waker: Option<Waker>,
}

impl Reply {
    pub(crate) fn poll(&self, cx: &mut Context<'_>) -> Poll<io::Result<Vec<u8>>> {
        // A waker's clone and drop may run any code, so both happen outside the lock.
        let mut spare = None;
        loop {
            let mut answer = self.0.lock();
            if let Some(result) = answer.result.take() {
                return Poll::Ready(result);
            }
            let stored = answer.waker.as_ref();
            if stored.is_some_and(|stored| stored.will_wake(cx.waker())) {
                return Poll::Pending;
            }
            if spare.is_some() {
                mem::swap(&mut answer.waker, &mut spare);
                return Poll::Pending;
            }
            drop(answer);
            spare = Some(cx.waker().clone());
        }
    }

    fn give(&self, result: io::Result<Vec<u8>>) {
        let mut answer = self.0.lock();
        debug_assert!(answer.result.is_none(), "a read has one result");
        answer.result = Some(result);
        let waker = answer.waker.take();
        drop(answer);
        // `wake_all` catches panics: all reads need this thread.
        wake_all(&mut waker.into_iter().collect());
    }
}

/// What to do after an operation of a read.
enum After<F> {
    Again(Read<F>),
    Over(Read<F>, io::Result<Vec<u8>>),
}

impl<F> Read<F> {
    /// The buffer is filled from `filled` on, with the bytes at `offset + filled`. `file` keeps the
    /// descriptor open.
    pub(crate) fn new(
        (file, descriptor): (F, i32),
        buffer: Vec<u8>,
        (offset, filled): (u64, usize),
        exact: bool,
    ) -> Self {
        Self {
            file,
            descriptor,
            buffer,
            offset,
            filled,
            exact,
            reply: Arc::default(),
        }
    }

    pub(crate) fn reply(&self) -> Arc<Reply> {
        Arc::clone(&self.reply)
    }

    pub(crate) fn into_parts(self) -> (Vec<u8>, usize) {
        (self.buffer, self.filled)
    }

    fn after(mut self, result: io::Result<usize>) -> After<F> {
        match result {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => After::Again(self),
            Err(error) => After::Over(self, Err(error)),
            Ok(0) if self.exact => After::Over(self, Err(io::ErrorKind::UnexpectedEof.into())),
            Ok(count) => {
                self.filled += count;
                debug_assert!(self.filled <= self.buffer.len());
                if self.exact && self.filled < self.buffer.len() {
                    return After::Again(self);
                }
                let mut buffer = mem::take(&mut self.buffer);
                buffer.truncate(self.filled);
                After::Over(self, Ok(buffer))
            }
        }
    }

    fn give(self, result: io::Result<Vec<u8>>) {
        let Self { file, reply, .. } = self;
        drop(file);
        reply.give(result);
    }
}

impl<F> Reading for Read<F> {
    fn descriptor(&self) -> i32 {
        self.descriptor
    }

    fn offset(&self) -> u64 {
        self.offset + self.filled as u64
    }

    fn target(&mut self) -> &mut [u8] {
        &mut self.buffer[self.filled..]
    }
}

pub(crate) struct CompletionQueue<F> {
    mailbox: Arc<Mailbox<F>>,
}

struct Mailbox<F> {
    state: Mutex<State<F>>,
    /// Notified when the thread has ended.
    ended: Condvar,
    done: AtomicU64,
}

struct State<F> {
    reads: Vec<Read<F>>,
    /// Reads in the mailbox and under way.
    count: usize,
    /// Wakes the thread when a read is put into the mailbox.
    bell: Option<Bell>,
    asleep: bool,
    closed: bool,
    running: bool,
}

impl<F: Send + 'static> CompletionQueue<F> {
    pub(crate) fn start(thread_name: String) -> io::Result<Self> {
        let mailbox = Arc::new(Mailbox {
            state: Mutex::new(State {
                reads: Vec::new(),
                count: 0,
                bell: None,
                asleep: false,
                closed: false,
                running: true,
            }),
            ended: Condvar::new(),
            done: AtomicU64::new(0),
        });
        let told = Arc::new((Mutex::new(None), Condvar::new()));
        let (theirs, tell) = (Arc::clone(&mailbox), Arc::clone(&told));
        thread::Builder::new().name(thread_name).spawn(move || {
            // The queue is made by the only thread that will use it.
            let made = Reads::new(ENTRIES);
            let (reads, answer) = match made {
                Ok(reads) => (Some(reads), Ok(())),
                Err(error) => (None, Err(error)),
            };
            if let Some(reads) = &reads {
                theirs.state.lock().bell = Some(reads.bell());
            }
            *tell.0.lock() = Some(answer);
            tell.1.notify_all();
            drop(tell);
            if let Some(reads) = reads {
                theirs.run(reads);
            }
        })?;
        let mut answer = told.0.lock();
        loop {
            match answer.take() {
                Some(answer) => return answer.map(|()| Self { mailbox }),
                None => answer = told.1.wait(answer),
            }
        }
    }

    /// Begins a read, or returns it if too many are under way.
    pub(crate) fn submit(&self, read: Read<F>) -> Result<(), Read<F>> {
        let mut state = self.mailbox.state.lock();
        if state.closed || !state.running || state.count >= READS_MAX {
            return Err(read);
        }
        state.count += 1;
        state.reads.push(read);
        let bell = mem::take(&mut state.asleep)
            .then(|| state.bell.clone())
            .flatten();
        drop(state);
        if let Some(bell) = bell {
            bell.sound();
        }
        Ok(())
    }

    pub(crate) fn done(&self) -> u64 {
        // Relaxed: a statistic.
        self.mailbox.done.load(Ordering::Relaxed)
    }

    /// Waits, after [`close`](CompletionQueue::close), for the thread to end. Returns false if it
    /// has not by the deadline.
    pub(crate) fn wait(&self, deadline: Instant) -> bool {
        let mut state = self.mailbox.state.lock();
        while state.running {
            let left = deadline.saturating_duration_since(clock::now());
            if left.is_zero() {
                return false;
            }
            state = self.mailbox.ended.wait_timeout(state, left).0;
        }
        true
    }
}

impl<F> CompletionQueue<F> {
    /// Refuses reads from now on, and ends the thread after those under way.
    pub(crate) fn close(&self) {
        let mut state = self.mailbox.state.lock();
        state.closed = true;
        let bell = state.bell.clone();
        drop(state);
        if let Some(bell) = bell {
            bell.sound();
        }
    }
}

impl<F> Drop for CompletionQueue<F> {
    fn drop(&mut self) {
        self.close();
    }
}

impl<F> Mailbox<F> {
    fn run(&self, mut ring: Reads<Read<F>>) {
        let mut again = Vec::new();
        while self.take(&ring, &mut again) {
            for read in again.drain(..) {
                if let Err((read, error)) = ring.begin(read) {
                    self.note_done(1);
                    read.give(Err(error));
                }
            }
            let mut ended = Vec::new();
            if let Err(error) = ring.wait(|read, result| ended.push((read, result))) {
                // The kernel refuses to wait, so no more results will arrive.
                return self.break_off(&ring, &error);
            }
            self.state.lock().asleep = false;
            let mut over = Vec::new();
            for (read, result) in ended {
                match read.after(result) {
                    After::Again(read) => again.push(read),
                    After::Over(read, output) => over.push((read, output)),
                }
            }
            // Reads are counted before their outputs are there.
            self.note_done(over.len());
            for (read, output) in over {
                read.give(output);
            }
        }
        self.end();
    }

    fn note_done(&self, count: usize) {
        // Relaxed: a statistic.
        self.done.fetch_add(count as u64, Ordering::Relaxed);
        self.state.lock().count -= count;
    }

    /// Takes the new reads and prepares to wait. Returns false if it is time to end.
    fn take(&self, ring: &Reads<Read<F>>, reads: &mut Vec<Read<F>>) -> bool {
        let mut state = self.state.lock();
        reads.append(&mut state.reads);
        // Set before the wait and under the lock: reads that come from now on sound the bell.
        state.asleep = true;
        !(state.closed && reads.is_empty() && ring.len() == 0)
    }

    fn break_off(&self, ring: &Reads<Read<F>>, error: &io::Error) {
        let left = {
            let mut state = self.state.lock();
            state.closed = true;
            mem::take(&mut state.reads)
        };
        for read in left.iter().chain(ring.readings()) {
            let error = format!("the kernel's completion queue has failed: {error}");
            read.reply.give(Err(io::Error::other(error)));
        }
        self.end();
    }

    fn end(&self) {
        self.state.lock().running = false;
        self.ended.notify_all();
    }
}

impl<F> std::fmt::Debug for CompletionQueue<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ring").finish_non_exhaustive()
    }
}

#[cfg(all(test, not(evenkeel_loom)))]
mod tests;
