//! Reading and writing a file in sequence, through Tokio's traits.
//!
//! Between the task and the lane lies a *pipe*. A *pump*, which is a piece of work in the lane,
//! moves bytes between the pipe and the file as long as there are any; meanwhile the task copies
//! between the pipe and its own buffers. So long writes use two processors, and several short
//! writes are written by one system call.
//!
//! Bytes that were read stay in the pipe if the task stops reading, and the next read gets them. A
//! seek or a write drops them, and moves the file's cursor back to where they began; except for a
//! write to a special file, which has no cursor.

use std::cell::Cell;
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::io::{self, IoSlice, Read, Seek, SeekFrom, Write};
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};

use slab::Slab;
use tokio::io::{AsyncRead, AsyncSeek, AsyncWrite, ReadBuf};

use crate::blocking::buffers::Buffers;
use crate::blocking::lane::{InLane, Keep, linger};
use crate::blocking::new_work;
use crate::io::readiness::wake_all;
use crate::sync::{Arc, Mutex, MutexGuard};

use super::file::{File, Inner, retry};
use super::lookup::{called_from, class_here, in_lane};
use super::turn::Turn;

/// The most bytes that one read asks for, or one write takes over.
const ASKED_MAX: usize = 2 << 20;
/// How much is read at a time beside other work: it fits the nearer caches.
const CHUNK: usize = 256 << 10;
/// How many bytes of short writes are gathered to be written together. More would leave the caches
/// before they are written.
const PENDING_MAX: usize = 128 << 10;
/// How many times in a row a pump writes before it yields its thread to other work.
const ROUNDS_MAX: usize = 64;

/// The sequential side of a file.
#[derive(Default)]
pub(super) struct Pipe {
    /// Whether a pump runs, or waits for a thread.
    pumping: bool,
    /// Whether the pump was cancelled before it began. `pump` then has the lane's error.
    stopped: bool,
    /// The last pump, and how many there were.
    pump: Option<InLane<()>>,
    pumps: u64,
    /// How many bytes the pump is still to read.
    asked: usize,
    /// Bytes that were read and not yet handed out, from `start` of the first chunk on.
    chunks: VecDeque<Vec<u8>>,
    start: usize,
    spare: Vec<u8>,
    /// The end of the file, or an error, after all chunks.
    end: Option<io::Result<()>>,
    /// How far the file's cursor is ahead of the task, not counting `chunks`.
    ahead: u64,
    /// Bytes to be written, and whether the current pump writes.
    pending: Vec<u8>,
    writing: bool,
    /// Whether the runtime is ending and the pump takes over no more bytes.
    closing: bool,
    /// An empty buffer, kept for its memory.
    written: Vec<u8>,
    /// The error of a write, not yet returned to anybody.
    failed: Option<io::Error>,
    /// A seek that was requested, the one under way, and the result of the last one.
    seek: Option<SeekFrom>,
    seeking: Option<InLane<io::Result<u64>>>,
    position: u64,
    /// The turn among the long writers of the device.
    turn: Turn,
    /// Whether the task waits for the pump in order to write more, at once or after a seek.
    goes_on: bool,
    /// The tasks that wait for progress of the pump: one reader, one writer and one seeker, which
    /// may share the file by a lock; and any number of tasks that wait for its end.
    wakers: [Option<Waker>; 3],
    settling: Slab<Option<Waker>>,
    /// How many times they were woken.
    told: u64,
}

impl Pipe {
    fn take_wakers(&mut self) -> Vec<Waker> {
        self.told += 1;
        let each = self.wakers.iter_mut();
        let all = each.chain(self.settling.iter_mut().map(|(_, waker)| waker));
        all.filter_map(Option::take).collect()
    }

    /// Hands out bytes that were read. Returns false if there are none.
    fn hand_out(&mut self, buffers: &Buffers, buffer: &mut ReadBuf<'_>) -> bool {
        let mut any = false;
        while buffer.remaining() > 0
            && let Some(chunk) = self.chunks.front()
        {
            debug_assert!(self.start < chunk.len(), "an empty chunk was kept");
            let rest = &chunk[self.start..];
            let count = rest.len().min(buffer.remaining());
            buffer.put_slice(&rest[..count]);
            self.start += count;
            any = true;
            if self.start == chunk.len() {
                self.start = 0;
                let empty = self.chunks.pop_front().unwrap_or_default();
                buffers.put_back(empty, &mut self.spare);
            }
        }
        any
    }

