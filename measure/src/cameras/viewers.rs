//! Those who watch by RTSP.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::Duration;

use super::{LIMIT, Result};

/// Whether a camera can be watched.
///
/// # Errors
///
/// There is no answer, or none that can be read.
pub fn described(rtsp: SocketAddr, camera: u32) -> Result<bool> {
    let Ok(mut stream) = TcpStream::connect(rtsp) else {
        return Ok(false);
    };
    stream.set_read_timeout(Some(LIMIT))?;
    let url = format!("rtsp://{rtsp}/cam{camera}");
    Ok(ask(&mut stream, "DESCRIBE", &url, "")?.starts_with("RTSP/1.0 200"))
}

/// Watches a camera on a thread of its own, which ends with the server.
///
/// # Errors
///
/// The server does not let it.
pub fn watch(rtsp: SocketAddr, camera: u32) -> Result<()> {
    let mut stream = TcpStream::connect(rtsp)?;
    stream.set_read_timeout(Some(LIMIT))?;
    let url = format!("rtsp://{rtsp}/cam{camera}");
    let described = ask(&mut stream, "DESCRIBE", &url, "")?;
    // Servers differ in how they name tracks.
    let control = described
        .lines()
        .filter_map(|line| line.strip_prefix("a=control:"))
        .next_back()
        .ok_or_else(|| format!("DESCRIBE is answered with {described}"))?;
    let track = if control.starts_with("rtsp:") {
        control.to_owned()
    } else {
        format!("{url}/{control}")
    };
    let transport = "Transport: RTP/AVP/TCP;unicast;interleaved=0-1\r\n";
    let answer = ask(&mut stream, "SETUP", &track, transport)?;
    let session = answer
        .lines()
        .find_map(|line| line.strip_prefix("Session: "));
    let session = session.ok_or_else(|| format!("SETUP is answered with {answer}"))?;
    let session = session.split(';').next().unwrap_or_default().trim();
    ask(
        &mut stream,
        "PLAY",
        &url,
        &format!("Session: {session}\r\n"),
    )?;
    thread::spawn(move || {
        let mut part = vec![0; 256 << 10];
        while let Ok(1..) = stream.read(&mut part) {
            // As a viewer that shows pictures, and not each packet.
            thread::sleep(Duration::from_millis(30));
        }
    });
    Ok(())
}

/// The answer to a request of RTSP, with its body.
///
/// # Errors
///
/// There is none, or none that can be read.
pub fn ask(stream: &mut TcpStream, method: &str, url: &str, more: &str) -> Result<String> {
    let request = format!("{method} {url} RTSP/1.0\r\nCSeq: 1\r\n{more}\r\n");
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    let mut byte = [0];
    while !answer.ends_with(b"\r\n\r\n") && stream.read(&mut byte)? > 0 {
        answer.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&answer).to_ascii_lowercase();
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length:"));
    let length = length.map_or(Ok(0), |length| length.trim().parse())?;
    let mut body = vec![0; length];
    stream.read_exact(&mut body)?;
    answer.extend(body);
    Ok(String::from_utf8(answer)?)
}
