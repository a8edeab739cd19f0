//! `evenkeel-cameras simulate`.

use std::io::Write;
use std::process::ExitCode;

use crate::simulator::{Settings, Simulator, Stream};
use evenkeel::runtime::Builder;
use evenkeel::signal::unix::{SignalKind, signal};

use super::{Outcome, SimulateArguments};

/// Serves until ctrl-c.
pub(super) fn run(arguments: &SimulateArguments) -> Outcome {
    let stream = match &arguments.file {
        Some(file) => {
            let bytes = std::fs::read(file);
            let bytes =
                bytes.map_err(|error| format!("cannot read {}: {error}", file.display()))?;
            Stream::of_file(&bytes).map_err(|error| format!("{}: {error}", file.display()))?
        }
        None => {
            let bytes = arguments.kbit as usize * 1_000 / 8 / arguments.rate.max(1) as usize;
            Stream::synthetic(2 * arguments.rate, bytes)
        }
    };
    let settings = Settings {
        stream,
        rate: arguments.rate,
        credentials: None,
    };
    let simulator = Simulator::start(arguments.listen, settings)
        .map_err(|error| format!("cannot listen on {}: {error}", arguments.listen))?;
    println!("cameras at rtsp://{}/NAME", simulator.address());
    std::io::stdout().flush()?;
    let runtime = Builder::new().build()?;
    runtime.block_on(async {
        let (mut interrupt, mut terminate) = (
            signal(SignalKind::interrupt())?,
            signal(SignalKind::terminate())?,
        );
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        std::io::Result::Ok(())
    })?;
    let (sessions, sent) = (simulator.sessions(), simulator.sent());
    let dropped = simulator.dropped();
    println!("sessions {sessions}, bytes {sent}, pictures left out {dropped}");
    Ok(ExitCode::SUCCESS)
}
