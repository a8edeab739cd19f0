//! What receiving cameras costs beside MediaMTX: processor time for each camera, and memory.
//!
//! The cameras are `evenkeel-cameras simulate`: another process, on the same machine, which writes
//! 1 460 bytes at a time. Each server in turn is started, gets all cameras, is left alone until
//! they are there, and is measured by what the system counts for its process.
//!
//! MediaMTX is not fetched: take one of its releases, and then `--mediamtx PATH`.
//! Without it ours is measured alone.

use std::error::Error;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use clap::Parser;
use evenkeel_measure::comparison::Comparison;
use evenkeel_measure::options::{JsonOption, RoundOptions};
use evenkeel_measure::rounds::alternate;
use evenkeel_measure::statistics::Better;

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// Measures what evenkeel-cameras costs for each camera beside MediaMTX.
#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    rounds: RoundOptions,
    #[command(flatten)]
    json: JsonOption,
    /// How many cameras
    #[arg(long, default_value_t = 350)]
    cameras: usize,
    /// How many of them somebody watches
    #[arg(long, default_value_t = 0)]
    viewers: usize,
    /// Kilobits a second of each camera
    #[arg(long, default_value_t = 1_400)]
    kbit: u32,
    /// The program of MediaMTX
    #[arg(long)]
    mediamtx: Option<PathBuf>,
}

/// Nothing takes longer to begin.
const LIMIT: Duration = Duration::from_secs(60);

/// What the system counts processor time in, on every Linux.
const TICKS_PER_SECOND: f64 = 100.0;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Which {
    Ours,
    Mediamtx,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let mut results = arguments.json.begin("beside_mediamtx")?;
    let mut servers = vec![Which::Ours];
    let mut names = vec!["evenkeel-cameras"];
    if arguments.mediamtx.is_some() {
        servers.push(Which::Mediamtx);
        names.push("MediaMTX");
    }
    let simulator = Simulator::start(arguments.kbit)?;
    let sample = arguments.rounds.sample(Duration::from_secs(10));
    let measured = alternate(arguments.rounds.rounds(), &servers, |which| {
        measure(*which, &arguments, &simulator, sample)
    })?;
    let column = |place: usize| -> Vec<Vec<f64>> {
        let of_server = |rounds: &Vec<[f64; 2]>| rounds.iter().map(|round| round[place]).collect();
        measured.iter().map(of_server).collect()
    };
    let (cameras, viewers) = (arguments.cameras, arguments.viewers);
    let row = format!("{cameras} cameras, {viewers} viewers");
    for (title, unit, place) in [
        (
            "processor time for each camera, in a thousandth of a core",
            "mcore",
            0,
        ),
        ("memory", "MiB", 1),
    ] {
        let mut comparison = Comparison::new(title, unit, Better::Less, &names)
            .with_note(format!("each camera sends {} kbit/s", arguments.kbit));
        comparison.add(&row, &column(place));
        print!("{comparison}");
        results.add_comparison(&comparison)?;
    }
    Ok(())
}

/// Processor time for each camera, and memory.
fn measure(
    which: Which,
    arguments: &Arguments,
    simulator: &Simulator,
    sample: Duration,
) -> Result<[f64; 2]> {
    let directory = tempfile::tempdir()?;
    let server = match which {
        Which::Ours => Server::ours(directory.path(), arguments.cameras, simulator)?,
        Which::Mediamtx => {
            let program = arguments
                .mediamtx
                .as_deref()
                .unwrap_or(Path::new("mediamtx"));
            Server::mediamtx(program, directory.path(), arguments.cameras, simulator)?
        }
    };
    let began = Instant::now();
    for camera in 0..arguments.cameras {
        while !described(server.rtsp, camera)? {
            if began.elapsed() > LIMIT {
                return Err(format!("camera {camera} does not come").into());
            }
            thread::sleep(Duration::from_millis(50));
        }
    }
    for camera in 0..arguments.viewers.min(arguments.cameras) {
        watch(server.rtsp, camera)?;
    }
    // What the beginning costs is over.
    thread::sleep(Duration::from_secs(2));
    let pid = server.child.id();
    let before = ticks(pid)?;
    let began = Instant::now();
    thread::sleep(sample);
    let cores = (ticks(pid)? - before) / TICKS_PER_SECOND / began.elapsed().as_secs_f64();
    Ok([cores * 1_000.0 / arguments.cameras as f64, memory(pid)?])
}

/// The cameras, which end with this.
struct Simulator {
    child: Child,
    address: String,
}

