//! Changing settings of a runtime that works.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use crate::io::delivery::{Delivery, DeliveryError};
use crate::sched::BusyWait;

use super::Handle;
use super::builder::{HAND_OFFS, REAL_TIME_HAND_OFF_MAX};

impl Handle {
    /// How long a worker without work stays awake.
    pub fn busy_wait(&self) -> BusyWait {
        self.shared().live.busy_wait()
    }

    /// Changes how long a worker without work stays awake. A worker goes by it when it next runs
    /// out of work. Threads for blocking work keep to what [`Builder::busy_wait`] said.
    ///
    /// [`Builder::busy_wait`]: super::Builder::busy_wait
    pub fn set_busy_wait(&self, level: BusyWait) {
        self.shared().live.set_busy_wait(level);
    }

    /// How long a poll may last before its worker's seat is given to another thread; `None` if
    /// hand-off is off.
    pub fn hand_off_after(&self) -> Option<Duration> {
        self.shared().live.hand_off_after()
    }

    /// Changes how long a poll may last before its worker's seat is given to another thread; see
    /// [`Builder::hand_off_after`]. Polls under way are judged by it as well. `None` switches
    /// hand-off off: polls that are in the heavy pool end there, and tasks that are known to hog
    /// come back to the workers with their next short poll.
    ///
    /// # Errors
    ///
    /// The threshold is out of range, or is one that does not go together with
    /// [`real_time_workers`] or [`real_time_beside_hogs`]; or the runtime was built without a
    /// thread that watches the workers, which is so with one worker and without hand-off. Then
    /// nothing changes.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use evenkeel::runtime::Runtime;
    ///
    /// let runtime = Runtime::new()?;
    /// let handle = runtime.handle();
    /// handle.set_hand_off_after(Some(Duration::from_millis(5)))?;
    /// assert!(handle.set_hand_off_after(Some(Duration::ZERO)).is_err());
    /// assert_eq!(handle.hand_off_after(), Some(Duration::from_millis(5)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// [`Builder::hand_off_after`]: super::Builder::hand_off_after
    /// [`real_time_workers`]: super::Builder::real_time_workers
    /// [`real_time_beside_hogs`]: super::Builder::real_time_beside_hogs
    pub fn set_hand_off_after(&self, after: Option<Duration>) -> Result<(), ChangeError> {
        let shared = self.shared();
        if let Some(after) = after.filter(|after| !HAND_OFFS.contains(after)) {
            return Err(ChangeError::HandOff { after });
        }
        if shared.config.real_time.is_ever()
            && after.is_none_or(|after| after > REAL_TIME_HAND_OFF_MAX)
        {
            return Err(ChangeError::RealTime { after });
        }
        if after.is_some() && !shared.config.is_watched() {
            return Err(ChangeError::NoMonitor);
        }
        shared.live.set_hand_off_after(after);
        // It may be in a pause that is longer than the new threshold.
        shared.monitor.rouse();
        Ok(())
    }

    /// How the readers of TCP and Unix streams are woken that are made now.
    pub fn delivery(&self) -> Delivery {
        self.shared().live.delivery()
    }

    /// Changes how the readers of TCP and Unix streams are woken that this runtime makes from now
    /// on: [`Delivery::Immediate`] in a new runtime. Streams that are there keep what they have,
    /// and each can be [set](crate::net::TcpStream::set_delivery) apart. Datagram sockets always
    /// begin with `Immediate`.
    ///
    /// # Errors
    ///
    /// The delay is longer than [`Delivery::DELAY_MAX`]. Then nothing changes.
    pub fn set_delivery(&self, mode: Delivery) -> Result<(), ChangeError> {
        mode.check().map_err(ChangeError::Delivery)?;
        self.shared().live.set_delivery(mode);
        Ok(())
    }
}

/// Why a setting of a runtime that works could not be changed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChangeError {
    /// The hand-off threshold is out of range.
    HandOff {
        /// What was asked for.
        after: Duration,
    },
    /// A worker with real-time priority would be stuck with it for too long.
    RealTime {
        /// What was asked for.
        after: Option<Duration>,
    },
    /// No thread watches the workers of this runtime, so no seat can be handed over.
    NoMonitor,
    /// The delivery cannot be set.
    Delivery(DeliveryError),
}

impl fmt::Display for ChangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::HandOff { after } => write!(
                f,
                "a hand-off threshold of {after:?} is out of range; use {:?} to {:?}, or switch \
                 hand-off off",
                HAND_OFFS.start(),
                HAND_OFFS.end()
            ),
            Self::RealTime { after: Some(after) } => write!(
                f,
                "a hand-off threshold of {after:?} is too long for workers with real-time \
                 priority; use {REAL_TIME_HAND_OFF_MAX:?} or less"
            ),
            Self::RealTime { after: None } => f.write_str(
                "workers with real-time priority need hand-off; leave it on, or build the runtime \
                 without `real_time_workers`",
            ),
            Self::NoMonitor => f.write_str(
                "hand-off cannot be switched on, as no thread watches the one worker; build the \
                 runtime with `hand_off_after`",
            ),
            Self::Delivery(error) => error.fmt(f),
        }
    }
}

impl Error for ChangeError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Delivery(error) => Some(error),
            _ => None,
        }
    }
}
