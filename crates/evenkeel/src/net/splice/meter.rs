//! How many bytes have moved.
//!
//! The numbers are Relaxed: each is written by the one task that moves bytes, and read as a
//! statistic.

use std::fmt;

use super::error::Way;
use crate::sync::atomic::{AtomicU64, Ordering};

/// How many bytes were moved between two streams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Moved {
    /// From the first stream to the second.
    pub forth: u64,
    /// From the second stream to the first.
    pub back: u64,
}

impl Moved {
    /// In both directions.
    pub fn total(self) -> u64 {
        self.forth + self.back
    }
}

/// Counts bytes while they move, for whoever looks meanwhile: a limit on silence, or a page of live
/// connections.
///
/// # Examples
///
/// A relay that ends when nothing has moved for a minute:
///
/// ```
/// use std::io;
/// use std::time::Duration;
///
/// use evenkeel::net::{TcpStream, splice};
/// use evenkeel::time::{sleep, timeout};
///
/// async fn relay(a: &mut TcpStream, b: &mut TcpStream) -> io::Result<splice::Moved> {
///     let meter = splice::Meter::new();
///     let silence = async {
///         let mut before = meter.moved();
///         loop {
///             sleep(Duration::from_secs(60)).await;
///             let now = meter.moved();
///             if now == before {
///                 return;
///             }
///             before = now;
///         }
///     };
///     let relay = splice::splice_bidirectional_metered(a, b, &meter);
///     let (mut silence, mut relay) = (std::pin::pin!(silence), std::pin::pin!(relay));
///     std::future::poll_fn(|cx| {
///         use std::{future::Future, task::Poll};
///         if let Poll::Ready(done) = relay.as_mut().poll(cx) {
///             return Poll::Ready(Ok(done?));
///         }
///         silence.as_mut().poll(cx).map(|()| Err(io::ErrorKind::TimedOut.into()))
///     })
///     .await
/// }
/// ```
#[derive(Default)]
pub struct Meter {
    forth: AtomicU64,
    back: AtomicU64,
}

impl Meter {
    /// Nothing has moved.
    pub fn new() -> Self {
        Self::default()
    }

    /// What has been written so far. Bytes that were read, and for which the receiver had no room
    /// yet, are not included.
    pub fn moved(&self) -> Moved {
        // Relaxed: see the module.
        Moved {
            forth: self.forth.load(Ordering::Relaxed),
            back: self.back.load(Ordering::Relaxed),
        }
    }

    pub(super) fn add(&self, way: Way, count: usize) {
        let number = match way {
            Way::Forth => &self.forth,
            Way::Back => &self.back,
        };
        // Relaxed: see the module.
        number.fetch_add(count as u64, Ordering::Relaxed);
    }
}

impl fmt::Debug for Meter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Meter").field(&self.moved()).finish()
    }
}
