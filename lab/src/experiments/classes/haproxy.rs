//! HAProxy, where it is installed: in front of the same origin as the relay, with an admin page of
//! its own, from a configuration in a temporary directory.

use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::error::{Error, Result};
use crate::process::{self, Server, TemporaryDirectory};
use crate::trial::client;
use crate::trial::lab::Lab;

const PROGRAM: &str = "haproxy";

/// Why it cannot take part, as a line.
pub(crate) fn missing() -> Option<String> {
    let missing = || "haproxy: left out, not installed (lab/setup.sh installs it)".to_owned();
    (!process::answers(PROGRAM, "-v")).then(missing)
}

/// Starts one in front of `origin`, with one more line of its configuration, and waits until it
/// listens.
pub(crate) fn start(lab: &Lab, origin: SocketAddr, tuning: &str) -> Result<Server> {
    let directory = TemporaryDirectory::new(PROGRAM)?;
    let (relay, admin) = (lab.free_address()?, lab.free_address()?);
    let path = directory.path().join("haproxy.cfg");
    let text = configuration(lab.workers, [relay, admin, origin], tuning);
    std::fs::write(&path, text).map_err(Error::write(&path))?;
    let mut command = Command::new(PROGRAM);
    // In the foreground and without a word: what it complains of is on standard error.
    command.args(["-db", "-q", "-f"]).arg(&path);
    let process = lab.server_tool(PROGRAM, command.stdout(Stdio::null()))?;
    let haproxy = Server::told(process, &[("relay", relay), ("admin", admin)], directory);
    client::until_listening(PROGRAM, admin, Duration::from_secs(10))?;
    Ok(haproxy)
}

/// A relay by TCP, as the lab's own is, and a page that needs no backend.
fn configuration(threads: usize, [relay, admin, origin]: [SocketAddr; 3], tuning: &str) -> String {
    let tuning = match tuning {
        "" => String::new(),
        line => format!("    {line}\n"),
    };
    format!(
        "\
global
    nbthread {threads}
    maxconn 8000
{tuning}defaults
    mode tcp
    timeout connect 10s
    timeout client 60s
    timeout server 60s
frontend relay
    bind {relay}
    default_backend origin
backend origin
    server origin {origin}
frontend admin
    mode http
    bind {admin}
    http-request return status 200 content-type text/plain string \"up\"
"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_configuration_says_who_is_where_and_how_it_is_tuned() {
        let address = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let text = configuration(2, [1, 2, 3].map(address), "tune.runqueue-depth 20");
        for line in [
            "    nbthread 2\n",
            "    tune.runqueue-depth 20\ndefaults\n",
            "    bind 127.0.0.1:1\n",
            "    bind 127.0.0.1:2\n",
            "    server origin 127.0.0.1:3\n",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
    }
}
