//! `evenkeel-cameras run`.

use std::error::Error;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use crate::config::{self, Config};
use crate::server::Server;
use evenkeel::runtime::{BuildError, Builder};
use evenkeel::signal::unix::{SignalKind, signal};

use super::Outcome;

/// How long the runtime may take to end.
const SHUTDOWN_MAX: Duration = Duration::from_secs(5);

pub(super) fn run(path: &Path) -> Outcome {
    let config = config::read(path)?;
    let mut builder = Builder::new();
    if let Some(workers) = &config.process.workers {
        builder.workers(*workers.get_ref());
    }
    builder.real_time_workers(config.process.real_time);
    let runtime = builder.build().map_err(not_built)?;
    let outcome = runtime.block_on(serve(path, config));
    // Connections that are left are dropped.
    if let Err(error) = runtime.shutdown(SHUTDOWN_MAX) {
        eprintln!("evenkeel-cameras: {error}");
    }
    outcome
}

/// The operator knows keys, and not the runtime's settings.
fn not_built(error: BuildError) -> Box<dyn Error + Send + Sync> {
    match error {
        BuildError::RealTime(error) => format!(
            "process.real_time: the system does not allow it: {error}; give the process \
             CAP_SYS_NICE or a limit of real-time priorities of 2 (`ulimit -r 2`, in a unit of \
             systemd LimitRTPRIO=2 without RestrictRealtime), or leave the key out"
        )
        .into(),
        error => error.into(),
    }
}

async fn serve(path: &Path, config: Config) -> Outcome {
    // Listening from here on, so that even an early ctrl-c ends the process properly.
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hang_up = signal(SignalKind::hangup())?;
    let watch = config.watch.as_ref();
    let is_secured = watch.is_some_and(|watch| watch.get_ref().tls.is_some());
    let server = Server::begin(config, Some(path)).await?;
    say(&server, is_secured)?;
    loop {
        tokio::select! {
            _ = interrupt.recv() => break,
            _ = terminate.recv() => break,
            _ = hang_up.recv() => match server.reload().await {
                Ok(changes) => eprintln!(
                    "evenkeel-cameras: the configuration was read again: {changes}"
                ),
                Err(error) => eprintln!(
                    "evenkeel-cameras: {error}\nevenkeel-cameras: nothing was changed"
                ),
            },
        }
    }
    eprintln!("evenkeel-cameras: ending");
    let late = server.end().await;
    if !late.is_empty() {
        eprintln!(
            "evenkeel-cameras: disks did not take all of: {}",
            late.join(", ")
        );
    }
    Ok(ExitCode::SUCCESS)
}

/// Says where it listens, for people and programs that start it.
fn say(server: &Server, is_secured: bool) -> std::io::Result<()> {
    let mut output = std::io::stdout();
    if let Some(address) = server.rtsp() {
        writeln!(output, "listening on rtsp {address}")?;
    }
    if let Some(address) = server.rtsps() {
        writeln!(output, "listening on rtsps {address}")?;
    }
    if let Some(address) = server.watch() {
        let scheme = if is_secured { "https" } else { "http" };
        writeln!(output, "watch at {scheme}://{address}/")?;
    }
    if let Some(page) = server.page() {
        writeln!(output, "page at http://{page}/")?;
    }
    writeln!(output, "ready")?;
    output.flush()
}
