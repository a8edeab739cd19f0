//! Answers one connection, and goes on to answer after PLAY.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rtsp_types::{Message, Method, Request, headers};

use super::Shared;
use crate::rtsp::auth::{Algorithm, Checking};
use crate::rtsp::{Frame, Wire};

pub(super) fn serve(shared: &Shared, stream: TcpStream) {
    let _ = stream.set_nodelay(true);
    if let Ok(copy) = stream.try_clone() {
        shared
            .open
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(copy);
    }
    let mut wire = Wire::default();
    let mut part = [0; 4_096];
    let mut plays = false;
    let mut stream = stream;
    while !shared.ends() {
        while let Ok(Some(frame)) = wire.frame() {
            let Frame::Message(Message::Request(request)) = frame else {
                continue;
            };
            let answer = answer(shared, &request);
            // Packets are written by another thread: answers after PLAY go between whole packets
            // only as long as both are short enough for the socket, which a test has to bear.
            let is_sent = plays || stream.write_all(answer.as_bytes()).is_ok();
            if !is_sent || *request.method() == Method::Teardown {
                let _ = stream.shutdown(std::net::Shutdown::Both);
                return;
            }
            if *request.method() == Method::Play && answer.starts_with("RTSP/1.0 200") {
                plays = true;
                let Ok(copy) = stream.try_clone() else { return };
                let url = request.request_uri().map_or("", |url| url.as_str());
                let name = url.trim_end_matches('/').rsplit('/').next();
                let fresh = (copy, name.unwrap_or_default().to_owned());
                shared
                    .fresh
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push(fresh);
                shared.sessions.fetch_add(1, Ordering::Relaxed);
            }
        }
        match stream.read(&mut part) {
            Ok(read @ 1..) => wire.buffer().extend_from_slice(&part[..read]),
            Ok(_) => return,
            // The sender has made the socket non-blocking for itself and for us.
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                std::thread::sleep(std::time::Duration::from_millis(200));
            }
            Err(_) => return,
        }
    }
}

fn answer(shared: &Shared, request: &Request<Vec<u8>>) -> String {
    let cseq = request
        .header(&headers::CSEQ)
        .map_or("0", |value| value.as_str());
    let method: &str = request.method().into();
    if let Some(credentials) = &shared.settings.credentials {
        // The same nonce for all: what is tried here is the client.
        let checking = Checking::new("a camera", [1; 16]);
        let header = request
            .header(&headers::AUTHORIZATION)
            .map(|value| value.as_str());
        let password =
            |user: &str| (user == credentials.user).then(|| credentials.password.clone());
        if checking.check(header, method, password).is_err() {
            let challenge = checking.challenge(Algorithm::Md5);
            return format!(
                "RTSP/1.0 401 Unauthorized\r\nCSeq: {cseq}\r\nWWW-Authenticate: {challenge}\r\n\r\n"
            );
        }
    }
    let url = request.request_uri().map_or("", |url| url.as_str());
    let more = match request.method() {
        Method::Options => {
            "Public: OPTIONS, DESCRIBE, SETUP, PLAY, TEARDOWN, GET_PARAMETER\r\n\r\n".to_owned()
        }
        Method::Describe => {
            let sdp = sdp(shared);
            format!(
                "Content-Base: {url}/\r\nContent-Type: application/sdp\r\n\
                 Content-Length: {}\r\n\r\n{sdp}",
                sdp.len()
            )
        }
        Method::Setup => "Transport: RTP/AVP/TCP;unicast;interleaved=0-1\r\n\
                          Session: 1234;timeout=60\r\n\r\n"
            .to_owned(),
        _ => "Session: 1234\r\n\r\n".to_owned(),
    };
    format!("RTSP/1.0 200 OK\r\nCSeq: {cseq}\r\n{more}")
}

fn sdp(shared: &Shared) -> String {
    let stream = &shared.settings.stream;
    let (sps, pps) = (STANDARD.encode(&stream.sps), STANDARD.encode(&stream.pps));
    format!(
        "v=0\r\no=- 0 0 IN IP4 127.0.0.1\r\ns=camera\r\nc=IN IP4 0.0.0.0\r\nt=0 0\r\n\
         m=video 0 RTP/AVP 96\r\na=rtpmap:96 H264/90000\r\n\
         a=fmtp:96 packetization-mode=1;sprop-parameter-sets={sps},{pps}\r\na=control:track1\r\n"
    )
}
