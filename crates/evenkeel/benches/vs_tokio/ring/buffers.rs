//! Buffers for the kernel to receive into. It takes the next one when something has come, so
//! connections that wait have none.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::Submitter;
use io_uring::types::BufRingEntry;

/// The one group of buffers of a ring.
pub(super) const GROUP: u16 = 0;

/// A power of two. If more come at once, the kernel says so, and nothing is lost.
const COUNT: u16 = 1024;
/// As large as the other servers' buffers.
const BYTES: u32 = 4096;
/// Apart by a cache line more, or the beginnings of all would compete for the same few lines.
const STRIDE_BYTES: usize = BYTES as usize + 64;
/// What the list of them takes, at the head of the memory.
const LIST_BYTES: usize = COUNT as usize * size_of::<BufRingEntry>();
/// The list has to be on whole pages.
const PAGE_BYTES: usize = 4096;

/// The list, which the kernel reads while this side adds to it, and the buffers behind it.
pub(super) struct Buffers {
    memory: NonNull<u8>,
    /// How many buffers the list was given ever, modulo 2^16.
    given: u16,
    /// Buffers that a send reads from.
    lent: Vec<u16>,
    is_registered: bool,
}

impl Buffers {
    pub(super) fn new() -> Self {
        // SAFETY: the layout is not empty.
        let memory = unsafe { alloc_zeroed(Self::layout()) };
        let mut buffers = Self {
            memory: NonNull::new(memory).unwrap_or_else(|| handle_alloc_error(Self::layout())),
            given: 0,
            lent: Vec::with_capacity(COUNT.into()),
            is_registered: false,
        };
        buffers.lent.extend(0..COUNT);
        buffers.take_back();
        buffers
    }

    fn layout() -> Layout {
        let bytes = LIST_BYTES + usize::from(COUNT) * STRIDE_BYTES;
        Layout::from_size_align(bytes, PAGE_BYTES).expect("a few megabytes")
    }

    pub(super) fn register(&mut self, submitter: &Submitter<'_>) -> io::Result<()> {
        let list = self.memory.as_ptr() as u64;
        // SAFETY: the list is at the head of the memory, on a page's border, has as many entries
        // as are said, all of them written, and is freed only if it is no longer registered.
        unsafe { submitter.register_buf_ring_with_flags(list, COUNT, GROUP, 0) }?;
        self.is_registered = true;
        Ok(())
    }

    /// Must have happened for the memory to be freed.
    pub(super) fn unregister(&mut self, submitter: &Submitter<'_>) {
        // What fails is left as it is.
        self.is_registered &= submitter.unregister_buf_ring(GROUP).is_err();
    }

    /// Where what was received begins. The kernel leaves the buffer alone until it is taken back.
    pub(super) fn lend(&mut self, buffer: u16) -> *const u8 {
        self.lent.push(buffer);
        self.begin(buffer)
    }

    fn begin(&self, buffer: u16) -> *const u8 {
        let offset = LIST_BYTES + usize::from(buffer % COUNT) * STRIDE_BYTES;
        self.memory.as_ptr().wrapping_add(offset)
    }

    /// Gives the kernel all that were lent.
    pub(super) fn take_back(&mut self) {
        let list = self.memory.cast::<BufRingEntry>().as_ptr();
        for buffer in std::mem::take(&mut self.lent) {
            let entry = list.wrapping_add(usize::from(self.given % COUNT));
            let begin = self.begin(buffer) as u64;
            // SAFETY: the entry is within the list, which was zeroed when it was made. The
            // kernel does not read it until the count below says that it may, nor any more, as
            // it has taken the buffer that it named before: there are as many entries as buffers.
            let entry = unsafe { &mut *entry };
            entry.set_addr(begin);
            entry.set_len(BYTES);
            entry.set_bid(buffer);
            self.given = self.given.wrapping_add(1);
        }
        // SAFETY: the list begins at `list`. The count lies in a part of its first entry that
        // belongs to no buffer, is aligned, and is written by this thread alone.
        let count = unsafe { AtomicU16::from_ptr(BufRingEntry::tail(list).cast_mut()) };
        // Pairs with the kernel's acquire: who sees the count sees the entries.
        count.store(self.given, Ordering::Release);
    }
}

impl Drop for Buffers {
    fn drop(&mut self) {
        // Rather lost than written to by the kernel after they are somebody else's.
        if !self.is_registered {
            // SAFETY: it was allocated with this layout, and the kernel does not know it.
            unsafe { dealloc(self.memory.as_ptr(), Self::layout()) };
        }
    }
}
