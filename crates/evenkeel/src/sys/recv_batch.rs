//! Several datagrams in one system call (`recvmmsg`), and datagrams that the kernel has merged
//! (`UDP_GRO`).

use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;

/// The contents of one slot: one datagram, or several of one length, the last of which may be
/// shorter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Received {
    pub(crate) from: SocketAddr,
    pub(crate) len: usize,
    /// The length of each merged datagram; `len` if there is only one.
    pub(crate) segment: usize,
    pub(crate) is_truncated: bool,
}

fn no_internet_address() -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        "the sender's address is not an Internet address",
    )
}

#[cfg(target_os = "linux")]
pub(crate) use linux::{merge, merges, receive};
#[cfg(not(target_os = "linux"))]
pub(crate) use portable::{merge, merges, receive};

#[cfg(target_os = "linux")]
mod linux {
    use super::*;
    use crate::sys::socket;
    use std::mem::{MaybeUninit, zeroed};
    use std::net::{Ipv4Addr, Ipv6Addr, SocketAddrV4, SocketAddrV6};
    use std::os::fd::AsRawFd;
    use std::ptr;

    /// The most datagrams of one system call, whose headers are on the stack.
    const CALL_MAX: usize = 32;

    /// Room for our control message and for those that the kernel writes before it if the user has
    /// asked for them: both time stamps, the device, the mark, the priority and the number
    /// of dropped datagrams, 224 bytes in all. Aligned as their headers.
    #[repr(C, align(8))]
    #[derive(Clone, Copy)]
    struct Control([u8; 256]);

    fn cut_off() -> io::Error {
        io::Error::new(
            io::ErrorKind::InvalidData,
            "merged datagrams came without their length, as other control messages took its \
            place; turn off the socket's other options that add control messages",
        )
    }

    const MERGE: socket::Name = (libc::SOL_UDP, libc::UDP_GRO);

    /// Makes the kernel merge datagrams of one sender and one length. Returns false if it cannot.
    pub(crate) fn merge(socket: BorrowedFd<'_>) -> bool {
        socket::set_option(socket.as_raw_fd(), MERGE, 1)
    }

    /// Whether [`merge`] was called for a socket, here or elsewhere.
    pub(crate) fn merges(socket: BorrowedFd<'_>) -> bool {
        let off: libc::c_int = 0;
        socket::option(socket.as_raw_fd(), MERGE, off).is_ok_and(|on| on != 0)
    }

    /// Receives into slots of `size` bytes each, from the first on, without waiting. Passes each
    /// filled slot to `each`, in order. Returns how many there were, and whether the socket was
    /// empty afterwards.
    ///
    /// # Errors
    ///
    /// The error of the system call, such as `WouldBlock`, if nothing was received. `InvalidData`
    /// if the length of merged datagrams is unknown; then the datagrams of the call are lost.
    pub(crate) fn receive(
        socket: BorrowedFd<'_>,
        memory: &mut [u8],
        size: usize,
        mut each: impl FnMut(Received),
    ) -> io::Result<(usize, bool)> {
        debug_assert!(size > 0 && memory.len().is_multiple_of(size));
        let mut filled = 0;
        for slots in memory.chunks_mut(size * CALL_MAX) {
            let wanted = slots.len() / size;
            match receive_some(socket, slots, size, &mut each) {
                Ok(count) => {
                    filled += count;
                    if count < wanted {
                        return Ok((filled, true));
                    }
                }
                Err(error) if filled == 0 => return Err(error),
                Err(error) => return Ok((filled, error.kind() == io::ErrorKind::WouldBlock)),
            }
        }
        Ok((filled, false))
    }

