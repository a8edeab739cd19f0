//! Trees of control groups as systems lay them out, each built in a directory of its own.

use super::*;
use crate::sync::atomic::{AtomicUsize, Ordering};

const V2_MOUNT: &str = "30 24 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw\n";
const V1_MOUNT: &str =
    "33 25 0:28 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n";

/// A root directory that is removed when the test ends.
struct Tree(PathBuf);

impl Tree {
    fn new(cgroup: &str, mountinfo: &str) -> Self {
        static TREES: AtomicUsize = AtomicUsize::new(0);
        let number = TREES.fetch_add(1, Ordering::Relaxed);
        let name = format!("evenkeel-cpus-{}-{number}", std::process::id());
        let tree = Self(std::env::temp_dir().join(name));
        tree.with("proc/self/cgroup", cgroup)
            .with("proc/self/mountinfo", mountinfo)
    }

    fn with(self, path: &str, content: &str) -> Self {
        let path = self.0.join(path);
        let directory = path.parent().expect("a file has a directory");
        fs::create_dir_all(directory).expect("the temporary directory can be written");
        fs::write(path, content).expect("the temporary directory can be written");
        self
    }

    fn quota(&self) -> Option<f64> {
        quota_below(&self.0)
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        // Remains in the temporary directory do no harm.
        _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_quota_is_rounded_up_and_bounds_the_cpus() {
    assert_eq!(bounded(8, None), 8);
    assert_eq!(bounded(8, Some(1.9)), 2);
    assert_eq!(bounded(8, Some(2.0)), 2);
    assert_eq!(bounded(8, Some(0.1)), 1);
    assert_eq!(bounded(2, Some(64.0)), 2);
    assert_eq!(bounded(0, None), 1);
    assert_eq!(bounded(4, Some(f64::INFINITY)), 4);
}

#[test]
fn this_machine_has_a_cpu() {
    let usable = usable();
    assert!(usable >= 1);
    assert!(usable <= affinity().unwrap_or_else(parallelism));
    assert!(quota().is_none_or(|quota| quota > 0.0));
}

#[test]
fn the_tightest_group_of_a_v2_hierarchy_counts() {
    let tree = || {
        Tree::new("0::/system.slice/web.service\n", V2_MOUNT)
            .with("sys/fs/cgroup/cgroup.controllers", "cpu memory\n")
            .with(
                "sys/fs/cgroup/system.slice/web.service/cpu.max",
                "max 100000\n",
            )
    };
    assert_eq!(tree().quota(), None);
    let outer = tree().with("sys/fs/cgroup/system.slice/cpu.max", "190000 100000\n");
    assert_eq!(outer.quota(), Some(1.9));
    let both = outer.with(
        "sys/fs/cgroup/system.slice/web.service/cpu.max",
        "50000 100000\n",
    );
    assert_eq!(both.quota(), Some(0.5));
    let beside = tree().with("sys/fs/cgroup/user.slice/cpu.max", "10000 100000\n");
    assert_eq!(beside.quota(), None, "not a group above this process");
}

#[test]
fn a_v1_hierarchy_has_quota_and_period_apart() {
    let cgroup = "5:memory:/app\n4:cpu,cpuacct:/app/web\n1:name=systemd:/app\n";
    let tree = Tree::new(cgroup, V1_MOUNT)
        .with("sys/fs/cgroup/cpu,cpuacct/app/web/cpu.cfs_quota_us", "-1\n")
        .with(
            "sys/fs/cgroup/cpu,cpuacct/app/web/cpu.cfs_period_us",
            "100000\n",
        );
    assert_eq!(tree.quota(), None);
    let tree = tree
        .with("sys/fs/cgroup/cpu,cpuacct/app/cpu.cfs_quota_us", "250000\n")
        .with(
            "sys/fs/cgroup/cpu,cpuacct/app/cpu.cfs_period_us",
            "100000\n",
        );
    assert_eq!(tree.quota(), Some(2.5));
}

#[test]
fn a_hybrid_system_limits_cpus_where_the_controller_is() {
    let unified = "31 24 0:27 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
    let tree = Tree::new(
        "4:cpu,cpuacct:/app\n0::/app\n",
        &format!("{unified}{V1_MOUNT}"),
    )
    .with("sys/fs/cgroup/unified/app/cgroup.procs", "1\n")
    .with("sys/fs/cgroup/cpu,cpuacct/app/cpu.cfs_quota_us", "150000\n")
    .with("sys/fs/cgroup/cpu,cpuacct/app/cpu.cfs_period_us", "50000\n");
    assert_eq!(tree.quota(), Some(3.0));
}

#[test]
fn a_container_sees_its_own_group_as_the_root() {
    // The whole hierarchy's path is given, but only the container's part is mounted.
    let mount = "30 24 0:26 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup2 rw\n";
    let tree = Tree::new("0::/docker/abc/worker\n", mount)
        .with("sys/fs/cgroup/cpu.max", "200000 100000\n")
        .with("sys/fs/cgroup/worker/cpu.max", "max 100000\n");
    assert_eq!(tree.quota(), Some(2.0));
    // The group lies outside the namespace, or outside what is mounted.
    for group in ["0::/../other\n", "0::/elsewhere\n"] {
        let tree = Tree::new(group, mount)
            .with("sys/fs/cgroup/cpu.max", "200000 100000\n")
            .with("sys/fs/other/cpu.max", "1 100000\n");
        assert_eq!(tree.quota(), Some(2.0));
    }
}

#[test]
fn a_quota_leaves_parts_of_processors() {
    assert_eq!(share_of(4, None), 4.0);
    assert_eq!(share_of(4, Some(1.5)), 1.5);
    assert_eq!(share_of(4, Some(8.0)), 4.0);
}

#[test]
fn a_mount_point_may_have_a_space() {
    let mount = r"30 24 0:26 / /sys/my\040groups rw - cgroup2 cgroup2 rw";
    let tree = Tree::new("0::/\n", mount).with("sys/my groups/cpu.max", "100000 100000\n");
    assert_eq!(tree.quota(), Some(1.0));
    assert_eq!(unescape(r"a\134b\x\9\400"), r"a\b\x\9\400");
}

#[test]
fn unreadable_limits_are_no_limits() {
    let missing = Tree(std::env::temp_dir().join("evenkeel-no-such-directory"));
    assert_eq!(missing.quota(), None);
    assert_eq!(Tree::new("0::/\n", "").quota(), None);
    assert_eq!(Tree::new("", V2_MOUNT).quota(), None);
    assert_eq!(
        Tree::new("0::/\n:\n1:2\n\u{0}", "- -\n 1 2 - cgroup2\n").quota(),
        None
    );
    for content in [
        "",
        "max",
        "100000",
        "0 100000",
        "1 0",
        "-5 100000",
        "x y",
        "1e5 100000",
    ] {
        let tree = Tree::new("0::/\n", V2_MOUNT).with("sys/fs/cgroup/cpu.max", content);
        assert_eq!(tree.quota(), None, "{content:?}");
    }
}
