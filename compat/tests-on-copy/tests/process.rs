//! Processes that nobody waits for.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;
use tokio::runtime::Builder;
use tokio::time::sleep;

/// Until they are reaped, they take a process's number each.
#[test]
fn children_that_are_dropped_are_reaped() {
    let runtime = Builder::new_multi_thread().enable_all().build().unwrap();
    for is_killed in [false, true] {
        let child = runtime.block_on(runtime.spawn(async move {
            let mut command = Command::new("sleep");
            command.arg("0.2").kill_on_drop(is_killed);
            command.spawn().unwrap().id().unwrap()
        }));
        let process = PathBuf::from(format!("/proc/{}", child.unwrap()));
        // The runtime has timers, as a service's has. Ten seconds, at most.
        let is_gone = (0..1000).any(|_| {
            runtime.block_on(async { sleep(Duration::from_millis(10)).await });
            !process.exists()
        });
        assert!(is_gone, "{process:?}");
    }
}

/// In programs of their own: once a program waits for the signal of children, that of a later one
/// has it look for earlier ones as well.
#[test]
fn a_child_that_is_dropped_as_its_runtime_begins_is_reaped() {
    let own = std::env::current_exe().unwrap();
    let programs: Vec<_> = (0..24)
        .map(|_| {
            let mut program = std::process::Command::new(&own);
            program.args(["--exact", "children_that_are_dropped_are_reaped"]);
            program.stdout(Stdio::null()).spawn().unwrap()
        })
        .collect();
    for mut program in programs {
        assert!(program.wait().unwrap().success());
    }
}
