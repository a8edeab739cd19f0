//! Workers of real-time priority: they have it, or the operator is told what to do.

use std::fs;
use std::process::Command;

use servers_common::testing;

use super::support::Program;

/// The name of a policy in `sched(7)`.
const RR: &str = "2";

/// How many threads of a process have it.
fn in_real_time(process: u32) -> usize {
    let threads = fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let has_it = |thread: &fs::DirEntry| {
        let stat = fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        // Field 41 of `proc_pid_stat(5)`; the third is the first behind the name.
        let policy = (stat.rsplit_once(')')).and_then(|(_, rest)| rest.split_whitespace().nth(38));
        policy == Some(RR)
    };
    threads.flatten().filter(has_it).count()
}

#[test]
fn workers_have_real_time_priority_if_it_is_asked_for() {
    let may = Command::new("chrt").args(["--rr", "2", "true"]).status();
    if !may.is_ok_and(|status| status.success()) {
        eprintln!("not tested: this process may not have real-time priority");
        return;
    }
    assert_eq!(in_real_time(Program::start("").id()), 0);
    let program = Program::start_of("real_time = true", "", "");
    // A worker that has been busy for long has it again when it has slept.
    super::support::until("workers have it", || in_real_time(program.id()) > 0);
}

#[test]
fn where_real_time_priority_is_not_allowed_the_key_and_a_remedy_are_named() {
    if Command::new("setpriv").arg("--version").output().is_err() {
        eprintln!("not tested: there is no `setpriv`");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("cameras.toml");
    fs::write(&file, "[process]\nworkers = 1\nreal_time = true\n").unwrap();
    let limited = [
        "--rtprio=0",
        "setpriv",
        "--bounding-set=-sys_nice",
        "--inh-caps=-sys_nice",
        env!("CARGO_BIN_EXE_evenkeel-cameras"),
        "run",
    ];
    let mut command = Command::new("prlimit");
    let (is_good, _, said) = testing::Program::run(command.args(limited).arg(file));
    if said.starts_with("setpriv") {
        eprintln!("not tested: {said}");
        return;
    }
    assert!(!is_good && said.contains("process.real_time"), "{said}");
    assert!(
        said.contains("ulimit -r 2") && said.contains("CAP_SYS_NICE"),
        "{said}"
    );
}
