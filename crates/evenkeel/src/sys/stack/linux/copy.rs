//! Copying a thread's stack, which may end anywhere, without a fault.

/// What memory is mapped by, or a part of that.
const PAGE: usize = 4096;
/// In how many pieces the system is asked for the copy.
const PIECES: usize = super::STACK_MAX / PAGE + 1;

/// Copies memory of this process from an address on, as far as there is any. Returns how many bytes
/// were copied: none if the system refuses. Safe in a signal's handler: it makes one system call,
/// and neither allocates nor panics.
pub(crate) fn copy_memory(from: u64, into: &mut [u8]) -> usize {
    let none = libc::iovec {
        iov_base: std::ptr::null_mut(),
        iov_len: 0,
    };
    // The system copies a piece whole or not at all, so each piece is within one page.
    let mut pieces = [none; PIECES];
    let (mut at, mut left) = (from as usize, into.len());
    let mut used = 0;
    for piece in &mut pieces {
        let len = (PAGE - at % PAGE).min(left);
        *piece = libc::iovec {
            iov_base: std::ptr::without_provenance_mut(at),
            iov_len: len,
        };
        at = at.wrapping_add(len);
        left -= len;
        used += usize::from(len > 0);
    }
    let local = libc::iovec {
        iov_base: into.as_mut_ptr().cast(),
        iov_len: into.len() - left,
    };
    // SAFETY: the system writes into `into` only, at most its length; it checks the addresses to
    // read from itself. `getpid` is a system call without arguments.
    let copied = unsafe {
        let process = libc::getpid();
        let (count, flags) = (used as libc::c_ulong, 0);
        libc::process_vm_readv(process, &raw const local, 1, pieces.as_ptr(), count, flags)
    };
    usize::try_from(copied).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_copied_up_to_where_it_ends() {
        let here = [7_u8; 300];
        let mut copy = [0; 300];
        assert_eq!(copy_memory(here.as_ptr() as u64, &mut copy), 300);
        assert_eq!(copy, here);
        assert_eq!(copy_memory(8, &mut copy), 0, "nothing is mapped there");
        // The end of this thread's stack is less than the whole of it away.
        let mut large = vec![0; super::super::STACK_MAX];
        let copied = copy_memory(here.as_ptr() as u64, &mut large);
        assert!(copied >= 300, "{copied}");
        assert_eq!(large[..300], here);
    }

    #[test]
    fn a_hole_ends_the_copy() {
        // SAFETY: a mapping of its own, of which the second page is then taken away.
        let from = unsafe {
            let (read, private) = (libc::PROT_READ, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
            let mapped = libc::mmap(std::ptr::null_mut(), 2 * PAGE, read, private, -1, 0);
            assert_ne!(mapped, libc::MAP_FAILED);
            libc::munmap(mapped.add(PAGE), PAGE);
            mapped as u64 + 1000
        };
        let mut copy = vec![1; 2 * PAGE];
        assert_eq!(copy_memory(from, &mut copy), PAGE - 1000);
        assert!(copy[..PAGE - 1000].iter().all(|&byte| byte == 0));
    }
}
