//! The interface for programs: what it says, and how soon it says it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use evenkeel_measure::latency::Latencies;
use evenkeel_measure::statistics::median;
use serde_json::Value;

use super::Result;
use super::processes::{Simulator, run};
use super::rows::Rows;
use super::servers::{LIMIT, Server};

/// Pairs of an idle and a loaded server, and requests of each half.
const PAIRS: usize = 7;
const REQUESTS: usize = 400;
/// The pause between two requests: an operator's programs do not ask without a pause.
const PAUSE: Duration = Duration::from_millis(2);

/// A connection that is used again and again.
pub(crate) struct Api {
    stream: BufReader<TcpStream>,
}

/// What is said of a camera.
pub(crate) struct Camera(Value);

impl Camera {
    pub(crate) fn is_live(&self) -> bool {
        self.0["state"] == "live"
    }

    pub(crate) fn name(&self) -> &str {
        self.0["name"].as_str().unwrap_or_default()
    }

    /// Packets that never came, or that could not be used, and pictures that this took along.
    pub(crate) fn lost(&self) -> u64 {
        let of = |name: &str| self.0["details"]["ingest"][name].as_u64().unwrap_or(0);
        of("lost") + of("late") + of("dropped") + of("malformed")
    }

    /// Groups that were not recorded.
    pub(crate) fn groups_lost(&self) -> u64 {
        let lost = self.0["recording"]["lost_gops"].as_object();
        lost.map_or(0, |lost| lost.values().filter_map(Value::as_u64).sum())
    }

    /// Groups that were recorded.
    pub(crate) fn groups(&self) -> u64 {
        self.0["recording"]["gops"].as_u64().unwrap_or(0)
    }

    /// Sessions with it, of which each but the first is one that broke.
    pub(crate) fn sessions(&self) -> u64 {
        self.0["sessions"].as_u64().unwrap_or(0)
    }
}

impl Api {
    pub(crate) fn connect(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(LIMIT))?;
        Ok(Self {
            stream: BufReader::new(stream),
        })
    }

    /// What is there, which has to be JSON with a length.
    pub(crate) fn get(&mut self, path: &str) -> Result<Vec<u8>> {
        self.ask("GET", path)
    }

    /// Has the configuration read again.
    pub(crate) fn reload(&mut self) -> Result<()> {
        self.ask("POST", "/api/reload").map(drop)
    }

    fn ask(&mut self, method: &str, path: &str) -> Result<Vec<u8>> {
        let request =
            format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\n\r\n");
        self.stream.get_mut().write_all(request.as_bytes())?;
        let (mut first, mut length) = (String::new(), 0);
        loop {
            let mut line = String::new();
            if self.stream.read_line(&mut line)? == 0 {
                return Err(format!("{path}: the connection was closed").into());
            }
            if first.is_empty() {
                first.clone_from(&line);
            }
            if let Some((name, value)) = line.split_once(':')
                && name.eq_ignore_ascii_case("content-length")
            {
                length = value.trim().parse()?;
            }
            if line == "\r\n" {
                break;
            }
        }
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body)?;
        if first.starts_with("HTTP/1.1 200") {
            return Ok(body);
        }
        let said = String::from_utf8_lossy(&body).into_owned();
        Err(format!("{path}: {} {said}", first.trim()).into())
    }

    pub(crate) fn cameras(&mut self) -> Result<Vec<Camera>> {
        let said: Value = serde_json::from_slice(&self.get("/api/cameras")?)?;
        let cameras = said["cameras"].as_array().ok_or("no list of cameras")?;
        Ok(cameras.iter().cloned().map(Camera).collect())
    }

    /// Bytes that wait for disks.
    pub(crate) fn waiting(&mut self) -> Result<u64> {
        let said: Value = serde_json::from_slice(&self.get("/api/volumes")?)?;
        Ok(said["waiting_bytes"].as_u64().ok_or("no waiting bytes")?)
    }

    /// How many gaps the recordings of all cameras have, and how many of these have a recording.
    pub(crate) fn gaps(&mut self) -> Result<(usize, usize)> {
        let (mut gaps, mut recorded) = (0, 0);
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis();
        // A day is enough: the server has begun in this run.
        let (from, until) = (now - 86_400_000, now + 3_600_000);
        for camera in self.cameras()? {
            let name = camera.name();
            let path = format!("/api/cameras/{name}/recordings?from={from}&until={until}");
            let said: Value = serde_json::from_slice(&self.get(&path)?)?;
            gaps += said["gaps"].as_array().map_or(0, Vec::len);
            recorded += usize::from(said["ranges"].as_array().is_some_and(|it| !it.is_empty()));
        }
        Ok((gaps, recorded))
    }

    fn time(&mut self, path: &str) -> Result<Latencies> {
        let mut latencies = Latencies::new();
        for _ in 0..REQUESTS {
            let began = Instant::now();
            self.get(path)?;
            latencies.record(began.elapsed());
            std::thread::sleep(PAUSE);
        }
        Ok(latencies)
    }
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
            api.time(path)
        })?;
        // The simulator makes up for its pause first.
        std::thread::sleep(Duration::from_secs(3));
        let loaded = api.time(path)?;
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
    let list = ms(api.time("/api/cameras")?.percentile(99));
    rows.figure("the list of all cameras, loaded, 99 of 100", "ms", list);
    Ok(())
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
