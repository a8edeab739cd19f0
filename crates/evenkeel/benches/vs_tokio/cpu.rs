//! The processor time of some of this process's threads.

use std::fs;
use std::time::Duration;

/// The processor time so far of all threads whose name begins with `prefix`, to the nanosecond:
/// the first field of `schedstat`.
pub(crate) fn time_of_threads(prefix: &str) -> Duration {
    let Ok(threads) = fs::read_dir("/proc/self/task") else {
        panic!("processor time by thread is read from /proc, so this part runs on Linux only")
    };
    threads
        .flatten()
        .filter(|thread| {
            fs::read_to_string(thread.path().join("comm"))
                .is_ok_and(|name| name.starts_with(prefix))
        })
        .filter_map(|thread| fs::read_to_string(thread.path().join("schedstat")).ok())
        .filter_map(|stat| stat.split(' ').next()?.parse().ok())
        .map(Duration::from_nanos)
        .sum()
}
