//! Real-time priority: which threads have it, and programs that may not.

use std::fs;
use std::process::Command;

/// The name of a policy in `sched(7)`.
const RR: &str = "2";

/// Whether this process, and what it starts, may have it. If not, says that nothing is tested.
#[must_use]
pub fn may_have_it() -> bool {
    let may = Command::new("chrt").args(["--rr", "2", "true"]).status();
    let may = may.is_ok_and(|status| status.success());
    if !may {
        eprintln!("not tested: this process may not have real-time priority");
    }
    may
}

/// The names of a process's threads that have it.
pub fn threads_with_it(process: u32) -> Vec<String> {
    let threads = fs::read_dir(format!("/proc/{process}/task"));
    let threads = threads.into_iter().flatten().flatten();
    let name = |thread: fs::DirEntry| {
        let stat = fs::read_to_string(thread.path().join("stat")).ok()?;
        let (name, rest) = stat.rsplit_once(')')?;
        // Field 41 of `proc_pid_stat(5)`; the third is the first behind the name.
        let has_it = rest.split_whitespace().nth(38) == Some(RR);
        has_it.then(|| name.split_once('(').map(|(_, name)| name.to_owned()))?
    };
    threads.filter_map(name).collect()
}

/// What starts a program, whose name is to follow, so that it may not have it. If there is nothing
/// that does so, says that nothing is tested.
pub fn without_leave() -> Option<Command> {
    let limits = ["--rtprio=0", "setpriv"];
    let capabilities = ["--bounding-set=-sys_nice", "--inh-caps=-sys_nice"];
    let command = || {
        let mut command = Command::new("prlimit");
        command.args(limits).args(capabilities);
        command
    };
    let tried = command().arg("true").output();
    let works = tried.is_ok_and(|output| output.status.success());
    if !works {
        eprintln!("not tested: `prlimit` or `setpriv` is missing, or may not take privileges");
    }
    works.then(command)
}
