//! The interface for programs: how soon it says what it says, and how soon MediaMTX does.

use std::time::{Duration, Instant};

use evenkeel_measure::cameras::Api;
use evenkeel_measure::latency::Latencies;
use evenkeel_measure::statistics::median;

use super::Result;
use super::processes::{Simulator, run};
use super::rows::Rows;
use super::servers::Server;

/// Pairs of an idle and a loaded server, and requests of each half.
const PAIRS: usize = 7;
const REQUESTS: usize = 400;
/// The pause between two requests: an operator's programs do not ask without a pause.
const PAUSE: Duration = Duration::from_millis(2);

fn time(api: &mut Api, path: &str) -> Result<Latencies> {
    let mut latencies = Latencies::new();
    for _ in 0..REQUESTS {
        let began = Instant::now();
        api.get(path)?;
        latencies.record(began.elapsed());
        std::thread::sleep(PAUSE);
    }
    Ok(latencies)
}

/// How soon a camera's state is said while all cameras send, and while the same ones stand still:
/// in turn, so that the machine's moods are in both.
pub(crate) fn pairs(server: &Server, simulator: &Simulator, rows: &mut Rows) -> Result<()> {
    let mut api = server.api()?;
    let path = "/api/cameras/cam7";
    // The client shares the processors with cameras and server: it is not to wait for them itself.
    let prompt = Prompt::become_so();
    if let Err(error) = &prompt {
        eprintln!("the client that asks waits for processors as all do: {error}");
    }
    let (mut figures, mut ratios) = ([const { Vec::new() }; 4], Vec::new());
    for _ in 0..PAIRS {
        let idle = simulator.paused(|| {
            std::thread::sleep(Duration::from_millis(300));
            time(&mut api, path)
        })?;
        // The simulator makes up for its pause first.
        std::thread::sleep(Duration::from_secs(3));
        let loaded = time(&mut api, path)?;
        let halves = [(&idle, 50), (&idle, 99), (&loaded, 50), (&loaded, 99)];
        for (figures, (latencies, percent)) in figures.iter_mut().zip(halves) {
            figures.push(ms(latencies.percentile(percent)));
        }
        ratios.push(ms(loaded.percentile(99)) / ms(idle.percentile(99)));
    }
    let [idle, idle_99, loaded, loaded_99] = figures.map(|of| median(of).unwrap_or(f64::NAN));
    let ratio = median(ratios).unwrap_or(f64::NAN);
    rows.figure("a camera's state by HTTP, idle, median", "ms", idle);
    rows.figure("idle, 99 of 100", "ms", idle_99);
    rows.figure("loaded, median", "ms", loaded);
    rows.at_most("loaded, 99 of 100", "ms", loaded_99, 2.0);
    rows.at_most("loaded to idle, of pairs", "", ratio, 1.2);
    Ok(())
}

/// How soon all cameras are listed while they send: the median, and 99 of 100.
pub(crate) fn list(server: &Server, path: &str) -> Result<[f64; 2]> {
    let mut api = server.api()?;
    let _prompt = Prompt::become_so();
    let list = time(&mut api, path)?;
    Ok([50, 99].map(|percent| ms(list.percentile(percent))))
}

/// This thread in real time, until this is dropped; it takes root.
struct Prompt(String);

impl Prompt {
    fn become_so() -> Result<Self> {
        let of_thread = std::fs::read_link("/proc/thread-self")?;
        let thread = of_thread.file_name().ok_or("the thread has no number")?;
        let thread = thread.to_string_lossy().into_owned();
        run("chrt", &["--fifo", "--pid", "10", &thread])?;
        Ok(Self(thread))
    }
}

impl Drop for Prompt {
    fn drop(&mut self) {
        let _ = run("chrt", &["--other", "--pid", "0", &self.0]);
    }
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1_000.0
}
