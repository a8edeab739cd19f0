//! What `GET /stats` answers.

use std::time::SystemTime;

use evenkeel::runtime::Handle;
use evenkeel::stats::Stats;
use serde::{Deserialize, Serialize};

/// A runtime's statistics, with those of its process, at one moment: what `GET /stats` answers, and
/// what can be recorded.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Snapshot {
    /// When it was taken, in milliseconds since 1970.
    pub taken_at_ms: u64,
    /// The process, where the system says it.
    pub process: Option<Process>,
    /// The runtime.
    #[serde(flatten)]
    pub stats: Stats,
}

/// The process that a runtime is in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Process {
    /// Processor time of all its threads so far, in nanoseconds.
    pub cpu: u64,
    /// Memory that is in use, in bytes.
    pub resident: u64,
    /// How often its threads gave up a processor, to sleep or to wait.
    pub voluntary_switches: u64,
    /// How often the kernel took a processor from its threads.
    pub involuntary_switches: u64,
}

impl Snapshot {
    pub(crate) fn take(runtime: &Handle) -> Self {
        let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let millis = since_1970.map_or(0, |time| time.as_millis());
        Self {
            taken_at_ms: u64::try_from(millis).unwrap_or(u64::MAX),
            process: Process::read(),
            stats: runtime.stats(),
        }
    }
}

impl Process {
    /// Two system calls of some microseconds, which wait for nothing.
    #[cfg(target_os = "linux")]
    pub(crate) fn read() -> Option<Self> {
        use nix::sys::resource::{UsageWho, getrusage};
        let usage = getrusage(UsageWho::RUSAGE_SELF).ok()?;
        let nanos = |time: nix::sys::time::TimeVal| {
            use nix::sys::time::TimeValLike;
            u64::try_from(time.num_nanoseconds()).unwrap_or(0)
        };
        let count = |count: i64| u64::try_from(count).unwrap_or(0);
        let pages = procfs::process::Process::myself()
            .ok()?
            .statm()
            .ok()?
            .resident;
        Some(Self {
            cpu: nanos(usage.user_time()) + nanos(usage.system_time()),
            resident: pages * procfs::page_size(),
            voluntary_switches: count(usage.voluntary_context_switches()),
            involuntary_switches: count(usage.involuntary_context_switches()),
        })
    }

    #[cfg(not(target_os = "linux"))]
    pub(crate) fn read() -> Option<Self> {
        None
    }
}