    /// Drops the bytes that were read: the next operation is to begin where the task is.
    fn drop_read(&mut self) {
        let read: usize = self.chunks.iter().map(Vec::len).sum();
        self.ahead += (read - self.start) as u64;
        self.start = 0;
        self.chunks.clear();
        self.end = None;
    }
}

/// Called when no pump runs. If one was cancelled, returns its error, once.
fn poll_stopped<'a>(
    lock: &'a Mutex<Pipe>,
    mut pipe: MutexGuard<'a, Pipe>,
    cx: &mut Context<'_>,
) -> Poll<io::Result<MutexGuard<'a, Pipe>>> {
    if !pipe.stopped {
        return Poll::Ready(Ok(pipe));
    }
    // Polled outside the pipe, since it gets a waker, which may run any code.
    let mut pump = pipe.pump.take();
    drop(pipe);
    let polled = match &mut pump {
        None => Poll::Pending,
        Some(pump) => Pin::new(pump).poll(cx),
    };
    let Poll::Ready(outcome) = polled else {
        let mut pipe = lock.lock();
        if pipe.pump.is_none() {
            mem::swap(&mut pipe.pump, &mut pump);
        }
        drop(pipe);
        // Another thread is cancelling or polling it at this moment.
        cx.waker().wake_by_ref();
        return Poll::Pending;
    };
    drop(pump);
    let mut pipe = lock.lock();
    pipe.stopped = false;
    pipe.asked = 0;
    pipe.pending.clear();
    match outcome {
        Ok(()) => Poll::Ready(Ok(pipe)),
        Err(error) => Poll::Ready(Err(error.into())),
    }
}

/// Stores a waker in the pipe until the waiting tasks are woken next. It is cloned and dropped
/// outside the lock, as either may run any code; if the tasks are woken meanwhile, so is this one.
fn enlist(
    lock: &Mutex<Pipe>,
    mut pipe: MutexGuard<'_, Pipe>,
    waker: &Waker,
    place: impl Fn(&mut Pipe) -> &mut Option<Waker>,
) {
    let slot = place(&mut pipe).as_ref();
    if slot.is_some_and(|stored| stored.will_wake(waker)) {
        return;
    }
    let told = pipe.told;
    drop(pipe);
    let mut spare = Some(waker.clone());
    let mut pipe = lock.lock();
    if pipe.told == told {
        mem::swap(place(&mut pipe), &mut spare);
        return;
    }
    drop(pipe);
    waker.wake_by_ref();
}

/// The tasks that have a waker of their own in the pipe.
#[derive(Clone, Copy)]
enum Waiter {
    Reader,
    Writer,
    Seeker,
}

struct Pump {
    inner: Arc<Inner>,
    pipe: Arc<Mutex<Pipe>>,
    /// Whether it has ended its part, so that `pumping` may already mean another one.
    ended: Cell<bool>,
}

#[derive(Clone, Copy)]
enum Direction {
    Read,
    Write,
}

impl Pump {
    /// Starts a pump; the caller has set `pumping`. Returns whether it will likely end within a
    /// moment. `again`: it continues another, so it must not be refused.
    fn start(
        inner: &Arc<Inner>,
        pipe: &Arc<Mutex<Pipe>>,
        direction: Direction,
        again: bool,
    ) -> bool {
        let number = {
            let mut pipe = pipe.lock();
            debug_assert!(pipe.pumping, "a pump was started without being announced");
            pipe.pumps += 1;
            pipe.pumps
        };
        let pump = Pump {
            inner: Arc::clone(inner),
            pipe: Arc::clone(pipe),
            ended: Cell::new(false),
        };
        let work = move || match direction {
            Direction::Read => pump.read(),
            Direction::Write => pump.write(),
        };
        let name = match direction {
            Direction::Read => "fs::File read",
            Direction::Write => "fs::File write",
        };
        let keep = if again { Keep::Always } else { Keep::Begun };
        let (lane, handle) = (inner.data_lane(), inner.handle());
        let work = new_work(lane, called_from(), Some(name), work);
        let started = InLane::new(lane, handle.shared(), work, keep);
        let brief = started.is_brief();
        let mut pipe = pipe.lock();
        if pipe.pumps == number {
            let before = pipe.pump.replace(started);
            drop(pipe);
            drop(before);
        }
        brief
    }

