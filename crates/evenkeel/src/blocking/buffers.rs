//! Long buffers, which the pipes of all files of a runtime share.
//!
//! The buffer that was used last is used next, while it is in the caches. If each file had its own,
//! a hundred files that are written one after the other would each find theirs in main memory, and
//! keep it for good.

use crate::sched::shared::Shared;
use crate::sync::Mutex;

/// Buffers of at least this length are shared. Shorter ones, such as those that gather short
/// writes, stay with their files.
const LONG: usize = 256 << 10;
/// How many bytes of unused buffers are kept at most.
const KEPT_MAX: usize = 32 << 20;

#[derive(Debug, Default)]
pub(crate) struct Buffers(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    /// A stack: the last one was used last.
    buffers: Vec<Vec<u8>>,
    bytes: usize,
}

impl Buffers {
    pub(crate) fn of(shared: &Shared) -> &Self {
        shared.extensions.get()
    }

    /// A buffer for `wanted` bytes, of any capacity: `own`, or a shared one.
    pub(crate) fn get(&self, own: Vec<u8>, wanted: usize) -> Vec<u8> {
        if wanted < LONG || own.capacity() >= wanted {
            return own;
        }
        let mut kept = self.0.lock();
        let Some(buffer) = kept.buffers.pop() else {
            return own;
        };
        kept.bytes -= buffer.capacity();
        debug_assert_eq!(kept.buffers.is_empty(), kept.bytes == 0);
        buffer
    }

    /// Takes back an unused buffer: it becomes the file's `own`, or is shared.
    pub(crate) fn put_back(&self, buffer: Vec<u8>, own: &mut Vec<u8>) {
        if buffer.capacity() < LONG {
            if buffer.capacity() > own.capacity() {
                *own = buffer;
            }
            return;
        }
        let mut kept = self.0.lock();
        if kept.bytes + buffer.capacity() <= KEPT_MAX {
            kept.bytes += buffer.capacity();
            kept.buffers.push(buffer);
            return;
        }
        // Freed without the lock.
        drop(kept);
        drop(buffer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_used_is_the_next() {
        let buffers = Buffers::default();
        let mut own = Vec::new();
        buffers.put_back(vec![1; LONG], &mut own);
        buffers.put_back(vec![2; LONG], &mut own);
        assert_eq!(buffers.get(Vec::new(), LONG)[0], 2);
        assert_eq!(buffers.get(Vec::new(), LONG)[0], 1);
        assert!(buffers.get(Vec::new(), LONG).is_empty(), "there is none");
        assert_eq!((own.capacity(), buffers.0.lock().bytes), (0, 0));
    }

    #[test]
    fn short_ones_stay_with_their_file() {
        let buffers = Buffers::default();
        let mut own = vec![0; 100];
        buffers.put_back(vec![3; LONG / 2], &mut own);
        assert_eq!(own[0], 3, "the longer one");
        buffers.put_back(vec![4; 10], &mut own);
        assert_eq!(own[0], 3);
        assert_eq!(buffers.get(own, 10)[0], 3);
        assert!(buffers.0.lock().buffers.is_empty());
    }

    #[test]
    fn unused_buffers_are_bounded() {
        let buffers = Buffers::default();
        for _ in 0..KEPT_MAX / LONG + 5 {
            buffers.put_back(vec![0; LONG], &mut Vec::new());
        }
        let kept = buffers.0.lock();
        assert_eq!(
            (kept.bytes, kept.buffers.len()),
            (KEPT_MAX, KEPT_MAX / LONG)
        );
    }
}
