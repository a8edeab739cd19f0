//! How many CPUs this process may use.
//!
//! Three things limit it: the CPUs of the machine, the thread's affinity mask, and the CPU quota of
//! each control group above the process. A quota is a bandwidth and not a set of CPUs, so it is
//! rounded up: with 1.9 CPUs, one worker could use only one, and two can use all. The standard
//! library's `available_parallelism` rounds down, hence this module.
//!
//! Control groups are read below a root directory that the caller names, so that tests can build
//! their own trees. A file that cannot be read or parsed counts as no limit: these numbers size a
//! pool, so a wrong guess costs speed and not correctness.

use std::fs;
use std::path::{Component, Path, PathBuf};

use crate::sync::thread;

#[cfg(target_os = "linux")]
pub(crate) fn current() -> usize {
    rustix::thread::sched_getcpu()
}

/// The system does not report the processor.
#[cfg(not(target_os = "linux"))]
pub(crate) fn current() -> usize {
    0
}

/// The number of CPUs that this process may use, at least 1.
pub(crate) fn usable() -> usize {
    bounded(affinity().unwrap_or_else(parallelism), quota())
}

/// How many CPUs' time this process may use under a quota, at most. The quota is not rounded.
pub(crate) fn available(quota: Option<f64>) -> f64 {
    share_of(affinity().unwrap_or_else(parallelism), quota)
}

/// The tightest CPU quota in force, in CPUs; `None` if there is none. Under a quota, spinning takes
/// time from work even on an idle machine.
pub(crate) fn quota() -> Option<f64> {
    quota_below(Path::new("/"))
}

fn bounded(cpus: usize, quota: Option<f64>) -> usize {
    // A cast from a float saturates, and turns NaN into 0.
    let quota = quota.map_or(usize::MAX, |quota| quota.ceil() as usize);
    cpus.min(quota).max(1)
}

fn share_of(cpus: usize, quota: Option<f64>) -> f64 {
    quota.map_or(cpus as f64, |quota| quota.min(cpus as f64))
}

fn parallelism() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// The number of CPUs in the calling thread's affinity mask.
#[cfg(target_os = "linux")]
fn affinity() -> Option<usize> {
    /// The kernel refuses a mask shorter than its own, whose length it does not report. The first
    /// length is that of the C library's type; no kernel supports more CPUs than the last.
    const CPUS_MIN: usize = 1 << 10;
    const CPUS_MAX: usize = 1 << 18;

    let mut cpus = CPUS_MIN;
    while cpus <= CPUS_MAX {
        let mut mask = vec![0_u64; cpus / u64::BITS as usize];
        let size = std::mem::size_of_val(mask.as_slice());
        // SAFETY: the kernel writes at most `size` bytes to the pointer, and `mask` has as many,
        // aligned as `cpu_set_t`, which is an array of words of at most 64 bits.
        let result = unsafe { libc::sched_getaffinity(0, size, mask.as_mut_ptr().cast()) };
        if result == 0 {
            let count = mask.iter().map(|word| word.count_ones() as usize).sum();
            return (count > 0).then_some(count);
        }
        cpus *= 2;
    }
    None
}

#[cfg(not(target_os = "linux"))]
fn affinity() -> Option<usize> {
    None
}

/// The tightest CPU quota of this process, by the files below `root`.
fn quota_below(root: &Path) -> Option<f64> {
    let memberships = read(&root.join("proc/self/cgroup")).unwrap_or_default();
    let mounts = read(&root.join("proc/self/mountinfo")).unwrap_or_default();
    let mounts: Vec<Mount> = mounts.lines().filter_map(Mount::parse).collect();
    let memberships = memberships.lines().filter_map(Membership::parse);
    memberships
        .flat_map(|membership| {
            let mounts = mounts
                .iter()
                .filter(move |mount| mount.version == membership.version);
            mounts.filter_map(move |mount| mount.quota(root, &membership.group))
        })
        .min_by(f64::total_cmp)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    V1,
    V2,
}

