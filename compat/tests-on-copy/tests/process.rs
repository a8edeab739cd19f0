//! Processes that nobody waits for.

use std::path::PathBuf;
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
