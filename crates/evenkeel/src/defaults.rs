//! The defaults of all limits; [`runtime::defaults`](crate::runtime::defaults) is where they are
//! public.

use std::time::Duration;

/// Between two I/O checks of a busy worker; see
/// [`Builder::io_check_bound`](crate::runtime::Builder::io_check_bound).
///
/// A check that finds nothing takes about a microsecond, so this costs a busy worker one per cent.
/// Below it events hardly come sooner, as the poll that is under way is waited for as well.
pub const IO_CHECK_BOUND: Duration = Duration::from_micros(100);

/// Events that one I/O check takes; see
/// [`Builder::io_check_events`](crate::runtime::Builder::io_check_events).
///
/// Enough that the system call is shared by many, and few enough that waking all their tasks is
/// shorter than [`IO_CHECK_BOUND`].
pub const IO_CHECK_EVENTS: usize = 256;

/// How long a poll may last before its worker's seat is handed over; see
/// [`Builder::hand_off_after`](crate::runtime::Builder::hand_off_after).
///
/// Ten times [`IO_CHECK_BOUND`], and several times what it takes to start the thread that takes
/// over.
pub const HAND_OFF_AFTER: Duration = Duration::from_millis(1);

/// How long a worker keeps real-time priority without a sleep, if it is to have one; see
/// [`Builder::real_time_workers`](crate::runtime::Builder::real_time_workers).
///
/// Time for some hundred short polls, and less than the slice of an ordinary thread, for which
/// others wait anyway.
pub const REAL_TIME_BOUT: Duration = Duration::from_millis(2);

/// Threads of the heavy pool that are not blocked, for each worker; see
/// [`Builder::heavy_threads`](crate::runtime::Builder::heavy_threads).
///
/// So many polls that never return leave the workers to the others. Each costs a thread that shares
/// the processors with them, at a lower priority.
pub const HEAVY_THREADS_EACH: usize = 4;

/// The least of them by default: a machine with few processors has as many hogs.
pub const HEAVY_THREADS_MIN: usize = 16;

/// Threads of the heavy pool that are blocked in a task's poll; see
/// [`Builder::blocked_threads`](crate::runtime::Builder::blocked_threads).
///
/// As generous as [`BLOCKING_THREADS`]: who blocks by mistake gets what they would have got from
/// [`spawn_blocking`](crate::spawn_blocking), and what it costs is the same, a thread for each.
pub const BLOCKED_THREADS: usize = BLOCKING_THREADS;

/// Threads for blocking work; see
/// [`Builder::max_blocking_threads`](crate::runtime::Builder::max_blocking_threads).
///
/// As Tokio has it: blocking work may wait for other blocking work, and what was written for as
/// many threads must not stand still with fewer. They cost nothing until there is work for them.
pub const BLOCKING_THREADS: usize = 512;

/// How much blocking work waits for a thread; see
/// [`Builder::blocking_queue_limit`](crate::runtime::Builder::blocking_queue_limit).
///
/// 128 for each of the [`BLOCKING_THREADS`]. This work waits without a limit of time, so the
/// queue's length is the only sign of overload: a longer one takes more memory and tells later, a
/// shorter one refuses bursts that would have been served.
pub const BLOCKING_QUEUE: usize = 65_536;

/// How long a thread for blocking work waits for more; see
/// [`Builder::blocking_keep_alive`](crate::runtime::Builder::blocking_keep_alive).
///
/// Longer than the pauses of a service that is in use, so that its threads are not started over and
/// over; short enough that those of a burst are soon gone.
pub const BLOCKING_KEEP_ALIVE: Duration = Duration::from_secs(10);

/// Threads that read and write on one device; see
/// [`Builder::disk_threads`](crate::runtime::Builder::disk_threads).
///
/// As many requests as keep a device that serves many at a time busy. More wait in the device
/// instead of here, where what is urgent can go first.
pub const DISK_THREADS: usize = 32;

/// How much work waits in each lane of a device; see
/// [`Builder::disk_queue_limit`](crate::runtime::Builder::disk_queue_limit).
///
/// 128 for each of the [`DISK_THREADS`]: where each takes a millisecond, the last waits an eighth
/// of a second. Whoever comes to a longer queue hears at once that the device does not keep up.
pub const DISK_QUEUE: usize = 4_096;

/// How long file work waits for a thread; see
/// [`Builder::disk_wait_limit`](crate::runtime::Builder::disk_wait_limit).
///
/// As long as Linux commonly lets a disk take for one command before it resets it. What has waited
/// longer waits for a device that hangs, and not for one that is slow.
pub const DISK_WAIT: Duration = Duration::from_secs(30);

/// Threads of a lane of one's own; see
/// [`LaneBuilder::threads`](crate::blocking::LaneBuilder::threads).
///
/// What is given a lane is mostly one thing that takes one caller at a time: a library that is not
/// thread-safe, a file, a connection.
pub const LANE_THREADS: usize = 1;

/// How much work waits in a lane of one's own; see
/// [`LaneBuilder::queue`](crate::blocking::LaneBuilder::queue).
///
/// Where each takes a millisecond of the one thread, the last waits a second: more would be asked
/// for again by those who have given up.
pub const LANE_QUEUE: usize = 1_024;

/// How long work waits in a lane of one's own; see
/// [`LaneBuilder::wait_limit`](crate::blocking::LaneBuilder::wait_limit).
///
/// As [`DISK_WAIT`], so that lanes of all kinds give up alike.
pub const LANE_WAIT: Duration = DISK_WAIT;

/// How long a dropped [`Runtime`](crate::runtime::Runtime) waits for its threads.
///
/// For more or less, call [`Runtime::shutdown`](crate::runtime::Runtime::shutdown). It is no longer
/// than what most supervisors wait before they kill, and longer than any poll and most writes take.
pub const DROP_TIMEOUT: Duration = Duration::from_secs(10);
