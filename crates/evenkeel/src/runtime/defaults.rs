//! The defaults of a runtime and of lanes. Each value has its reason, and what a greater or a
//! smaller one would cost.
//!
//! # Examples
//!
//! ```
//! use std::time::Duration;
//! use evenkeel::runtime::defaults;
//!
//! assert_eq!(defaults::IO_CHECK_BOUND, Duration::from_micros(100));
//! assert_eq!(defaults::IO_CHECK_EVENTS, 256);
//! assert_eq!(defaults::HAND_OFF_AFTER, Duration::from_millis(1));
//! assert_eq!(defaults::REAL_TIME_BOUT, Duration::from_millis(2));
//! assert_eq!(defaults::HEAVY_THREADS_EACH, 4);
//! assert_eq!(defaults::HEAVY_THREADS_MIN, 16);
//! assert_eq!(defaults::BLOCKED_THREADS, 512);
//! assert_eq!(defaults::BLOCKING_THREADS, 512);
//! assert_eq!(defaults::BLOCKING_QUEUE, 65_536);
//! assert_eq!(defaults::BLOCKING_KEEP_ALIVE, Duration::from_secs(10));
//! assert_eq!(defaults::DISK_THREADS, 32);
//! assert_eq!(defaults::DISK_QUEUE, 4_096);
//! assert_eq!(defaults::DISK_WAIT, Duration::from_secs(30));
//! assert_eq!(defaults::LANE_THREADS, 1);
//! assert_eq!(defaults::LANE_QUEUE, 1_024);
//! assert_eq!(defaults::LANE_WAIT, Duration::from_secs(30));
//! assert_eq!(defaults::DROP_TIMEOUT, Duration::from_secs(10));
//! ```

pub use crate::defaults::*;
