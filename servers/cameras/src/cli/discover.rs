//! `evenkeel-cameras discover`.

use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use crate::onvif::discover::discover;
use evenkeel::runtime::Builder;

use super::{DiscoverArguments, Outcome};

/// Prints a line for each camera that answers.
pub(super) fn run(arguments: &DiscoverArguments) -> Outcome {
    let runtime = Builder::new().workers(1).build()?;
    let wait = Duration::from_millis(u64::from(arguments.wait_ms));
    let found = runtime.block_on(discover(arguments.from, arguments.to, wait));
    let found = found.map_err(|error| {
        format!(
            "cannot ask {} from {}: {error}; --from takes an address of this machine in the \
             cameras' network",
            arguments.to, arguments.from
        )
    })?;
    let mut output = std::io::stdout();
    for one in &found {
        let name = one.name.as_deref().unwrap_or("-");
        let hardware = one.hardware.as_deref().unwrap_or("-");
        let addresses = one.addresses.join(" ");
        writeln!(output, "{}\t{name}\t{hardware}\t{addresses}", one.from)?;
    }
    output.flush()?;
    if found.is_empty() {
        eprintln!(
            "evenkeel-cameras: no camera answered; they have to be in the same network, with ONVIF \
             switched on"
        );
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}
