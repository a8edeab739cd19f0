//! The kernel's completion queue for reads of files (io_uring), for one thread.

use std::io;
use std::mem::{self, ManuallyDrop};
use std::os::fd::{AsRawFd, OwnedFd};

use io_uring::types::Fd;
use io_uring::{IoUring, opcode, squeue};
use rustix::event::{EventfdFlags, eventfd};
use slab::Slab;

use crate::sync::Arc;

/// The key of the bell's own entry.
const BELL: u64 = u64::MAX;

/// A read: its file, which stays open meanwhile, and its buffer.
pub(crate) trait Reading {
    fn descriptor(&self) -> i32;
    fn offset(&self) -> u64;
    /// The buffer. Its memory does not move while the read is under way, even if `self` does.
    fn target(&mut self) -> &mut [u8];
}

/// Wakes the thread that waits in a [`Reads`].
#[derive(Clone, Debug)]
pub(crate) struct Bell(Arc<OwnedFd>);

impl Bell {
    pub(crate) fn sound(&self) {
        // It fails only if the counter overflows, after 2^64 - 2 calls without a wake-up.
        let _ = rustix::io::write(&*self.0, &1_u64.to_ne_bytes());
    }
}

/// Reads that are under way.
///
/// **Invariant:** the memory that the kernel writes to belongs to an entry of `readings`, which is
/// removed only after its completion was seen. If the queue is dropped before, the entry is leaked.
pub(crate) struct Reads<R: Reading> {
    ring: IoUring,
    readings: ManuallyDrop<Slab<R>>,
    bell: Bell,
    listens: bool,
}

impl<R: Reading> Reads<R> {
    pub(crate) fn new(entries: u32) -> io::Result<Self> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let ring = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .build(entries)?;
        Ok(Self {
            ring,
            readings: ManuallyDrop::new(Slab::new()),
            bell: Bell(Arc::new(bell)),
            listens: false,
        })
    }

    pub(crate) fn bell(&self) -> Bell {
        self.bell.clone()
    }

    pub(crate) fn len(&self) -> usize {
        self.readings.len()
    }

    pub(crate) fn readings(&self) -> impl Iterator<Item = &R> {
        self.readings.iter().map(|(_, reading)| reading)
    }

    /// Begins a read, at the next [`wait`](Reads::wait).
    ///
    /// # Errors
    ///
    /// The kernel takes no more entries; returns the read.
    pub(crate) fn begin(&mut self, mut reading: R) -> Result<(), (R, io::Error)> {
        let descriptor = Fd(reading.descriptor());
        let (offset, target) = (reading.offset(), reading.target());
        let length = u32::try_from(target.len()).unwrap_or(u32::MAX);
        let entry = opcode::Read::new(descriptor, target.as_mut_ptr(), length).offset(offset);
        let key = self.readings.insert(reading);
        match self.push(&entry.build().user_data(key as u64)) {
            Ok(()) => Ok(()),
            Err(error) => Err((self.readings.remove(key), error)),
        }
    }

    fn push(&mut self, entry: &squeue::Entry) -> io::Result<()> {
        loop {
            // SAFETY: a read's memory and descriptor live in `readings` until its completion was
            // seen; the bell's entry has no memory, and its descriptor lives as long as the ring.
            if unsafe { self.ring.submission().push(entry) }.is_ok() {
                return Ok(());
            }
            self.ring.submit()?;
        }
    }

    /// Waits until a read has ended or the bell was rung, and passes each ended read to `ended`.
    pub(crate) fn wait(&mut self, mut ended: impl FnMut(R, io::Result<usize>)) -> io::Result<()> {
        if !mem::replace(&mut self.listens, true) {
            let descriptor = Fd(self.bell.0.as_raw_fd());
            let entry = opcode::PollAdd::new(descriptor, libc::POLLIN as u32);
            self.push(&entry.build().user_data(BELL))?;
        }
        match self.ring.submit_and_wait(1) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
            Ok(_) => {}
        }
        let completions: Vec<(u64, i32)> = (self.ring.completion())
            .map(|completion| (completion.user_data(), completion.result()))
            .collect();
        for (key, result) in completions {
            if key == BELL {
                let _ = rustix::io::read(&*self.bell.0, &mut [0; 8]);
                self.listens = false;
                continue;
            }
            debug_assert!(self.readings.contains(key as usize), "a read ended twice");
            if let Some(reading) = self.readings.try_remove(key as usize) {
                let result =
                    usize::try_from(result).map_err(|_| io::Error::from_raw_os_error(-result));
                ended(reading, result);
            }
        }
        Ok(())
    }
}

impl<R: Reading> Drop for Reads<R> {
    fn drop(&mut self) {
        if self.readings.is_empty() {
            // SAFETY: dropped only here, and not used afterwards.
            unsafe { ManuallyDrop::drop(&mut self.readings) };
        }
        // Otherwise the kernel may still write to the buffers.
    }
}
