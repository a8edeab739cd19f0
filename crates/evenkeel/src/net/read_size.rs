//! How long a read buffer should be.

/// Advises how long a read buffer should be, by the lengths of the latest reads.
///
/// A read that comes back shorter than its buffer has emptied the socket, and the stream then waits
/// without asking the kernel again. So the best buffer is a little longer than a delivery: with
/// wastes memory. `ReadSize` doubles its advice when a read fills it, and halves it when 16 reads
/// in a row needed less than a quarter.
///
/// It holds four numbers and no memory. The buffer is the caller's, and connections may share it.
///
/// # Examples
///
/// ```
/// use evenkeel::net::ReadSize;
///
/// let mut size = ReadSize::new(1024, 256 * 1024);
/// assert_eq!(size.get(), 1024);
/// size.record(1024);
/// assert_eq!(size.get(), 2048, "there may have been more");
/// size.record(1500);
/// assert_eq!(size.get(), 2048, "it was all, and fits");
/// ```
///
/// With a buffer that grows and shrinks:
///
/// ```
/// # use evenkeel::net::{ReadSize, TcpStream};
/// # use tokio::io::AsyncReadExt;
/// async fn drain(mut stream: TcpStream) -> std::io::Result<u64> {
///     let mut size = ReadSize::new(2 * 1024, 256 * 1024);
///     let mut buffer = Vec::new();
///     let mut total = 0;
///     loop {
///         buffer.resize(size.get(), 0);
///         let len = stream.read(&mut buffer).await?;
///         if len == 0 {
///             return Ok(total);
///         }
///         size.record(len);
///         total += len as u64;
///     }
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadSize {
    size: usize,
    min: usize,
    max: usize,
    /// How many reads in a row needed less than a quarter.
    small: u8,
}

/// After this many reads in a row that needed less than a quarter, the advice is halved.
const SMALL_READS: u8 = 16;

impl ReadSize {
    /// Begins with `min` bytes, and never advises less, nor more than `max`.
    ///
    /// # Panics
    ///
    /// If `min` is zero or greater than `max`.
    #[track_caller]
    pub fn new(min: usize, max: usize) -> Self {
        assert!(
            0 < min && min <= max,
            "a read buffer of {min} to {max} bytes; choose at least one byte, and no less at most"
        );
        Self {
            size: min,
            min,
            max,
            small: 0,
        }
    }

    /// How long the buffer of the next read should be.
    pub fn get(&self) -> usize {
        self.size
    }

    /// Records that a read into a buffer of that length returned `len` bytes.
    pub fn record(&mut self, len: usize) {
        if len >= self.size {
            self.size = self.size.saturating_mul(2).min(self.max);
            self.small = 0;
        } else if len >= self.size / 4 {
            self.small = 0;
        } else {
            self.small += 1;
            if self.small == SMALL_READS {
                self.size = (self.size / 2).max(self.min);
                self.small = 0;
            }
        }
        debug_assert!((self.min..=self.max).contains(&self.size) && self.small < SMALL_READS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn steady_deliveries_come_to_take_one_read_each() {
        let mut size = ReadSize::new(1024, 1 << 20);
        let mut reads = 0;
        for _ in 0..1000 {
            let mut left = 40_000;
            loop {
                let len = left.min(size.get());
                let was_short = len < size.get();
                size.record(len);
                reads += 1;
                left -= len;
                if was_short {
                    break;
                }
            }
        }
        assert!(reads <= 1010, "{reads} reads for 1000 deliveries");
        assert_eq!(size.get(), 65_536);
    }

    #[test]
    fn a_burst_is_forgotten() {
        let mut size = ReadSize::new(1024, 1 << 20);
        (0..10).for_each(|_| size.record(1 << 20));
        assert_eq!(size.get(), 1 << 20);
        (0..16 * 10).for_each(|_| size.record(100));
        assert_eq!(size.get(), 1024);
    }

    proptest! {
        #[test]
        fn it_stays_within_its_limits(
            min in 1_usize..5000,
            more in 0_usize..100_000,
            reads in prop::collection::vec(any::<usize>(), 0..200),
        ) {
            let mut size = ReadSize::new(min, min + more);
            for len in reads {
                size.record(len);
                prop_assert!((min..=min + more).contains(&size.get()));
            }
        }
    }
}
