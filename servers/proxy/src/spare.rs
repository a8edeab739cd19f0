//! Buffers that wait for their next use, of which each thread keeps a few.
//!
//! A connection has a buffer only while bytes are in it or about to be. Most have none, most of the
//! time, and those at work would ask the allocator for one with each request.

use std::cell::RefCell;

use bytes::BytesMut;

/// How much a buffer takes: what is read at once of a head, with what follows it.
pub const ROOM: usize = 16 * 1_024;

/// How many a thread keeps: connections at work take turns, so that few are enough.
const KEPT_MAX: usize = 16;

thread_local! {
    static KEPT: RefCell<Vec<BytesMut>> = const { RefCell::new(Vec::new()) };
}

/// An empty buffer with [`ROOM`].
pub fn take() -> BytesMut {
    // A thread whose locals are gone has none.
    let kept = KEPT.try_with(|kept| kept.borrow_mut().pop());
    let kept = kept.ok().flatten();
    kept.unwrap_or_else(|| BytesMut::with_capacity(ROOM))
}

/// Keeps a buffer for the next use, if its memory is nobody else's and no more than others have.
/// What is in it is forgotten.
pub fn give(mut buffer: BytesMut) {
    buffer.clear();
    if !buffer.try_reclaim(ROOM) || buffer.capacity() >= 2 * ROOM {
        return;
    }
    let _ = KEPT.try_with(|kept| {
        let mut kept = kept.borrow_mut();
        if kept.len() < KEPT_MAX {
            kept.push(buffer);
        }
    });
}

#[cfg(test)]
mod tests {
    use bytes::{Buf, BufMut};

    use super::*;

    #[test]
    fn a_buffer_comes_back_empty_and_with_all_its_room() {
        let mut buffer = take();
        buffer.put_slice(&[7; 100]);
        buffer.advance(60);
        let at = buffer.as_ptr();
        give(buffer);
        let again = take();
        assert_eq!((again.len(), again.capacity()), (0, ROOM));
        assert_eq!(again.as_ptr().wrapping_add(60), at, "the same memory");
        // One with more room than others, which is kept as well.
        let mut larger = BytesMut::with_capacity(ROOM + 100);
        larger.put_slice(&[7; 100]);
        give(larger);
        KEPT.with_borrow(|kept| assert_eq!(kept.len(), 1));
        assert!(take().is_empty());
    }

    #[test]
    fn what_is_large_or_shared_is_not_kept() {
        give(BytesMut::with_capacity(2 * ROOM));
        let mut shared = take();
        shared.put_slice(b"ab");
        let other = shared.split_to(1);
        give(shared);
        KEPT.with_borrow(|kept| assert!(kept.is_empty()));
        assert_eq!(&other[..], b"a");
    }

    #[test]
    fn no_more_are_kept_than_allowed() {
        let all: Vec<_> = (0..2 * KEPT_MAX).map(|_| take()).collect();
        all.into_iter().for_each(give);
        KEPT.with_borrow(|kept| assert_eq!(kept.len(), KEPT_MAX));
    }
}
