//! The two servers, each as a process by a configuration.

use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use evenkeel_measure::cameras::viewers::described;
use evenkeel_measure::cameras::{Api, Wanted, of_mediamtx, of_mediamtx_with_webrtc, of_ours};

use super::Result;
use super::processes::{Simulator, until};

pub(crate) use evenkeel_measure::cameras::LIMIT;

/// A server at work, which ends with this.
pub(crate) struct Server {
    child: Child,
    pub(crate) rtsp: SocketAddr,
    /// Where programs ask.
    pub(crate) http: SocketAddr,
    is_ours: bool,
    /// Where it is asked for WebRTC, and what is in front of a camera's name.
    pub(crate) whep: Option<(SocketAddr, &'static str)>,
}

/// WebRTC of ours, for as many sessions of this machine as are wanted.
const WEBRTC: &str = "[watch.webrtc]\nlisten = \"127.0.0.1:0\"\nsessions_max = 1000\n\
                      sessions_per_client_max = 1000\n";

/// What ours is to do.
#[derive(Clone, Copy)]
pub(crate) struct Ours<'a> {
    /// It records below this one.
    pub(crate) directory: &'a Path,
    pub(crate) cameras: u32,
    pub(crate) simulator: &'a Simulator,
    /// Whether its workers have real-time priority.
    pub(crate) real_time: bool,
}

impl Server {
    /// Ours. It listens when this returns.
    pub(crate) fn ours(ours: Ours<'_>) -> Result<Self> {
        let Ours {
            directory,
            cameras,
            simulator,
            real_time,
        } = ours;
        let volume = directory.join("volume");
        std::fs::create_dir_all(&volume)?;
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let wanted = Wanted {
            cameras,
            simulator: &simulator.address,
            directories: &[&volume],
            rtsp: any,
            http: any,
        };
        let text = of_ours(wanted, &format!("real_time = {real_time}")) + WEBRTC;
        let file = directory.join("cameras.toml");
        std::fs::write(&file, text)?;
        let mut child = Command::new(env!("CARGO_BIN_EXE_evenkeel-cameras"))
            .arg("run")
            .arg(&file)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()?;
        let output = child.stdout.take().ok_or("no output")?;
        let (mut rtsp, mut http) = (None, None);
        for line in BufReader::new(output).lines() {
            let line = line?;
            if let Some(address) = line.strip_prefix("listening on rtsp ") {
                rtsp = Some(address.parse()?);
            } else if let Some(address) = line.strip_prefix("watch at http://") {
                http = Some(address.trim_end_matches('/').parse()?);
            } else if line.starts_with("watch at https://") {
                return Err("the interface is asked without TLS here, and has some".into());
            } else if line == "ready" {
                break;
            }
        }
        let rtsp = rtsp.ok_or("the server does not begin")?;
        let http = http.ok_or("the server has no interface for programs")?;
        Ok(Self {
            child,
            rtsp,
            http,
            is_ours: true,
            whep: Some((http, "/api/cameras/")),
        })
    }

    /// MediaMTX by its defaults for recording, with nothing that ours has not. WebRTC costs it
    /// something only where it is used.
    pub(crate) fn mediamtx(
        program: &Path,
        directory: &Path,
        cameras: u32,
        simulator: &Simulator,
        has_webrtc: bool,
    ) -> Result<Self> {
        // It does not say which ports it got.
        let free = || TcpListener::bind("127.0.0.1:0")?.local_addr();
        let (rtsp, http) = (free()?, free()?);
        let wanted = Wanted {
            cameras,
            simulator: &simulator.address,
            directories: &[&directory.join("recordings")],
            rtsp,
            http,
        };
        let asked = free()?;
        let media = UdpSocket::bind("127.0.0.1:0")?.local_addr()?;
        let text = match has_webrtc {
            true => of_mediamtx_with_webrtc(wanted, asked, media),
            false => of_mediamtx(wanted),
        };
        let file = directory.join("mediamtx.yml");
        std::fs::write(&file, text)?;
        let found = std::fs::canonicalize(program)
            .map_err(|error| format!("cannot find {}: {error}", program.display()))?;
        // It leaves a certificate where it is started.
        let child = Command::new(found)
            .current_dir(directory)
            .arg(&file)
            // It makes certificates where it is.
            .current_dir(directory)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .map_err(|error| format!("cannot start {}: {error}", program.display()))?;
        Ok(Self {
            child,
            rtsp,
            http,
            is_ours: false,
            whep: has_webrtc.then_some((asked, "/")),
        })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until all cameras can be watched.
    pub(crate) fn wait(&self, cameras: u32) -> Result<Duration> {
        if self.is_ours {
            let mut api = self.api()?;
            return until("all cameras are live", LIMIT, || {
                let list = api.cameras()?;
                Ok(list.iter().filter(|camera| camera.is_live()).count() == cameras as usize)
            });
        }
        let mut camera = 0;
        until("all cameras can be watched", LIMIT, || {
            while camera < cameras && described(self.rtsp, camera)? {
                camera += 1;
            }
            Ok(camera == cameras)
        })
    }

    /// A connection by HTTP.
    pub(crate) fn api(&self) -> Result<Api> {
        Api::connect(self.http)
    }

    /// Ends it at once.
    pub(crate) fn kill(mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
