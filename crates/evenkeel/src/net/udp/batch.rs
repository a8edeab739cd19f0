//! Receiving many datagrams at once.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;

use super::UdpSocket;
use crate::net::source::Batch;
use crate::sys::recv_batch::{self, Received};

/// The greatest length of a datagram, or of several that the kernel has merged.
const LONGEST: usize = 65_535;

/// Room for many datagrams, and those that came with the latest
/// [`recv_batch`](UdpSocket::recv_batch).
///
/// Its memory, the number of slots times their length, is allocated once.
///
/// # Examples
///
/// ```
/// # evenkeel::runtime::Runtime::new().unwrap().block_on(async {
/// use evenkeel::net::{RecvBatch, UdpSocket};
///
/// let server = UdpSocket::bind("127.0.0.1:0").await?;
/// let client = UdpSocket::bind("127.0.0.1:0").await?;
/// for number in 0..10 {
///     client.send_to(&[number; 100], server.local_addr()?).await?;
/// }
///
/// let mut batch = RecvBatch::new(32, 2048);
/// let mut received = 0;
/// while received < 10 {
///     received += server.recv_batch(&mut batch).await?;
///     for datagram in batch.iter() {
///         assert_eq!(datagram.data.len(), 100);
///         assert_eq!(datagram.from, client.local_addr()?);
///     }
/// }
/// # Ok::<(), std::io::Error>(()) }).unwrap();
/// ```
#[derive(Debug)]
pub struct RecvBatch {
    memory: Vec<u8>,
    size: usize,
    /// The contents of the slots, from the first on.
    received: Vec<Received>,
}

/// One datagram of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Datagram<'a> {
    /// Who sent it.
    pub from: SocketAddr,
    /// Its bytes.
    pub data: &'a [u8],
    /// Whether it was longer than its slot, and was truncated. Known on Linux only.
    pub is_truncated: bool,
}

impl RecvBatch {
    /// The most slots there may be.
    pub const SLOTS_MAX: usize = 1024;

    /// Allocates `slots` slots of `len` bytes each. A longer datagram is truncated.
    ///
    /// # Panics
    ///
    /// If either number is zero, or there are more slots than [`SLOTS_MAX`](Self::SLOTS_MAX).
    #[track_caller]
    pub fn new(slots: usize, len: usize) -> Self {
        assert!(
            (1..=Self::SLOTS_MAX).contains(&slots) && len > 0,
            "a batch of {slots} slots of {len} bytes; choose 1 to {} slots of at least a byte",
            Self::SLOTS_MAX
        );
        // No datagram is longer.
        let size = len.min(LONGEST);
        Self {
            memory: vec![0; slots * size],
            size,
            received: Vec::with_capacity(slots),
        }
    }

    /// Allocates `slots` slots for [merged datagrams](UdpSocket::merge_datagrams): 64 KiB each.
    ///
    /// # Panics
    ///
    /// As [`new`](Self::new).
    #[track_caller]
    pub fn for_merged(slots: usize) -> Self {
        Self::new(slots, LONGEST)
    }

    /// How many datagrams came with the latest call.
    pub fn len(&self) -> usize {
        let datagrams = |one: &Received| one.len.div_ceil(one.segment.max(1)).max(1);
        self.received.iter().map(datagrams).sum()
    }

    /// Whether the latest call received no datagram, or there was none yet.
    pub fn is_empty(&self) -> bool {
        self.received.is_empty()
    }

    /// The datagrams that came with the latest call, in the order in which they came.
    pub fn iter(&self) -> impl Iterator<Item = Datagram<'_>> {
        let slots = self.memory.chunks_exact(self.size);
        slots
            .zip(&self.received)
            .flat_map(|(slot, received)| split(&slot[..received.len], received))
    }

    fn fill(&mut self, socket: &mio::net::UdpSocket) -> io::Result<Batch> {
        self.received.clear();
        let (received, size) = (&mut self.received, self.size);
        let each = |one: Received| {
            debug_assert!(one.len <= size, "{} bytes in a slot of {size}", one.len);
            received.push(one);
        };
        let (_, is_last) = recv_batch::receive(socket.as_fd(), &mut self.memory, self.size, each)?;
        debug_assert!(self.received.len() * self.size <= self.memory.len());
        Ok(Batch {
            bytes: self.received.iter().map(|one| one.len).sum(),
            is_last,
        })
    }
}