impl Version {
    /// The quota in a group's directory, in CPUs.
    fn quota_of(self, group: &Path) -> Option<f64> {
        let (quota, period) = match self {
            Self::V1 => {
                let quota = read(&group.join("cpu.cfs_quota_us"))?;
                let period = read(&group.join("cpu.cfs_period_us"))?;
                // "No quota" is written as -1, which is not a `u64`.
                (quota.trim().parse().ok()?, period.trim().parse().ok()?)
            }
            Self::V2 => {
                let line = read(&group.join("cpu.max"))?;
                let (quota, period) = line.trim().split_once(' ')?;
                // "No quota" is written as "max", which is not a number.
                (quota.parse().ok()?, period.trim().parse().ok()?)
            }
        };
        ratio(quota, period)
    }
}

/// The ratio of two times in microseconds; the kernel does not accept zeros.
fn ratio(quota_us: u64, period_us: u64) -> Option<f64> {
    (quota_us > 0 && period_us > 0).then(|| quota_us as f64 / period_us as f64)
}

/// A line of `/proc/self/cgroup`: the group of this process in one hierarchy.
#[derive(Debug, PartialEq, Eq)]
struct Membership {
    version: Version,
    group: PathBuf,
}

impl Membership {
    /// Parses `id:controllers:path` for a hierarchy that may limit CPUs.
    fn parse(line: &str) -> Option<Self> {
        let (id, rest) = line.split_once(':')?;
        let (controllers, group) = rest.split_once(':')?;
        let version = match controllers {
            "" if id == "0" => Version::V2,
            list if list.split(',').any(|controller| controller == "cpu") => Version::V1,
            _ => return None,
        };
        Some(Self {
            version,
            group: PathBuf::from(group),
        })
    }
}

/// A line of `/proc/self/mountinfo`: a mounted hierarchy of control groups.
#[derive(Debug, PartialEq, Eq)]
struct Mount {
    version: Version,
    /// The group that is mounted, which a container sees as its root.
    group: PathBuf,
    point: PathBuf,
}

impl Mount {
    /// Parses `id parent major:minor root point options [tags…] - type source superoptions`.
    fn parse(line: &str) -> Option<Self> {
        let (mount, system) = line.split_once(" - ")?;
        let mut system = system.split(' ');
        let version = match (
            system.next()?,
            system.next()?,
            system.next().unwrap_or_default(),
        ) {
            ("cgroup2", _, _) => Version::V2,
            ("cgroup", _, options) if options.split(',').any(|option| option == "cpu") => {
                Version::V1
            }
            _ => return None,
        };
        let mut mount = mount.split(' ').skip(3);
        let (group, point) = (unescape(mount.next()?), unescape(mount.next()?));
        Some(Self {
            version,
            group: PathBuf::from(group),
            point: PathBuf::from(point),
        })
    }

    /// The tightest quota from `group` up to the group that is mounted.
    fn quota(&self, root: &Path, group: &Path) -> Option<f64> {
        let below = group.strip_prefix(&self.group).unwrap_or(Path::new(""));
        // A group that this process cannot see has a path with "..", and one of another namespace
        // may not start with the mounted group. Then only the mount itself is known.
        let plain = below
            .components()
            .all(|part| matches!(part, Component::Normal(_)));
        let below = if plain { below } else { Path::new("") };
        let point = root.join(self.point.strip_prefix("/").unwrap_or(&self.point));
        below
            .ancestors()
            .filter_map(|group| self.version.quota_of(&point.join(group)))
            .min_by(f64::total_cmp)
    }
}

/// Decodes the three-digit octal escapes of spaces and backslashes in `mountinfo`.
fn unescape(field: &str) -> String {
    let mut parts = field.split('\\');
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let escaped = part
            .get(..3)
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match escaped {
            Some(byte) if byte.is_ascii() => {
                plain.push(char::from(byte));
                plain.push_str(&part[3..]);
            }
            _ => {
                plain.push('\\');
                plain.push_str(part);
            }
        }
    }
    plain
}

fn read(path: &Path) -> Option<String> {
    fs::read_to_string(path).ok()
}

#[cfg(test)]
mod tests;
