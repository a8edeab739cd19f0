//! What is written into the files of both servers, so that they do the same.

use std::fmt::Write;
use std::net::SocketAddr;
use std::path::Path;

/// What a server is to do: receive these cameras, record them, and pass them on.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// They are named `cam0` and so on.
    pub cameras: u32,
    /// Where they are asked.
    pub simulator: &'a str,
    /// Where they are recorded: each camera into the next one of these, in turn.
    pub directories: &'a [&'a Path],
    /// Where viewers connect.
    pub rtsp: SocketAddr,
    /// Where programs ask.
    pub http: SocketAddr,
}

/// Of evenkeel-cameras. `process` is more of the section of this name.
pub fn of_ours(wanted: Wanted<'_>, process: &str) -> String {
    let (rtsp, http) = (wanted.rtsp, wanted.http);
    let mut text = format!(
        "[process]\n{process}\n\
         [rtsp]\nlisten = \"{rtsp}\"\nsessions_per_client_max = 4000\nsessions_max = 4000\n\
         [watch]\nlisten = \"{http}\"\n"
    );
    for (volume, path) in wanted.directories.iter().enumerate() {
        let _ = write!(
            text,
            "[volume.disk{volume}]\npath = {path:?}\nreserve = \"1MiB\"\nsize = \"4GiB\"\n"
        );
    }
    for camera in 0..wanted.cameras {
        let (address, volume) = (wanted.simulator, wanted.volume(camera));
        let _ = write!(
            text,
            "[camera.cam{camera}]\nurl = \"rtsp://{address}/cam{camera}\"\n\
             record = {{ volume = \"disk{volume}\" }}\n"
        );
    }
    text
}

/// Of MediaMTX by its defaults for recording, with nothing that ours has not.
pub fn of_mediamtx(wanted: Wanted<'_>) -> String {
    mediamtx(wanted, "webrtc: no\n")
}

/// The same with WebRTC: where it is asked over HTTP, and where its datagrams go.
pub fn of_mediamtx_with_webrtc(wanted: Wanted<'_>, asked: SocketAddr, media: SocketAddr) -> String {
    let host = media.ip();
    let webrtc = format!(
        "webrtc: yes\nwebrtcAddress: {asked}\nwebrtcLocalUDPAddress: {media}\n\
         webrtcIPsFromInterfaces: no\nwebrtcAdditionalHosts: [{host}]\n"
    );
    mediamtx(wanted, &webrtc)
}

fn mediamtx(wanted: Wanted<'_>, webrtc: &str) -> String {
    let (rtsp, http) = (wanted.rtsp, wanted.http);
    let mut text = format!(
        "logLevel: error\nrtspAddress: {rtsp}\nrtspTransports: [tcp]\nrtmp: no\nhls: no\n\
         {webrtc}srt: no\napi: yes\napiAddress: {http}\npathDefaults:\n  record: yes\n\
         \x20 recordSegmentDuration: 60s\npaths:\n"
    );
    for camera in 0..wanted.cameras {
        let address = wanted.simulator;
        let directory = wanted.directories[wanted.volume(camera)].display();
        let _ = write!(
            text,
            "  cam{camera}:\n    source: rtsp://{address}/cam{camera}\n    \
             rtspTransport: tcp\n    \
             recordPath: {directory}/%path/%Y-%m-%d_%H-%M-%S-%f\n"
        );
    }
    text
}

impl Wanted<'_> {
    /// Which of the directories a camera is recorded into.
    pub fn volume(&self, camera: u32) -> usize {
        camera as usize % self.directories.len().max(1)
    }
}
