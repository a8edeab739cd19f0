//! The two servers, each as a process by a configuration.

use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::Result;
use super::api::Api;
use super::processes::{Simulator, until};
use super::viewers::described;

/// Nothing takes longer to begin.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// A server at work, which ends with this.
pub(crate) struct Server {
    child: Child,
    pub(crate) rtsp: SocketAddr,
    /// Where ours is asked by HTTP.
    pub(crate) http: Option<SocketAddr>,
}

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
        let mut text = format!(
            "[process]\nreal_time = {real_time}\n\
             [rtsp]\nlisten = \"127.0.0.1:0\"\nsessions_per_client_max = 4000\n\
             sessions_max = 4000\n[watch]\nlisten = \"127.0.0.1:0\"\n\
             [volume.disk]\npath = {volume:?}\nreserve = \"1MiB\"\nsize = \"4GiB\"\n"
        );
        for camera in 0..cameras {
            let address = &simulator.address;
            text += &format!(
                "[camera.cam{camera}]\nurl = \"rtsp://{address}/cam{camera}\"\n\
                 record = {{ volume = \"disk\" }}\n"
            );
        }
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
        Ok(Self { child, rtsp, http })
    }

    /// MediaMTX by its defaults for recording, with nothing that ours has not.
    pub(crate) fn mediamtx(
        program: &Path,
        directory: &Path,
        cameras: u32,
        simulator: &Simulator,
    ) -> Result<Self> {
        // It does not say which port it got.
        let rtsp = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let recordings = directory.join("recordings/%path/%Y-%m-%d_%H-%M-%S-%f");
        let mut text = format!(
            "logLevel: error\nrtspAddress: {rtsp}\nrtspTransports: [tcp]\nrtmp: no\nhls: no\n\
             webrtc: no\nsrt: no\npathDefaults:\n  record: yes\n  recordPath: {}\n\
             \x20 recordSegmentDuration: 60s\npaths:\n",
            recordings.display()
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
        Ok(Self {
            child,
            rtsp,
            http: None,
        })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until all cameras can be watched.
    pub(crate) fn wait(&self, cameras: u32) -> Result<Duration> {
        if self.http.is_some() {
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

    /// A connection to ours by HTTP.
    pub(crate) fn api(&self) -> Result<Api> {
        Api::connect(self.http.ok_or("this server has no such interface")?)
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
