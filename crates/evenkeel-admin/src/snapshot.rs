//! What `GET /stats` answers.

use std::borrow::Cow;
#[cfg(target_os = "linux")]
use std::sync::OnceLock;
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
    /// When it began, in milliseconds since 1970.
    pub started_at_ms: u64,
    /// How many descriptors are open; `None` before Linux 6.2, which does not say it without a walk
    /// over all.
    pub descriptors: Option<u64>,
    /// The most that may be.
    pub descriptors_max: u64,
}

/// How much there is of the name of a future's type.
const FUTURE_MAX: usize = 500;

/// Types may have names of many kilobytes, and an answer may have thousands of them.
pub(crate) fn cut(future: &mut Cow<'static, str>) {
    if let Some((end, _)) = future.char_indices().nth(FUTURE_MAX) {
        *future = format!("{}...", &future[..end]).into();
    }
}

impl Snapshot {
    pub(crate) fn take(runtime: &Handle) -> Self {
        let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let millis = since_1970.map_or(0, |time| time.as_millis());
        let mut stats = runtime.stats();
        let hogs = stats.hogs.iter_mut().map(|row| &mut row.future);
        let functions = stats.hog_functions.iter_mut().map(|row| &mut row.future);
        hogs.chain(functions).for_each(cut);
        Self {
            taken_at_ms: u64::try_from(millis).unwrap_or(u64::MAX),
            process: Process::read(),
            stats,
        }
    }
}

impl Process {
    /// A few system calls of some microseconds in all, which wait for nothing.
    #[cfg(target_os = "linux")]
    pub(crate) fn read() -> Option<Self> {
        use nix::sys::resource::{Resource, UsageWho, getrlimit, getrusage};
        use std::os::unix::fs::MetadataExt;
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
        // Its size is the number of entries; 0 where the system does not say it.
        let open = std::fs::metadata("/proc/self/fd").map_or(0, |it| it.size());
        Some(Self {
            cpu: nanos(usage.user_time()) + nanos(usage.system_time()),
            resident: pages * procfs::page_size(),
            voluntary_switches: count(usage.voluntary_context_switches()),
            involuntary_switches: count(usage.involuntary_context_switches()),
            started_at_ms: Self::began(),
            descriptors: (open > 0).then_some(open),
            descriptors_max: getrlimit(Resource::RLIMIT_NOFILE).map_or(0, |(soft, _)| soft),
        })
    }

    /// When the process began, in milliseconds since 1970, which it asks for once; 0 if the system
    /// does not say it.
    #[cfg(target_os = "linux")]
    fn began() -> u64 {
        static BEGAN: OnceLock<u64> = OnceLock::new();
        *BEGAN.get_or_init(|| {
            let read = || {
                let process = procfs::process::Process::myself().ok()?;
                let ticks = process.stat().ok()?.starttime;
                let since_boot = ticks.checked_mul(1_000)? / procfs::ticks_per_second();
                Some(procfs::boot_time_secs().ok()? * 1_000 + since_boot)
            };
            read().unwrap_or(0)
        })
    }

    #[cfg(not(target_os = "linux"))]
    pub(crate) fn read() -> Option<Self> {
        None
    }
}
