//! The defaults of all limits; public in [`runtime::defaults`](crate::runtime::defaults).

use std::time::Duration;

/// Between two I/O checks of a busy worker; see
/// [`Builder::io_check_bound`](crate::runtime::Builder::io_check_bound).
///
/// A check that finds nothing takes about a microsecond, so this costs a busy worker one per cent.
/// With a smaller bound events would hardly come sooner, as they also wait for the poll that is
/// under way.
pub const IO_CHECK_BOUND: Duration = Duration::from_micros(100);

/// Events that one I/O check takes; see
/// [`Builder::io_check_events`](crate::runtime::Builder::io_check_events).
///
/// Enough that many events share a system call, and few enough that waking all their tasks takes
/// less than [`IO_CHECK_BOUND`].
pub const IO_CHECK_EVENTS: usize = 256;

/// How long a poll may last before its worker's seat is handed over; see
/// [`Builder::hand_off_after`](crate::runtime::Builder::hand_off_after).
///
/// Ten times [`IO_CHECK_BOUND`], and several times the start of the thread that takes over.
pub const HAND_OFF_AFTER: Duration = Duration::from_millis(1);

/// How long a worker keeps real-time priority without a sleep; see
/// [`Builder::real_time_workers`](crate::runtime::Builder::real_time_workers).
///
/// Time for some hundred short polls, and less than the slice of an ordinary thread, for which
/// other threads wait anyway.
pub const REAL_TIME_BOUT: Duration = Duration::from_millis(2);

/// Threads of the heavy pool that are not blocked, for each worker; see
/// [`Builder::heavy_threads`](crate::runtime::Builder::heavy_threads).
///
/// As many polls that never return still leave the workers to other tasks. Each costs a thread that
/// shares the processors with them, at a lower priority.
pub const HEAVY_THREADS_EACH: usize = 4;

/// The least default number of these threads: a machine with few processors has no fewer hogs.
pub const HEAVY_THREADS_MIN: usize = 16;

/// Threads of the heavy pool that are blocked in a task's poll; see
/// [`Builder::blocked_threads`](crate::runtime::Builder::blocked_threads).
///
/// As generous as [`BLOCKING_THREADS`]: a task that blocks by mistake gets the same as from
/// [`spawn_blocking`](crate::spawn_blocking), at the same cost of a thread each.
pub const BLOCKED_THREADS: usize = BLOCKING_THREADS;

/// Threads for blocking work; see
/// [`Builder::max_blocking_threads`](crate::runtime::Builder::max_blocking_threads).
///
/// As in Tokio: blocking work may wait for other blocking work, and code written for this many
/// threads must not deadlock with fewer. They cost nothing until there is work for them.
pub const BLOCKING_THREADS: usize = 512;

/// How much blocking work waits for a thread; see
/// [`Builder::blocking_queue_limit`](crate::runtime::Builder::blocking_queue_limit).
///
/// 128 for each of the [`BLOCKING_THREADS`]. This work waits without a time limit, so the queue's
/// length is the only sign of overload: a longer one takes more memory and reports later, a shorter
/// one refuses bursts that would have been served.
pub const BLOCKING_QUEUE: usize = 65_536;

/// How long a thread for blocking work waits for more; see
/// [`Builder::blocking_keep_alive`](crate::runtime::Builder::blocking_keep_alive).
///
/// Longer than the pauses of a service in use, so that its threads are not restarted over and over;
/// short enough that the threads of a burst are soon gone.
pub const BLOCKING_KEEP_ALIVE: Duration = Duration::from_secs(10);

/// Threads that read and write on one device; see
/// [`Builder::disk_threads`](crate::runtime::Builder::disk_threads).
///
/// Enough requests to keep a device busy that serves many at a time. More would wait in the device
/// instead of here, where urgent ones can go first.
pub const DISK_THREADS: usize = 32;

/// How much work waits in each lane of a device; see
/// [`Builder::disk_queue_limit`](crate::runtime::Builder::disk_queue_limit).
///
/// 128 for each of the [`DISK_THREADS`]: if each takes a millisecond, the last waits an eighth of a
/// second. A longer queue means that the device does not keep up, and is better reported at once.
pub const DISK_QUEUE: usize = 4_096;

/// How long file work waits for a thread; see
/// [`Builder::disk_wait_limit`](crate::runtime::Builder::disk_wait_limit).
///
/// As long as Linux commonly lets a disk take for one command before it resets it. Work that has
/// waited longer waits for a device that hangs, and not for a slow one.
pub const DISK_WAIT: Duration = Duration::from_secs(30);

/// Threads of a user's lane; see [`LaneBuilder::threads`](crate::blocking::LaneBuilder::threads).
///
/// A lane is usually for something that takes one caller at a time: a library that is not
/// thread-safe, a file, a connection.
pub const LANE_THREADS: usize = 1;

/// How much work waits in a user's lane; see
/// [`LaneBuilder::queue`](crate::blocking::LaneBuilder::queue).
///
/// If each takes a millisecond of the one thread, the last waits a second. With a longer queue,
/// callers would give up and ask again.
pub const LANE_QUEUE: usize = 1_024;

/// How long work waits in a user's lane; see
/// [`LaneBuilder::wait_limit`](crate::blocking::LaneBuilder::wait_limit).
///
/// As [`DISK_WAIT`], so that all lanes give up alike.
pub const LANE_WAIT: Duration = DISK_WAIT;

/// How long a dropped [`Runtime`](crate::runtime::Runtime) waits for its threads.
///
/// To choose another time, call [`Runtime::shutdown`](crate::runtime::Runtime::shutdown). This is
/// no longer than most supervisors wait before they kill, and longer than any poll and most writes
/// take.
pub const DROP_TIMEOUT: Duration = Duration::from_secs(10);