/// The datagrams in one slot. An empty datagram counts too.
fn split<'a>(bytes: &'a [u8], received: &Received) -> impl Iterator<Item = Datagram<'a>> {
    let (from, is_truncated) = (received.from, received.is_truncated);
    let only = bytes.is_empty().then_some(bytes);
    let segments = bytes.chunks(received.segment.max(1));
    only.into_iter().chain(segments).map(move |data| Datagram {
        from,
        data,
        is_truncated,
    })
}

/// Receiving many datagrams at once.
impl UdpSocket {
    /// Waits for a datagram, then receives as many as there are, up to the slots of `batch`.
    /// Returns how many: at least one.
    ///
    /// On Linux that takes one system call for 32 slots; elsewhere, one for each datagram.
    ///
    /// # Errors
    ///
    /// The error of the system call, if it received no datagram before. If the socket
    /// [merges](Self::merge_datagrams): the slots are too short, or so many other options asked for
    /// control data that the lengths of the datagrams found no room in it. The latter takes more
    /// options than Linux has today, and loses the datagrams of the call.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe. Any number of tasks may wait at once; each datagram goes to one of them.
    pub async fn recv_batch(&self, batch: &mut RecvBatch) -> io::Result<usize> {
        self.check_slots(batch)?;
        let attempt = |socket: &_| {
            self.check_slots(batch)?;
            batch.fill(socket)
        };
        self.io.batch(attempt).await?;
        Ok(batch.len())
    }

    /// Like [`recv_batch`](Self::recv_batch), without waiting.
    ///
    /// # Errors
    ///
    /// `WouldBlock` if nothing is there, else as [`recv_batch`](Self::recv_batch).
    pub fn try_recv_batch(&self, batch: &mut RecvBatch) -> io::Result<usize> {
        self.check_slots(batch)?;
        self.io.try_batch(|socket| batch.fill(socket))?;
        Ok(batch.len())
    }

    /// Makes the kernel merge datagrams of one sender and one length that arrive close to each
    /// other (`UDP_GRO`), so that a slot of a [`RecvBatch`] holds up to 64 of them at the cost of
    /// one. The batch returns them one by one. Returns false, and changes nothing, if the kernel
    /// does not support it.
    ///
    /// This cannot be undone. From now on all other methods that receive or peek fail with
    /// `InvalidInput`, since they would return several datagrams as one. A socket that is given
    /// back to the standard library still merges.
    pub fn merge_datagrams(&self) -> bool {
        let merges = recv_batch::merge(self.io.get_ref().as_fd());
        if merges {
            self.set_merges();
        }
        merges
    }

    fn check_slots(&self, batch: &RecvBatch) -> io::Result<()> {
        if self.merges() && batch.size < LONGEST {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "the socket merges datagrams, and slots of less than 64 KiB would truncate them; \
                 make the batch with `RecvBatch::for_merged`",
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn received(len: usize, segment: usize) -> Received {
        Received {
            from: "127.0.0.1:9".parse().unwrap(),
            len,
            segment,
            is_truncated: false,
        }
    }

    #[test]
    fn merged_datagrams_are_given_out_one_by_one() {
        let mut batch = RecvBatch::new(4, 100);
        batch.memory = (0..400).map(|at| (at % 251) as u8).collect();
        batch.received = vec![received(10, 10), received(25, 10), received(0, 0)];
        let lengths: Vec<_> = batch.iter().map(|one| one.data.len()).collect();
        assert_eq!(lengths, [10, 10, 10, 5, 0]);
        assert_eq!(batch.len(), 5);
        let second: Vec<u8> = batch
            .iter()
            .skip(1)
            .flat_map(|one| one.data.to_vec())
            .collect();
        assert_eq!(second, (100..125).collect::<Vec<u8>>());
    }

    #[test]
    #[should_panic(expected = "choose 1 to 1024 slots")]
    fn a_batch_without_slots_is_refused() {
        RecvBatch::new(0, 100);
    }
}