    /// Moves the file's cursor back to where the task is.
    fn set_back(&self) -> io::Result<()> {
        let ahead = mem::take(&mut self.pipe.lock().ahead);
        if ahead == 0 {
            return Ok(());
        }
        let back = SeekFrom::Current(-i64::try_from(ahead).unwrap_or(i64::MAX));
        self.inner.file().seek(back).map(drop)
    }

    fn read(self) {
        let mut end = self.set_back().err().map(Err);
        loop {
            let mut pipe = self.pipe.lock();
            if pipe.asked == 0 || end.is_some() {
                pipe.asked = 0;
                if end.is_some() {
                    pipe.end = end;
                }
                return self.finish(pipe);
            }
            let wanted = pipe.asked;
            let spare = mem::take(&mut pipe.spare);
            drop(pipe);
            let mut chunk = self.inner.buffers().get(spare, wanted);
            chunk.resize(wanted, 0);
            match retry(|| self.inner.file().read(&mut chunk)) {
                Ok(0) => end = Some(Ok(())),
                Err(error) => end = Some(Err(error)),
                Ok(count) => {
                    chunk.truncate(count);
                    self.push(chunk);
                }
            }
        }
    }

    fn push(&self, chunk: Vec<u8>) {
        let mut pipe = self.pipe.lock();
        // A short read is handed out at once: the rest may take for ever.
        pipe.asked = 0;
        pipe.chunks.push_back(chunk);
    }

    fn write(self) {
        let mut failed = self.set_back().err();
        let mut bytes = mem::take(&mut self.pipe.lock().written);
        let mut rounds = 0;
        // In a closed lane, nobody else waits for the thread, and no more bytes are taken over, so
        // that it comes to an end.
        while rounds < ROUNDS_MAX || self.inner.data_lane().is_closed() {
            let mut pipe = self.pipe.lock();
            pipe.closing = rounds >= ROUNDS_MAX;
            rounds += 1;
            if let Some(error) = failed.take() {
                // Bytes after the failed ones must not be written as if nothing had happened.
                pipe.failed.get_or_insert(error);
                pipe.pending.clear();
            }
            bytes.clear();
            mem::swap(&mut bytes, &mut pipe.pending);
            if bytes.is_empty() {
                // Both buffers stay, for later writes.
                pipe.written = bytes;
                return self.finish(pipe);
            }
            let mut wakers = pipe.take_wakers();
            drop(pipe);
            wake_all(&mut wakers);
            failed = self.inner.file().write_all(&bytes).err();
            let used = mem::take(&mut bytes);
            self.inner.buffers().put_back(used, &mut bytes);
        }
        if let Some(error) = failed {
            let mut pipe = self.pipe.lock();
            pipe.failed.get_or_insert(error);
            pipe.pending.clear();
        }
        self.pipe.lock().written = bytes;
        // Other work in the lane goes first. Then another pump writes the rest, which has been
        // taken over.
        self.ended.set(true);
        Pump::start(&self.inner, &self.pipe, Direction::Write, true);
    }

    fn finish(&self, mut pipe: MutexGuard<'_, Pipe>) {
        debug_assert!(pipe.pumping, "a pump ended twice");
        self.ended.set(true);
        pipe.pumping = false;
        pipe.closing = false;
        let mut wakers = pipe.take_wakers();
        let goes_on = mem::take(&mut pipe.goes_on) && !pipe.stopped && pipe.failed.is_none();
        let turn = if goes_on {
            pipe.turn.pause();
            None
        } else {
            pipe.turn.give_back()
        };
        drop(pipe);
        wake_all(&mut wakers);
        drop(turn);
    }
}

/// If the pump was cancelled, the waiting tasks find out why.
impl Drop for Pump {
    fn drop(&mut self) {
        if !self.ended.get() {
            let mut pipe = self.pipe.lock();
            pipe.stopped = true;
            self.finish(pipe);
        }
    }
}

