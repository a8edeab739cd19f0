//! A program that runs other programs, and is asked over a socket of the file system.

use std::fs;

use super::Failure;
use super::stage::{Stage, expect};

/// So many jobs, more than run at once.
const JOBS: usize = 12;

/// pueue: a daemon that runs jobs, and the client that queues, waits, looks and ends one.
pub(super) fn jobs(stage: &mut Stage) -> Result<(), Failure> {
    let folder = stage.folder().display().to_string();
    let config = stage.folder().join("pueue.yml");
    let socket = stage.folder().join("socket");
    let text = format!(
        "client: {{}}\ndaemon: {{}}\nshared:\n  pueue_directory: {folder}\n  \
         runtime_directory: {folder}\n  use_unix_socket: true\n  unix_socket_path: {}\n",
        socket.display()
    );
    fs::write(&config, text)?;
    let config = config.display().to_string();
    let mut daemon = stage.start("pueued", &["-c", &config])?;
    daemon.wait_for("to make its socket", |_| socket.exists())?;
    let client =
        |stage: &mut Stage, words: &[&str]| stage.run("pueue", &[&["-c", &config], words].concat());
    client(stage, &["parallel", "4"])?;
    for job in 0..JOBS {
        client(stage, &["add", "--", &format!("sleep 0.1; echo job-{job}")])?;
    }
    client(stage, &["wait"])?;
    for job in 0..JOBS {
        let said = client(stage, &["log", "--json", &job.to_string()])?;
        let has = said.contains(&format!("\"output\":\"job-{job}\""));
        expect(
            &format!("the output of job {job} is in {said}"),
            &has,
            &true,
        )?;
    }
    // One that would take a minute.
    client(stage, &["add", "--immediate", "--", "exec sleep 60"])?;
    let last = JOBS.to_string();
    client(stage, &["kill", &last])?;
    client(stage, &["wait", &last])?;
    let said = client(stage, &["status", "--json"])?;
    expect(
        &format!("a job was killed: {said}"),
        &said.contains("Killed"),
        &true,
    )?;
    client(stage, &["shutdown"])?;
    daemon.ends_well()?;
    stage.keep(&daemon, None);
    Ok(())
}
