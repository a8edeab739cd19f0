//! A client of RTSP that says what it is told to say.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;

use rustls::ClientConnection;

use super::LIMIT;

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        let mut found = lines.filter(|(known, _)| known.eq_ignore_ascii_case(name));
        found.next().map(|(_, value)| value)
    }
}

/// A packet of RTP or a report.
#[derive(Debug)]
pub(crate) struct Packet {
    pub(crate) channel: u8,
    pub(crate) bytes: Vec<u8>,
}

impl Packet {
    pub(crate) fn sequence(&self) -> u16 {
        u16::from_be_bytes([self.bytes[2], self.bytes[3]])
    }

    pub(crate) fn timestamp(&self) -> u32 {
        u32::from_be_bytes(self.bytes[4..8].try_into().unwrap())
    }

    pub(crate) fn is_marked(&self) -> bool {
        self.bytes[1] & 0x80 != 0
    }

    /// The type of the NAL unit that it holds or begins.
    pub(crate) fn kind(&self) -> u8 {
        match self.bytes[12] & 0x1f {
            28 => self.bytes[13] & 0x1f,
            kind => kind,
        }
    }
}

pub(crate) struct Client {
    pub(crate) stream: TcpStream,
    tls: Option<Box<ClientConnection>>,
    buffer: Vec<u8>,
    cseq: u32,
    pub(crate) session: Option<String>,
}

impl Client {
    pub(crate) fn connect(address: &str) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        Self {
            stream,
            tls: None,
            buffer: Vec::new(),
            cseq: 0,
            session: None,
        }
    }

    /// The same over TLS.
    pub(crate) fn connect_tls(address: &str, session: ClientConnection) -> Self {
        Self {
            tls: Some(Box::new(session)),
            ..Self::connect(address)
        }
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        match &mut self.tls {
            None => self.stream.write_all(bytes),
            Some(session) => rustls::Stream::new(&mut **session, &mut self.stream).write_all(bytes),
        }
    }

    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        match &mut self.tls {
            None => self.stream.read(into),
            Some(session) => rustls::Stream::new(&mut **session, &mut self.stream).read(into),
        }
    }

    /// Sends a request, with these headers and what follows them, and reads the answer. Packets
    /// before it are left out.
    pub(crate) fn ask(&mut self, method: &str, url: &str, more: &str) -> Answer {
        self.request(method, url, more, "")
    }

    pub(crate) fn request(&mut self, method: &str, url: &str, more: &str, body: &str) -> Answer {
        self.cseq += 1;
        let mut text = format!("{method} {url} RTSP/1.0\r\nCSeq: {}\r\n{more}", self.cseq);
        if let Some(session) = &self.session {
            text += &format!("Session: {session}\r\n");
        }
        if !body.is_empty() {
            text += &format!("Content-Length: {}\r\n", body.len());
        }
        self.write(format!("{text}\r\n{body}").as_bytes()).unwrap();
        let answer = loop {
            self.fill(1);
            if self.buffer[0] != b'$' {
                break self.answer();
            }
            self.packet();
        };
        assert_eq!(answer.header("CSeq"), Some(&*self.cseq.to_string()));
        if let Some(session) = answer.header("Session") {
            self.session = Some(session.split(';').next().unwrap().to_owned());
        }
        answer
    }

    /// From DESCRIBE to PLAY, of the first track.
    pub(crate) fn play(&mut self, url: &str) {
        assert!(self.plays(url), "{url} cannot be played");
    }

    /// The same. Whether all of it went well: a camera may be connecting anew.
    pub(crate) fn plays(&mut self, url: &str) -> bool {
        let transport = "Transport: RTP/AVP/TCP;unicast;interleaved=0-1\r\n";
        self.ask("DESCRIBE", url, "").status == 200
            && self
                .ask("SETUP", &format!("{url}/trackID=0"), transport)
                .status
                == 200
            && self.ask("PLAY", url, "").status == 200
    }

    /// The next packet.
    pub(crate) fn packet(&mut self) -> Packet {
        self.fill(4);
        assert_eq!(self.buffer[0], b'$', "{:?}", self.buffer);
        let channel = self.buffer[1];
        let len = usize::from(u16::from_be_bytes([self.buffer[2], self.buffer[3]]));
        self.fill(4 + len);
        let bytes = self.buffer[4..4 + len].to_vec();
        self.buffer.drain(..4 + len);
        Packet { channel, bytes }
    }

    /// The next packet of media.
    pub(crate) fn media(&mut self) -> Packet {
        loop {
            let packet = self.packet();
            if packet.channel == 0 {
                return packet;
            }
        }
    }

    /// Waits until the connection has ended.
    pub(crate) fn ended(&mut self) {
        let mut part = [0; 4_096];
        let last = loop {
            match self.read(&mut part) {
                Ok(1..) => {}
                last => break last,
            }
        };
        let late = [ErrorKind::WouldBlock, ErrorKind::TimedOut];
        let is_late = last.is_err_and(|error| late.contains(&error.kind()));
        assert!(!is_late, "the connection goes on");
    }

    fn answer(&mut self) -> Answer {
        let end = loop {
            if let Some(end) = self.buffer.windows(4).position(|part| part == b"\r\n\r\n") {
                break end + 4;
            }
            self.fill(self.buffer.len() + 1);
        };
        let head = String::from_utf8(self.buffer[..end].to_vec()).unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let mut answer = Answer {
            status,
            head,
            body: String::new(),
        };
        let len: usize = answer
            .header("Content-Length")
            .map_or(0, |len| len.parse().unwrap());
        self.fill(end + len);
        answer.body = String::from_utf8(self.buffer[end..end + len].to_vec()).unwrap();
        self.buffer.drain(..end + len);
        answer
    }

    fn fill(&mut self, len: usize) {
        let mut part = [0; 16 * 1_024];
        while self.buffer.len() < len {
            let read = self.read(&mut part).unwrap();
            assert_ne!(read, 0, "the connection has ended");
            self.buffer.extend_from_slice(&part[..read]);
        }
    }
}