impl File {
    fn has_idle_worker(&self) -> bool {
        self.inner.handle().shared().idle.has_parked()
    }

    /// Whether other reads of cached bytes are under way, or no processor is free.
    fn has_company(&self) -> bool {
        !self.has_idle_worker() || self.inner.data_lane().is_shared_by_short_work()
    }

    /// Waits until the writes in sequence are done, and returns their error, if any.
    pub(super) async fn settle(&self) -> io::Result<()> {
        let mut settling = Settling {
            pipe: &self.pipe,
            key: None,
        };
        poll_fn(|cx| settling.poll(cx)).await
    }

    /// Waits until the writes in sequence, and an abandoned seek, are done.
    pub(super) async fn come_to_rest(&self) {
        // Errors are left to the next writer or reader.
        let _ = self.settle().await;
        let _ = poll_fn(|cx| self.poll_sought(Waiter::Seeker, cx)).await;
    }

    fn poll_flushed(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let pipe = ready!(self.poll_pump(self.pipe.lock(), Waiter::Writer, cx))?;
        Poll::Ready(settled(pipe))
    }

    /// Waits until no pump runs. If one was cancelled, returns its error, once.
    fn poll_pump<'a>(
        &'a self,
        pipe: MutexGuard<'a, Pipe>,
        waiter: Waiter,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<MutexGuard<'a, Pipe>>> {
        if pipe.pumping {
            self.wait(pipe, waiter, cx);
            return Poll::Pending;
        }
        poll_stopped(&self.pipe, pipe, cx)
    }

    /// Waits for progress of the pump or a seek.
    fn wait(&self, pipe: MutexGuard<'_, Pipe>, waiter: Waiter, cx: &Context<'_>) {
        enlist(&self.pipe, pipe, cx.waker(), |pipe| {
            &mut pipe.wakers[waiter as usize]
        });
    }

    /// Waits for a turn to write `length` bytes, if this file takes turns.
    fn poll_turn<'a>(
        &'a self,
        cx: &mut Context<'_>,
        mut pipe: MutexGuard<'a, Pipe>,
        length: usize,
    ) -> Poll<MutexGuard<'a, Pipe>> {
        let Some(turns) = self.inner.turns(class_here()) else {
            return Poll::Ready(pipe);
        };
        // Polled outside the pipe: passing on a turn wakes tasks, which must not happen under a
        // lock. A pump that runs dry meanwhile finds no turn to give back.
        let mut turn = mem::take(&mut pipe.turn);
        drop(pipe);
        let clock = self.inner.handle().shared().clock;
        let polled = turn.poll(cx, turns, clock, length);
        pipe = self.pipe.lock();
        pipe.turn = turn;
        ready!(polled);
        // If the pump runs dry while the bytes are copied, the turn does not end.
        pipe.goes_on = true;
        Poll::Ready(pipe)
    }

    /// Takes over as many bytes to be written as there is room for.
    fn poll_take_over<'a>(
        &self,
        cx: &mut Context<'_>,
        parts: impl Iterator<Item = &'a [u8]> + Clone,
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_sought(Waiter::Writer, cx))?;
        let mut pipe = self.pipe.lock();
        // Wait for a pump that reads. One that writes takes bytes that are added meanwhile.
        let writes = pipe.pumping && pipe.writing;
        if !writes {
            pipe = ready!(self.poll_pump(pipe, Waiter::Writer, cx))?;
            // Bytes that a peer sent cannot be read again, and do not affect where to write.
            if !self.inner.is_special() {
                pipe.drop_read();
            }
        }
        if let Some(error) = pipe.failed.take() {
            return Poll::Ready(Err(error));
        }
        // Messages to a peer are not joined. A long write is copied while the pump writes, if there
        // is a processor for that.
        let length: usize = parts.clone().map(<[u8]>::len).sum();
        let alone = self.inner.is_special() || (length >= CHUNK && !self.has_idle_worker());
        if writes && (alone || pipe.closing || pipe.pending.len() >= PENDING_MAX) {
            pipe.goes_on = true;
            self.wait(pipe, Waiter::Writer, cx);
            return Poll::Pending;
        }
        if length >= CHUNK {
            pipe = ready!(self.poll_turn(cx, pipe, length.min(ASKED_MAX)));
        }
        // Copied outside the pipe, so that the pump need not wait. Only one task writes.
        let mut bytes = mem::take(&mut pipe.pending);
        drop(pipe);
        let owes = !bytes.is_empty();
        if !owes {
            bytes = self.inner.buffers().get(bytes, length.min(ASKED_MAX));
            bytes.clear();
        }
        let taken = append(&mut bytes, parts);
        let mut pipe = self.pipe.lock();
        if let Some(error) = pipe.failed.take() {
            let turn = pipe.turn.give_back();
            drop(pipe);
            drop(turn);
            return Poll::Ready(Err(error));
        }
        pipe.goes_on = false;
        let before = mem::replace(&mut pipe.pending, bytes);
        if pipe.written.capacity() < before.capacity() {
            pipe.written = before;
        }
        // The pump may have ended meanwhile, as it found nothing to write.
        if pipe.pending.is_empty() || pipe.pumping {
            return Poll::Ready(Ok(taken));
        }
        (pipe.pumping, pipe.writing) = (true, true);
        drop(pipe);
        // If some bytes were taken over before, it continues the pump that ended.
        Pump::start(&self.inner, &self.pipe, Direction::Write, owes);
        let pipe = self.pipe.lock();
        if pipe.stopped {
            // The lane has refused it at once, so this write has failed.
            drop(ready!(self.poll_pump(pipe, Waiter::Writer, cx))?);
        }
        Poll::Ready(Ok(taken))
    }
}

