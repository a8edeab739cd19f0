//! `evenkeel-cameras demo`.

use std::error::Error;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use evenkeel::runtime::Builder;
use evenkeel::signal::unix::{Signal, SignalKind, signal};
use tempfile::TempDir;

use super::{DemoArguments, Outcome};
use crate::config;
use crate::serve::DoorsError;
use crate::server::{Server, ServerError};
use crate::simulator::Simulator;

/// Pictures a second of each camera.
const RATE: u32 = 10;
/// Where the server usually listens: for browsers, and by RTSP.
const USUAL_PORTS: [u16; 2] = [8_090, 8_554];
/// The system chooses.
const FREE_PORTS: [u16; 2] = [0, 0];
/// How long the runtime may take to end.
const SHUTDOWN_MAX: Duration = Duration::from_secs(5);

/// Serves until ctrl-c.
pub(super) fn run(arguments: &DemoArguments) -> Outcome {
    let runtime = Builder::new().build()?;
    let outcome = runtime.block_on(serve(arguments));
    if let Err(error) = runtime.shutdown(SHUTDOWN_MAX) {
        complain(&error.to_string());
    }
    outcome
}

async fn serve(arguments: &DemoArguments) -> Outcome {
    // Listening from here on, so that even an early ctrl-c leaves no directory behind.
    let mut signals = Signals {
        interrupt: signal(SignalKind::interrupt())?,
        terminate: signal(SignalKind::terminate())?,
        hang_up: signal(SignalKind::hangup())?,
    };
    let recordings = Recordings::new(arguments.directory.as_deref())?;
    let shown = show(arguments, &recordings, &mut signals).await;
    recordings.remove()?;
    shown.map(|()| ExitCode::SUCCESS)
}

async fn show(
    arguments: &DemoArguments,
    recordings: &Recordings,
    signals: &mut Signals,
) -> Result<(), Box<dyn Error + Send + Sync>> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let simulator = Simulator::start_moving(address, RATE)
        .map_err(|error| format!("cannot listen on {address} as cameras: {error}"))?;
    let begin = async |ports| {
        let text = configuration(arguments.cameras, recordings.path(), &simulator, ports)?;
        let config = config::parse("the demonstration", &text)?;
        let server = Server::begin(config, None).await?;
        Ok::<_, Box<dyn Error + Send + Sync>>(server)
    };
    let server = match begin(ports()).await {
        // Another one has begun at the same moment. Nothing was begun here, as this comes first.
        Err(error) if is_taken(&*error) => begin(FREE_PORTS).await?,
        begun => begun?,
    };
    // Whoever has started it may listen no more.
    let _ = say(&server, arguments, recordings);
    signals.any().await;
    let late = server.end().await;
    if !late.is_empty() {
        complain(&format!("disks did not take all of: {}", late.join(", ")));
    }
    Ok(())
}

/// Where recordings go.
enum Recordings {
    /// Until the end.
    Temporary(TempDir),
    Kept(PathBuf),
}

impl Recordings {
    fn new(asked: Option<&Path>) -> Result<Self, String> {
        let Some(asked) = asked else {
            let made = tempfile::Builder::new()
                .prefix("evenkeel-cameras-")
                .tempdir();
            return made.map(Self::Temporary).map_err(|error| {
                format!("cannot make a temporary directory: {error}; name another by --directory")
            });
        };
        let made = std::path::absolute(asked).and_then(|path| {
            std::fs::create_dir_all(&path)?;
            Ok(path)
        });
        made.map(Self::Kept).map_err(|error| {
            let shown = asked.display();
            format!("--directory {shown}: {error}; name one that can be made and written")
        })
    }

    fn path(&self) -> &Path {
        match self {
            Self::Temporary(directory) => directory.path(),
            Self::Kept(path) => path,
        }
    }

    fn remove(self) -> Result<(), String> {
        let Self::Temporary(directory) = self else {
            return Ok(());
        };
        let path = directory.path().to_owned();
        directory.close().map_err(|error| {
            let shown = path.display();
            format!("the recordings in {shown} cannot be removed: {error}; remove them by hand")
        })
    }
}

/// What ends it: ctrl-c, a program that asks for it, or a terminal that is closed.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
}

impl Signals {
    async fn any(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = self.hang_up.recv() => {}
        }
    }
}

/// The names sort as the numbers do.
fn name(camera: u32, cameras: u32) -> String {
    let width = cameras.to_string().len();
    format!("cam{:0width$}", camera + 1)
}

fn configuration(
    cameras: u32,
    volume: &Path,
    simulator: &Simulator,
    [watch, rtsp]: [u16; 2],
) -> Result<String, String> {
    let volume = volume.to_str().ok_or_else(|| {
        let shown = volume.display();
        format!("the name of {shown} is no text; name another directory by --directory")
    })?;
    // A literal of TOML, whatever stands in the name.
    let volume = toml::Value::from(volume);
    let mut text = format!(
        "[watch]\nlisten = \"127.0.0.1:{watch}\"\n[rtsp]\nlisten = \"127.0.0.1:{rtsp}\"\n\
         [volume.demo]\npath = {volume}\nsize = \"2GiB\"\nreserve = \"256MiB\"\n"
    );
    let cameras_at = simulator.address();
    for camera in 0..cameras {
        let name = name(camera, cameras);
        let _ = write!(
            text,
            "[camera.{name}]\nurl = \"rtsp://{cameras_at}/{name}\"\nrecord = {{ volume = \"demo\" }}\n"
        );
    }
    Ok(text)
}

/// The usual ports if both are free, so that of two that begin at the same moment one has them.
fn ports() -> [u16; 2] {
    let is_free = |port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok();
    match USUAL_PORTS.into_iter().all(is_free) {
        true => USUAL_PORTS,
        false => FREE_PORTS,
    }
}

fn is_taken(error: &(dyn Error + Send + Sync + 'static)) -> bool {
    matches!(
        error.downcast_ref(),
        Some(ServerError::Doors(DoorsError::Listen { .. }))
    )
}

/// Says where it is, and what to look at.
fn say(server: &Server, arguments: &DemoArguments, recordings: &Recordings) -> io::Result<()> {
    let mut output = io::stdout();
    if let Some(address) = server.watch() {
        writeln!(output, "watch at http://{address}/")?;
    }
    let cameras = arguments.cameras;
    let path = recordings.path().display();
    let end = match recordings {
        Recordings::Temporary(_) => "removed at the end",
        Recordings::Kept(_) => "which stays",
    };
    writeln!(
        output,
        "Simulated cameras: {cameras}, recorded into {path}, {end}.\n\
         Click on a camera: its timeline plays what was recorded, and Live returns to now, by the \
         clock in the picture (UTC)."
    )?;
    if let Some(address) = server.rtsp() {
        let name = name(0, cameras);
        writeln!(
            output,
            "Players too: ffplay -rtsp_transport tcp rtsp://{address}/{name}"
        )?;
    }
    writeln!(output, "ctrl-c ends it.")?;
    output.flush()
}

/// Standard error may be a terminal that was closed.
fn complain(what: &str) {
    let _ = writeln!(io::stderr(), "evenkeel-cameras: {what}");
}
