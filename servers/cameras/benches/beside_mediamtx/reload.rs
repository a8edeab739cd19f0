//! How long it takes to read the configuration again, and that no stream notices.

use std::path::Path;
use std::time::Instant;

use evenkeel_measure::cameras::Camera;
use evenkeel_measure::statistics::median;

use super::Result;
use super::rows::Rows;
use super::servers::Server;

/// Reloads, each of which adds a camera or takes it away.
const RELOADS: usize = 20;

/// Changes one camera among all, again and again.
pub(crate) fn reloads(server: &Server, directory: &Path, rows: &mut Rows) -> Result<()> {
    let file = directory.join("cameras.toml");
    let without = std::fs::read_to_string(&file)?;
    let with = format!("{without}[camera.more]\n");
    let mut api = server.api()?;
    let sessions = |list: &[Camera]| list.iter().map(Camera::sessions).sum::<u64>() as f64;
    let before = api.cameras()?;
    let mut times = Vec::new();
    for round in 0..RELOADS {
        let text = if round % 2 == 0 { &with } else { &without };
        std::fs::write(&file, text)?;
        let began = Instant::now();
        api.reload()?;
        times.push(began.elapsed().as_secs_f64() * 1_000.0);
        let there = api.cameras()?.len();
        if there != before.len() + 1 - round % 2 {
            return Err(format!("there are {there} cameras after reload {round}").into());
        }
    }
    let longest = times.iter().copied().fold(0.0, f64::max);
    rows.at_most(
        "a reload that changes one camera, longest",
        "ms",
        longest,
        100.0,
    );
    rows.figure("the same, median", "ms", median(times).unwrap_or(f64::NAN));
    let broke = sessions(&api.cameras()?) - sessions(&before);
    rows.at_most("sessions that broke in reloads", "", broke, 0.0);
    Ok(())
}