/// Copies as many bytes as one write takes over. Returns how many.
fn append<'a>(bytes: &mut Vec<u8>, parts: impl Iterator<Item = &'a [u8]>) -> usize {
    let mut taken = 0;
    for part in parts {
        let count = part.len().min(ASKED_MAX.saturating_sub(taken));
        bytes.extend_from_slice(&part[..count]);
        taken += count;
    }
    taken
}

/// Reads and seeks are cancelled, since nobody needs their results. Bytes that were taken over are
/// written all the same.
impl Drop for File {
    fn drop(&mut self) {
        let mut pipe = self.pipe.lock();
        let reads = pipe.pumping && !pipe.writing;
        let reading = pipe.pump.take_if(|_| reads);
        let seeking = pipe.seeking.take();
        // Cancelled work takes the lock when it is dropped.
        drop(pipe);
        if let Some(mut reading) = reading {
            reading.cancel();
        }
        drop(seeking);
    }
}

/// When a seek is over or cancelled, wakes all waiting tasks. By itself it would wake only the task
/// that polled it last, which may have given up.
struct Sought(Arc<Mutex<Pipe>>);

impl Drop for Sought {
    fn drop(&mut self) {
        let mut wakers = self.0.lock().take_wakers();
        wake_all(&mut wakers);
    }
}

/// One of any number of tasks that wait for the pump to end.
struct Settling<'a> {
    pipe: &'a Mutex<Pipe>,
    key: Option<usize>,
}

impl Settling<'_> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut pipe = self.pipe.lock();
        if pipe.pumping {
            let settling = &mut pipe.settling;
            let key = *self.key.get_or_insert_with(|| settling.insert(None));
            enlist(self.pipe, pipe, cx.waker(), |pipe| &mut pipe.settling[key]);
            return Poll::Pending;
        }
        let pipe = ready!(poll_stopped(self.pipe, pipe, cx))?;
        Poll::Ready(settled(pipe))
    }
}

/// Writes in sequence are done: gives the turn back, and returns an error of a write.
fn settled(mut pipe: MutexGuard<'_, Pipe>) -> io::Result<()> {
    let (failed, turn) = (pipe.failed.take(), pipe.turn.give_back());
    drop(pipe);
    // It may pass to another task, which is woken outside the lock.
    drop(turn);
    failed.map_or(Ok(()), Err)
}

impl Drop for Settling<'_> {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            let waker = self.pipe.lock().settling.remove(key);
            // Not under the lock, as its drop may run any code.
            drop(waker);
        }
    }
}