impl Simulator {
    fn start(kbit: u32) -> Result<Self> {
        let mut child = Command::new(env!("CARGO_BIN_EXE_evenkeel-cameras"))
            .args([
                "simulate",
                "--listen",
                "127.0.0.1:0",
                "--kbit",
                &kbit.to_string(),
            ])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut output = BufReader::new(child.stdout.take().ok_or("no output")?);
        let mut line = String::new();
        output.read_line(&mut line)?;
        let address = line.trim().strip_prefix("cameras at rtsp://");
        let address = address.and_then(|address| address.strip_suffix("/NAME"));
        let address = address.ok_or("the simulator does not begin")?.to_owned();
        Ok(Self { child, address })
    }
}

impl Drop for Simulator {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A server at work, which ends with this.
struct Server {
    child: Child,
    rtsp: SocketAddr,
}

impl Server {
    fn ours(directory: &Path, cameras: usize, simulator: &Simulator) -> Result<Self> {
        let rtsp = free()?;
        let mut text = format!(
            "[rtsp]\nlisten = \"{rtsp}\"\nsessions_per_client_max = 2000\nsessions_max = 2000\n"
        );
        for camera in 0..cameras {
            let address = &simulator.address;
            text += &format!("[camera.cam{camera}]\nurl = \"rtsp://{address}/cam{camera}\"\n");
        }
        let file = directory.join("cameras.toml");
        std::fs::write(&file, text)?;
        let child = Command::new(env!("CARGO_BIN_EXE_evenkeel-cameras"))
            .arg("run")
            .arg(&file)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()?;
        Ok(Self { child, rtsp })
    }

    fn mediamtx(
        program: &Path,
        directory: &Path,
        cameras: usize,
        simulator: &Simulator,
    ) -> Result<Self> {
        let rtsp = free()?;
        let mut text = format!(
            "logLevel: error\nrtspAddress: {rtsp}\nrtspTransports: [tcp]\nrtmp: no\nhls: no\n\
             webrtc: no\nsrt: no\npaths:\n"
        );
        for camera in 0..cameras {
            let address = &simulator.address;
            text += &format!(
                "  cam{camera}:\n    source: rtsp://{address}/cam{camera}\n    \
                 rtspTransport: tcp\n"
            );
        }
        let file = directory.join("mediamtx.yml");
        std::fs::write(&file, text)?;
        let child = Command::new(program)
            .arg(&file)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .map_err(|error| format!("cannot start {}: {error}", program.display()))?;
        Ok(Self { child, rtsp })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A port that nobody has, for programs that do not say which one they got.
fn free() -> Result<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}

/// Whether a camera can be watched.
fn described(rtsp: SocketAddr, camera: usize) -> Result<bool> {
    let Ok(mut stream) = TcpStream::connect(rtsp) else {
        return Ok(false);
    };
    stream.set_read_timeout(Some(LIMIT))?;
    let answer = ask(
        &mut stream,
        "DESCRIBE",
        &format!("rtsp://{rtsp}/cam{camera}"),
        "",
    )?;
    Ok(answer.starts_with("RTSP/1.0 200"))
}

/// Watches a camera on a thread of its own, which ends with the server.
fn watch(rtsp: SocketAddr, camera: usize) -> Result<()> {
    let mut stream = TcpStream::connect(rtsp)?;
    stream.set_read_timeout(Some(LIMIT))?;
    let url = format!("rtsp://{rtsp}/cam{camera}");
    let transport = "Transport: RTP/AVP/TCP;unicast;interleaved=0-1\r\n";
    let answer = ask(&mut stream, "SETUP", &format!("{url}/trackID=0"), transport)?;
    let session = answer
        .lines()
        .find_map(|line| line.strip_prefix("Session: "));
    let session = session.ok_or_else(|| format!("SETUP is answered with {answer}"))?;
    let session = session.split(';').next().unwrap_or_default();
    ask(
        &mut stream,
        "PLAY",
        &url,
        &format!("Session: {session}\r\n"),
    )?;
    thread::spawn(move || {
        let mut part = vec![0; 256 << 10];
        while let Ok(1..) = stream.read(&mut part) {}
    });
    Ok(())
}

/// The head of the answer. Bodies are short, and left in the connection.
fn ask(stream: &mut TcpStream, method: &str, url: &str, more: &str) -> Result<String> {
    let request = format!("{method} {url} RTSP/1.0\r\nCSeq: 1\r\n{more}\r\n");
    stream.write_all(request.as_bytes())?;
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte)? > 0 {
        head.push(byte[0]);
    }
    Ok(String::from_utf8(head)?)
}

/// Processor time of a process.
fn ticks(pid: u32) -> Result<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let after_name = stat.rsplit(')').next().ok_or("no name")?;
    let mut fields = after_name.split_whitespace().skip(11);
    let mut field = || -> Result<f64> { Ok(fields.next().ok_or("no time")?.parse()?) };
    Ok(field()? + field()?)
}

/// Memory of a process in MiB.
fn memory(pid: u32) -> Result<f64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().nth(1));
    Ok(kib.ok_or("no memory")?.parse::<f64>()? / 1_024.0)
}
