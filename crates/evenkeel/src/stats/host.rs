//! What the machine under the process took away: time stolen by a host, time throttled by a quota.
//!
//! Both are in files of the kernel: `/proc/stat` (proc(5)) and `cpu.stat` of the process's control
//! group (Linux, `Documentation/admin-guide/cgroup-v2.rst` and `scheduler/sched-bwc.rst`).

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::sched::shared::Shared;
use crate::sync::Mutex;

use super::since::Subtract;

/// Time that processors were taken from the machine or from the process. What the system does not
/// say is `None`.
///
/// It is read when a snapshot is taken, at most ten times a second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default))]
#[non_exhaustive]
pub struct HostStats {
    /// Time in which the host of a virtual machine ran others on its processors, of all of them, in
    /// steps of 10 ms.
    #[cfg_attr(feature = "serde", serde(with = "super::nanos::option"))]
    pub stolen: Option<Duration>,
    /// Time in which threads of the process's control group could have run, and its quota of
    /// processor time was used up; of all processors.
    #[cfg_attr(feature = "serde", serde(with = "super::nanos::option"))]
    pub throttled: Option<Duration>,
    /// How often the quota was used up before its period was over.
    pub throttles: Option<u64>,
}

/// The last figures, and when they were read, in cycles.
#[derive(Debug, Default)]
pub(crate) struct LastRead(Mutex<Option<(u64, HostStats)>>);

/// For how long the last figures will do.
const FRESH_FOR: Duration = Duration::from_millis(100);

impl HostStats {
    pub(super) fn read(shared: &Shared) -> Self {
        let LastRead(last) = shared.extensions.get();
        let mut last = last.lock();
        let now = shared.clock.cycles();
        let fresh_for = shared.clock.cycles_of(FRESH_FOR);
        if let Some((at, stats)) = *last
            && now.saturating_sub(at) < fresh_for
        {
            return stats;
        }
        let stats = Self::of_system();
        *last = Some((now, stats));
        stats
    }

    fn of_system() -> Self {
        let read = |path: &Path| fs::read_to_string(path).ok();
        let stolen = read(Path::new("/proc/stat")).as_deref().and_then(stolen);
        let groups = read(Path::new("/proc/self/cgroup")).unwrap_or_default();
        let group = group_files(&groups)
            .iter()
            .find_map(|path| throttling(&read(path)?));
        Self {
            stolen,
            throttled: group.map(|(throttled, _)| throttled),
            throttles: group.map(|(_, throttles)| throttles),
        }
    }
}

impl Subtract for HostStats {
    fn subtract(&mut self, earlier: &Self) {
        self.stolen.subtract(&earlier.stolen);
        self.throttled.subtract(&earlier.throttled);
        self.throttles.subtract(&earlier.throttles);
    }
}

/// What was not known before is not known of the time since.
impl<T: Subtract + Copy> Subtract for Option<T> {
    fn subtract(&mut self, earlier: &Self) {
        *self = self.zip(*earlier).map(|(mut now, before)| {
            now.subtract(&before);
            now
        });
    }
}

/// The eighth number of the line of all processors. Linux counts in hundredths of a second here,
/// whatever its tick is.
fn stolen(text: &str) -> Option<Duration> {
    let line = text.lines().find(|line| line.starts_with("cpu "))?;
    let hundredths: u64 = line.split_whitespace().nth(8)?.parse().ok()?;
    Some(Duration::from_millis(hundredths.saturating_mul(10)))
}

/// Where the group's `cpu.stat` may be: as the second version of control groups has it, and as the
/// first. In a container the group's own name may not be visible, and its files are at the top.
fn group_files(groups: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(name)) = (parts.next(), parts.next()) else {
            continue;
        };
        let roots: &[&str] = if controllers.is_empty() {
            &["/sys/fs/cgroup"]
        } else if controllers.split(',').any(|it| it == "cpu") {
            &["/sys/fs/cgroup/cpu,cpuacct", "/sys/fs/cgroup/cpu"]
        } else {
            continue;
        };
        for root in roots {
            let root = Path::new(root);
            let group = root.join(name.trim_start_matches('/'));
            files.extend([group.join("cpu.stat"), root.join("cpu.stat")]);
        }
    }
    files
}

/// The time throttled, and how often. `None` if the file is of a group without the controller.
fn throttling(text: &str) -> Option<(Duration, u64)> {
    let value = |key: &str| -> Option<u64> {
        let mut lines = text.lines().filter_map(|line| line.split_once(' '));
        let (_, value) = lines.find(|(name, _)| *name == key)?;
        value.trim().parse().ok()
    };
    let throttled = value("throttled_usec")
        .map(Duration::from_micros)
        .or_else(|| value("throttled_time").map(Duration::from_nanos))?;
    Some((throttled, value("nr_throttled")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stolen_time_is_the_eighth_number() {
        let text = "cpu  796296 31207 199544 7104164 11833 0 45303 600 7 9\ncpu0 1 1 1 1 1 1 1 1\n";
        assert_eq!(stolen(text), Some(Duration::from_secs(6)));
        for text in [
            "",
            "cpu0 1 2 3 4 5 6 7 8\n",
            "cpu  1 2 3\n",
            "cpu 1 2 3 4 5 6 7 x\n",
        ] {
            assert_eq!(stolen(text), None, "{text:?}");
        }
    }

    #[test]
    fn throttled_time_is_read_in_both_versions() {
        let second = "usage_usec 9\nnr_periods 5\nnr_throttled 3\nthrottled_usec 250\n";
        assert_eq!(throttling(second), Some((Duration::from_micros(250), 3)));
        let first = "nr_periods 5\nnr_throttled 3\nthrottled_time 250\n";
        assert_eq!(throttling(first), Some((Duration::from_nanos(250), 3)));
        for text in [
            "",
            "usage_usec 9\n",
            "nr_throttled x\nthrottled_usec 1\n",
            "throttled_usec\n",
        ] {
            assert_eq!(throttling(text), None, "{text:?}");
        }
    }

    #[test]
    fn the_files_of_a_group_are_those_of_its_version() {
        let paths = |text: &str| -> Vec<String> {
            let files = group_files(text);
            files
                .iter()
                .map(|path| path.display().to_string())
                .collect()
        };
        let second = ["/sys/fs/cgroup/a:b/cpu.stat", "/sys/fs/cgroup/cpu.stat"];
        assert_eq!(paths("0::/a:b\n"), second);
        let first = paths("8:pids:/\n4:cpu,cpuacct:/x\n");
        assert!(first.contains(&"/sys/fs/cgroup/cpu,cpuacct/x/cpu.stat".to_owned()));
        assert!(first.contains(&"/sys/fs/cgroup/cpu/cpu.stat".to_owned()));
        assert_eq!(paths("\n8:pids:/\n9\n"), [""; 0]);
    }

    #[test]
    fn what_was_unknown_stays_unknown() {
        let mut now = HostStats {
            stolen: Some(Duration::from_secs(3)),
            throttles: Some(2),
            ..HostStats::default()
        };
        now.subtract(&HostStats {
            stolen: Some(Duration::from_secs(1)),
            ..HostStats::default()
        });
        assert_eq!(now.stolen, Some(Duration::from_secs(2)));
        assert_eq!((now.throttles, now.throttled), (None, None));
    }
}