impl AsyncRead for File {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if buffer.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        ready!(self.poll_sought(Waiter::Reader, cx))?;
        loop {
            let mut pipe = self.pipe.lock();
            if pipe.hand_out(self.inner.buffers(), buffer) {
                return Poll::Ready(Ok(()));
            }
            pipe = ready!(self.poll_pump(pipe, Waiter::Reader, cx))?;
            if let Some(end) = pipe.end.take() {
                return Poll::Ready(end);
            }
            let wanted = buffer.remaining();
            // Beside other work, short reads into memory that the caches hold are better.
            let most = match wanted > CHUNK && self.has_company() {
                true => CHUNK,
                false => ASKED_MAX,
            };
            pipe.asked = wanted.min(most);
            (pipe.pumping, pipe.writing) = (true, false);
            drop(pipe);
            if Pump::start(&self.inner, &self.pipe, Direction::Read, false) {
                let (core, handle) = (self.inner.data_lane(), self.inner.handle());
                linger(core, handle.shared(), || !self.pipe.lock().pumping);
            }
        }
    }
}

impl AsyncWrite for File {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_take_over(cx, std::iter::once(bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_take_over(cx, parts.iter().map(|part| &**part))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_flushed(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_flushed(cx)
    }
}

impl AsyncSeek for File {
    fn start_seek(self: Pin<&mut Self>, position: SeekFrom) -> io::Result<()> {
        let mut pipe = self.pipe.lock();
        if pipe.seeking.is_some() {
            return Err(io::Error::other(
                "a seek is under way in this file; wait for it with `poll_complete` first",
            ));
        }
        pipe.seek = Some(position);
        Ok(())
    }

    fn poll_complete(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<u64>> {
        self.poll_seek(Waiter::Seeker, cx)
    }
}

impl File {
    /// An abandoned seek is done before the operation that follows. Done later, it would move the
    /// place of reads and writes in between.
    fn poll_sought(&self, waiter: Waiter, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let is_asked_for = {
            let pipe = self.pipe.lock();
            pipe.seek.is_some() || pipe.seeking.is_some()
        };
        if is_asked_for {
            ready!(self.poll_seek(waiter, cx))?;
        }
        Poll::Ready(Ok(()))
    }

    fn poll_seek(&self, waiter: Waiter, cx: &mut Context<'_>) -> Poll<io::Result<u64>> {
        let mut pipe = self.pipe.lock();
        if pipe.seeking.is_none() && pipe.seek.is_some() {
            pipe.goes_on = true;
            pipe = match ready!(self.poll_pump(pipe, waiter, cx)) {
                Ok(mut pipe) => {
                    pipe.goes_on = false;
                    pipe
                }
                Err(error) => {
                    self.pipe.lock().seek = None;
                    return Poll::Ready(Err(error));
                }
            };
            pipe.drop_read();
            if let Some(target) = pipe.seek.take() {
                let ahead = pipe.ahead;
                drop(pipe);
                let seeking = self.start_seeking(target, ahead);
                pipe = self.pipe.lock();
                pipe.seeking = Some(seeking);
            }
        }
        let Some(mut seeking) = pipe.seeking.take() else {
            return Poll::Ready(Ok(pipe.position));
        };
        // Polled without the lock, which the seek takes at its end. Only one task polls at a time.
        drop(pipe);
        let Poll::Ready(position) = Pin::new(&mut seeking).poll(cx) else {
            pipe = self.pipe.lock();
            pipe.seeking = Some(seeking);
            self.wait(pipe, waiter, cx);
            return Poll::Pending;
        };
        drop(seeking);
        pipe = self.pipe.lock();
        let position = position.map_err(io::Error::from).flatten()?;
        // If it fails, the cursor stays as far ahead of the task as it was.
        pipe.position = position;
        pipe.ahead = 0;
        Poll::Ready(Ok(position))
    }

    fn start_seeking(&self, target: SeekFrom, ahead: u64) -> InLane<io::Result<u64>> {
        let target = match target {
            SeekFrom::Current(by) => {
                SeekFrom::Current(by.saturating_sub(i64::try_from(ahead).unwrap_or(i64::MAX)))
            }
            target => target,
        };
        let inner = Arc::clone(&self.inner);
        let tells = Sought(Arc::clone(&self.pipe));
        in_lane(
            "fs::File seek",
            self.inner.data_lane(),
            self.inner.handle(),
            move || {
                let _tells = tells;
                inner.file().seek(target)
            },
        )
    }
}

#[cfg(test)]
mod tests;