    fn receive_some(
        socket: BorrowedFd<'_>,
        slots: &mut [u8],
        size: usize,
        each: &mut impl FnMut(Received),
    ) -> io::Result<usize> {
        let mut names = [MaybeUninit::<libc::sockaddr_storage>::zeroed(); CALL_MAX];
        let mut controls = [Control([0; 256]); CALL_MAX];
        // SAFETY: both are structures of numbers and pointers, for which zeros are valid values.
        let (mut parts, mut headers): ([libc::iovec; CALL_MAX], [libc::mmsghdr; CALL_MAX]) =
            unsafe { (zeroed(), zeroed()) };
        let mut count = 0;
        for slot in slots.chunks_exact_mut(size).take(CALL_MAX) {
            parts[count].iov_base = slot.as_mut_ptr().cast();
            parts[count].iov_len = size;
            let header = &mut headers[count].msg_hdr;
            header.msg_name = names[count].as_mut_ptr().cast();
            header.msg_namelen = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
            header.msg_iov = &raw mut parts[count];
            header.msg_iovlen = 1;
            header.msg_control = (&raw mut controls[count]).cast();
            header.msg_controllen = size_of::<Control>();
            count += 1;
        }
        // SAFETY: the descriptor is open while it is borrowed. The first `count` headers point to
        // memory that lives until the end of this function, is pointed to by nothing else, and has
        // the lengths given; the call writes to no other.
        let result = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                headers.as_mut_ptr(),
                count as libc::c_uint,
                libc::MSG_DONTWAIT as _,
                ptr::null_mut(),
            )
        };
        let received = usize::try_from(result).map_err(|_| io::Error::last_os_error())?;
        debug_assert!(received <= count, "{received} datagrams in {count} slots");
        for (header, name) in headers.iter().zip(&names).take(received.min(count)) {
            // SAFETY: zeros are a valid address structure, and the kernel has written another.
            let from = address(unsafe { name.assume_init_ref() })?;
            let len = (header.msg_len as usize).min(size);
            let segment = match segment(&header.msg_hdr) {
                Some(segment) => segment,
                None if is_cut(&header.msg_hdr) && merges(socket) => return Err(cut_off()),
                None => len,
            };
            each(Received {
                from,
                len,
                segment,
                is_truncated: header.msg_hdr.msg_flags & libc::MSG_TRUNC != 0,
            });
        }
        Ok(received)
    }

    fn is_cut(header: &libc::msghdr) -> bool {
        header.msg_flags & libc::MSG_CTRUNC != 0
    }

    /// The length of merged datagrams, from its control message.
    fn segment(header: &libc::msghdr) -> Option<usize> {
        // SAFETY: the kernel has filled in the header, whose control messages lie in a live buffer
        // with the alignment of theirs, and says how long they are; the macros of the C library
        // stay within. The length is read as the kernel writes it, a number, wherever it lies.
        unsafe {
            let mut message = libc::CMSG_FIRSTHDR(header);
            while !message.is_null() {
                let level_and_type = ((*message).cmsg_level, (*message).cmsg_type);
                if level_and_type == MERGE {
                    let len = libc::CMSG_DATA(message)
                        .cast::<libc::c_int>()
                        .read_unaligned();
                    return usize::try_from(len).ok().filter(|&len| len > 0);
                }
                message = libc::CMSG_NXTHDR(header, message);
            }
        }
        None
    }

    fn address(storage: &libc::sockaddr_storage) -> io::Result<SocketAddr> {
        let at = ptr::from_ref(storage);
        match libc::c_int::from(storage.ss_family) {
            libc::AF_INET => {
                // SAFETY: the family says which structure the kernel wrote; the storage has its
                // length and alignment.
                let v4 = unsafe { &*at.cast::<libc::sockaddr_in>() };
                let ip = Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr));
                Ok(SocketAddrV4::new(ip, u16::from_be(v4.sin_port)).into())
            }
            libc::AF_INET6 => {
                // SAFETY: as above.
                let v6 = unsafe { &*at.cast::<libc::sockaddr_in6>() };
                let ip = Ipv6Addr::from(v6.sin6_addr.s6_addr);
                let port = u16::from_be(v6.sin6_port);
                Ok(SocketAddrV6::new(ip, port, v6.sin6_flowinfo, v6.sin6_scope_id).into())
            }
            _ => Err(no_internet_address()),
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod portable {
    use super::*;
    use socket2::SockRef;
    use std::mem::MaybeUninit;

    pub(crate) fn merge(_socket: BorrowedFd<'_>) -> bool {
        false
    }

    pub(crate) fn merges(_socket: BorrowedFd<'_>) -> bool {
        false
    }

    /// As on Linux, with a system call for each datagram.
    pub(crate) fn receive(
        socket: BorrowedFd<'_>,
        memory: &mut [u8],
        size: usize,
        mut each: impl FnMut(Received),
    ) -> io::Result<(usize, bool)> {
        let mut filled = 0;
        for slot in memory.chunks_exact_mut(size) {
            // SAFETY: initialised bytes are as good as uninitialised ones, and `socket2` promises
            // to write no uninitialised byte.
            let room = unsafe { &mut *(std::ptr::from_mut(slot) as *mut [MaybeUninit<u8>]) };
            match SockRef::from(&socket).recv_from(room) {
                Ok((len, from)) => {
                    let from = from.as_socket().ok_or_else(no_internet_address)?;
                    filled += 1;
                    each(Received {
                        from,
                        len,
                        segment: len,
                        is_truncated: false,
                    });
                }
                Err(error) if filled == 0 => return Err(error),
                Err(error) => return Ok((filled, error.kind() == io::ErrorKind::WouldBlock)),
            }
        }
        Ok((filled, false))
    }
}
