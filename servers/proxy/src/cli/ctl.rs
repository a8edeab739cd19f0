//! `evenkeel-proxy ctl` and `reload`: asks a proxy at its socket.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use crate::admin::ERROR;

use super::Outcome;

/// How long a proxy may take to answer; a reload may have names to look up.
const TIME_MAX: Duration = Duration::from_secs(60);

/// Prints the answers. Fails if one of them is an error.
pub(super) fn ask(socket: &Path, commands: &str) -> Outcome {
    let answer = answer(socket, commands)?;
    let is_error = |line: &str| line.starts_with(ERROR) || line.starts_with("{\"error\":");
    let failed = answer.lines().any(is_error);
    let answer = answer.trim_end();
    if failed {
        eprintln!("{answer}");
        return Ok(ExitCode::FAILURE);
    }
    if !answer.is_empty() {
        println!("{answer}");
    }
    Ok(ExitCode::SUCCESS)
}

/// What a proxy answers.
pub(super) fn answer(
    socket: &Path,
    commands: &str,
) -> Result<String, Box<dyn std::error::Error + Send + Sync>> {
    let cannot = |error: std::io::Error| {
        format!(
            "cannot ask the proxy at {}: {error}; does it run, with this path as \
             process.admin_socket?",
            socket.display()
        )
    };
    let mut stream = UnixStream::connect(socket).map_err(cannot)?;
    stream.set_read_timeout(Some(TIME_MAX))?;
    stream
        .write_all(format!("{}\n", commands.replace('\n', " ")).as_bytes())
        .map_err(cannot)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).map_err(cannot)?;
    Ok(answer)
}
