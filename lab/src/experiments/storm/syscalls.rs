//! System calls of a server, counted by `perf` where it is installed and may count.

use std::process::Command;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::trial::lab::Lab;

/// All threads that live, and those that they start.
const EVENT: &str = "raw_syscalls:sys_enter";

/// Whether system calls can be counted here.
///
/// # Errors
/// With the reason why not.
pub(crate) fn available(lab: &Lab) -> Result<(), String> {
    let counted = perf(lab, &["--", "true"]);
    counted.map(drop).map_err(|error| error.to_string())
}

/// The note of a report without such counts.
pub(crate) fn advice(why: &String) -> String {
    format!(
        "System calls are not counted: {why}. It takes `perf` (lab/setup.sh installs it) and the \
         right to use its event `{EVENT}`."
    )
}

/// System calls of process `pid` within that time.
pub(crate) fn count(lab: &Lab, pid: u32, length: Duration) -> Result<u64> {
    let (pid, seconds) = (pid.to_string(), length.as_secs_f64().to_string());
    perf(lab, &["-p", &pid, "--", "sleep", &seconds])
}

fn perf(lab: &Lab, of: &[&str]) -> Result<u64> {
    let mut command = Command::new("perf");
    command.args(["stat", "--log-fd", "1", "-x", ",", "-e", EVENT]);
    command.args(of);
    command.stderr(std::process::Stdio::null());
    let output = lab.tool("perf", &mut command)?.output()?;
    read(&output).ok_or_else(|| Error::Unreadable {
        program: "perf".to_owned(),
        reason: format!("no count in `{}`", output.trim()),
    })
}

fn read(output: &str) -> Option<u64> {
    let line = output.lines().find(|line| line.contains(EVENT))?;
    line.split(',').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_is_read() {
        let output = "# started\n\n144,,raw_syscalls:sys_enter,1205156,100.00,,\n";
        assert_eq!(read(output), Some(144));
        assert_eq!(read("<not counted>,,raw_syscalls:sys_enter,0,0.00,,"), None);
        assert_eq!(read(""), None);
    }
}
