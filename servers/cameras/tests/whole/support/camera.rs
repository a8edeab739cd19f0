//! A camera whose answers a test chooses, one connection at a time.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cameras::simulator::Stream;

use super::LIMIT;

/// What is answered to a request.
pub(crate) enum Reply {
    /// Status line without the version, headers with their line ends, and a body.
    Answer(String, String, String),
    /// As good cameras answer.
    Usual,
    /// Nothing, and the connection ends.
    End,
}

/// A camera at work.
pub(crate) struct Camera {
    pub(crate) address: SocketAddr,
    ends: Arc<AtomicBool>,
    connections: Arc<AtomicUsize>,
    asked: Arc<Mutex<Vec<String>>>,
    accepting: Option<JoinHandle<()>>,
}

impl Camera {
    /// Answers each request, which is given with its head, and after PLAY sends these packets.
    pub(crate) fn start(
        reply: impl Fn(&str) -> Reply + Send + Sync + 'static,
        packets: Vec<Vec<u8>>,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let ends = Arc::new(AtomicBool::new(false));
        let connections = Arc::new(AtomicUsize::new(0));
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (ended, counted, heard) = (
            Arc::clone(&ends),
            Arc::clone(&connections),
            Arc::clone(&asked),
        );
        let accepting = thread::spawn(move || {
            for stream in listener.incoming() {
                if ended.load(Ordering::SeqCst) {
                    break;
                }
                counted.fetch_add(1, Ordering::SeqCst);
                serve(stream.unwrap(), &reply, &packets, &heard, &ended);
            }
        });
        Self {
            address,
            ends,
            connections,
            asked,
            accepting: Some(accepting),
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("rtsp://{}/stream?channel=1", self.address)
    }

    /// How many connections there have been.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    /// The heads of requests.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

impl Drop for Camera {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::SeqCst);
        drop(TcpStream::connect(self.address));
        if let Some(accepting) = self.accepting.take() {
            let _ = accepting.join();
        }
    }
}

fn serve(
    mut stream: TcpStream,
    reply: &dyn Fn(&str) -> Reply,
    packets: &[Vec<u8>],
    asked: &Mutex<Vec<String>>,
    ends: &AtomicBool,
) {
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    let mut buffer = Vec::new();
    while let Some(head) = head(&mut stream, &mut buffer) {
        asked.lock().unwrap().push(head.clone());
        let cseq = head
            .lines()
            .find_map(|line| line.strip_prefix("CSeq: "))
            .unwrap();
        let (status, headers, body) = match reply(&head) {
            Reply::Answer(status, headers, body) => (status, headers, body),
            Reply::Usual => usual(&head),
            Reply::End => return,
        };
        let mut text = format!("RTSP/1.0 {status}\r\nCSeq: {cseq}\r\n{headers}");
        if !body.is_empty() {
            text += &format!("Content-Length: {}\r\n", body.len());
        }
        let is_sent = stream.write_all(format!("{text}\r\n{body}").as_bytes());
        if is_sent.is_err() {
            return;
        }
        if head.starts_with("PLAY") && status.starts_with("200") {
            for packet in packets {
                let mut bytes = vec![b'$', 0];
                bytes.extend((packet.len() as u16).to_be_bytes());
                bytes.extend(packet);
                if ends.load(Ordering::SeqCst) || stream.write_all(&bytes).is_err() {
                    return;
                }
            }
        }
    }
}

fn usual(head: &str) -> (String, String, String) {
    let ok = "200 OK".to_owned();
    match head.split(' ').next().unwrap() {
        "OPTIONS" => (
            ok,
            "Public: OPTIONS, DESCRIBE, SETUP, PLAY\r\n".to_owned(),
            String::new(),
        ),
        "DESCRIBE" => (
            ok,
            "Content-Type: application/sdp\r\n".to_owned(),
            description(),
        ),
        "SETUP" => {
            let headers = "Transport: RTP/AVP/TCP;unicast;interleaved=0-1\r\nSession: 77\r\n";
            (ok, headers.to_owned(), String::new())
        }
        _ => (ok, "Session: 77\r\n".to_owned(), String::new()),
    }
}

/// The description of a camera with one track.
pub(crate) fn description() -> String {
    let stream = Stream::synthetic(1, 1_000);
    let (sps, pps) = (STANDARD.encode(&stream.sps), STANDARD.encode(&stream.pps));
    format!(
        "v=0\r\no=- 0 0 IN IP4 127.0.0.1\r\ns=camera\r\nt=0 0\r\nm=video 0 RTP/AVP 96\r\n\
         a=rtpmap:96 H264/90000\r\n\
         a=fmtp:96 packetization-mode=1; sprop-parameter-sets={sps},{pps}\r\n\
         a=control:track1\r\n"
    )
}

fn head(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<String> {
    let mut part = [0; 4_096];
    loop {
        while buffer.first() == Some(&b'$') && buffer.len() >= 4 {
            let len = 4 + usize::from(u16::from_be_bytes([buffer[2], buffer[3]]));
            if buffer.len() < len {
                break;
            }
            buffer.drain(..len);
        }
        if let Some(end) = buffer.windows(4).position(|part| part == b"\r\n\r\n") {
            let head = buffer.drain(..end + 4).collect();
            return String::from_utf8(head).ok();
        }
        match stream.read(&mut part) {
            Ok(read @ 1..) => buffer.extend_from_slice(&part[..read]),
            _ => return None,
        }
    }
}
