//! Delivery: the user's choice of how a socket's reader is woken.

use std::fmt;
use std::io;
use std::time::Duration;

/// How the reader of a socket is woken.
///
/// A *delivery* is one wake-up of a reader with data. Each costs a poll of its task, a read, and
/// whatever the task does once per read. Many small packets that are delivered one by one can cost
/// more than the work on their bytes. The other modes hold a wake-up back, within a bound, so that
/// it brings more data.
///
/// The end of the stream, an error and the shutdown of the runtime are never held back: they wake
/// the reader at once, with the data before them. The same goes for a full receive buffer on TCP on
/// Linux; elsewhere, and on Unix streams, it waits for the delay. The
/// [guide](crate::guide::delivery) says what each mode promises, and what it does not.
///
/// # Examples
///
/// ```
/// # evenkeel::runtime::Runtime::new().unwrap().block_on(async {
/// use evenkeel::net::{Delivery, TcpListener, TcpStream};
/// use std::time::Duration;
/// use tokio::io::{AsyncReadExt, AsyncWriteExt};
///
/// let listener = TcpListener::bind("127.0.0.1:0").await?;
/// let mut camera = TcpStream::connect(listener.local_addr()?).await?;
/// let (mut recorder, _) = listener.accept().await?;
/// recorder.set_delivery(Delivery::Coalesce {
///     bytes: 64 * 1024,
///     delay: Duration::from_millis(20),
/// })?;
///
/// camera.write_all(b"a tail much shorter than the watermark").await?;
/// let mut heard = [0; 128];
/// let len = recorder.read(&mut heard).await?;
/// assert_eq!(&heard[..len], b"a tail much shorter than the watermark");
/// # Ok::<(), std::io::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Delivery {
    /// The reader is woken as soon as there is something to read.
    #[default]
    Immediate,
    /// The reader is woken when `bytes` bytes are there to be read, or when the first of them has
    /// waited for `delay`.
    Coalesce {
        /// How many bytes are worth a wake-up: the watermark. 0 and 1 mean [`Delivery::Immediate`].
        /// The kernel takes no more than half of what the receive buffer may grow to.
        ///
        /// Only TCP on Linux has a watermark. Elsewhere, and on Unix streams, the delay alone
        /// decides. Datagram sockets have to say so: they accept only `usize::MAX`.
        bytes: usize,
        /// How long bytes may be held back at most, from the moment at which their worker could
        /// have noticed them, in whole milliseconds: less than one counts as one, and zero means
        /// [`Delivery::Immediate`]. At most [`Delivery::DELAY_MAX`].
        delay: Duration,
    },
    /// The reader is woken at once while its worker keeps up. When woken tasks have to wait, the
    /// worker holds readers back: the longer its tasks wait, the longer the delay.
    Adaptive {
        /// How long bytes may be held back at most; as `delay` of [`Delivery::Coalesce`].
        max_delay: Duration,
    },
}

impl Delivery {
    /// The longest delay that is accepted.
    pub const DELAY_MAX: Duration = Duration::from_secs(60);

    pub(crate) fn delay_max(self) -> Duration {
        match self {
            Delivery::Immediate => Duration::ZERO,
            Delivery::Coalesce { delay, .. } => delay,
            Delivery::Adaptive { max_delay } => max_delay,
        }
    }

    pub(crate) fn is_immediate(self) -> bool {
        let passes_all = matches!(self, Delivery::Coalesce { bytes: 0 | 1, .. });
        passes_all || self.delay_max().is_zero()
    }

    pub(crate) fn check(self) -> Result<(), DeliveryError> {
        let delay = self.delay_max();
        if delay > Self::DELAY_MAX {
            return Err(DeliveryError::TooLong { delay });
        }
        Ok(())
    }

    pub(crate) fn check_for_datagrams(self) -> Result<(), DeliveryError> {
        match self {
            Delivery::Coalesce { bytes, .. } if bytes != usize::MAX => {
                Err(DeliveryError::NoWatermark { bytes })
            }
            _ => self.check(),
        }
    }
}

/// Why a [`Delivery`] cannot be set. It is the inner error of an [`io::Error`] of the kind
/// `InvalidInput`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DeliveryError {
    /// The delay is longer than [`Delivery::DELAY_MAX`].
    TooLong {
        /// The delay that was asked for.
        delay: Duration,
    },
    /// A datagram socket has no watermark.
    NoWatermark {
        /// The watermark that was asked for.
        bytes: usize,
    },
}

impl fmt::Display for DeliveryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DeliveryError::TooLong { delay } => write!(
                f,
                "a delay of {delay:?} is too long; choose {:?} or less",
                Delivery::DELAY_MAX
            ),
            DeliveryError::NoWatermark { bytes } => write!(
                f,
                "a datagram socket cannot wait for {bytes} bytes, as the system does not count \
                them; hold datagrams back by delay alone, with `bytes: usize::MAX`"
            ),
        }
    }
}

impl std::error::Error for DeliveryError {}

impl From<DeliveryError> for io::Error {
    fn from(error: DeliveryError) -> Self {
        io::Error::new(io::ErrorKind::InvalidInput, error)
    }
}
