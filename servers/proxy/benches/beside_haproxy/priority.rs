//! Which threads of the benchmark go before others. Clients, servers and proxies share the
//! processors, and a probe that waits for one would measure its own wait. So probes have real-time
//! priority and what makes a load has less than others, whichever proxy is measured.

use std::process::{Command, Stdio};

use nix::unistd::gettid;

/// Has this thread go before all others. Returns whether the system allows it.
pub(crate) fn first() -> bool {
    told("chrt", &["--fifo", "--pid", "1"])
}

/// Has this thread go after others.
pub(crate) fn last() {
    // Who may go first, may also go last.
    told("renice", &["-n", "10", "-p"]);
}

fn told(program: &str, arguments: &[&str]) -> bool {
    let mut command = Command::new(program);
    command.args(arguments).arg(gettid().to_string());
    let command = command.stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}
