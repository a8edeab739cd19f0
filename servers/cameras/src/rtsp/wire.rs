//! Takes a stream of bytes apart: messages, and packets between them (RFC 2326, section 10.12).

use bytes::{Buf, Bytes, BytesMut};
use rtsp_types::{Message, ParseError};

/// The longest head of a message.
pub const HEAD_MAX: usize = 16 << 10;
/// The longest body of a message: descriptions of streams have some kilobytes.
pub const BODY_MAX: usize = 64 << 10;

/// The byte before a packet.
const PACKET: u8 = b'$';
/// What comes before a packet: that byte, the channel and the length.
const PACKET_HEAD: usize = 4;

/// What came.
#[derive(Debug)]
pub enum Frame {
    /// A packet.
    Packet {
        /// Its channel.
        channel: u8,
        /// Its bytes, a slice of what was received.
        bytes: Bytes,
    },
    /// A request or a response.
    Message(Message<Vec<u8>>),
}

/// Why a stream cannot be read on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WireError {
    /// A message has a head without an end.
    #[error("a message of RTSP has a head of more than {HEAD_MAX} bytes")]
    Head,
    /// A message has a body that is too long.
    #[error("a message of RTSP has a body of {0} bytes; at most {BODY_MAX} are taken")]
    Body(u64),
    /// What came is no message.
    #[error("what came is neither a message of RTSP nor a packet: {0:?}")]
    Nonsense(String),
}

/// Takes the stream apart. Bytes are read into [`buffer`](Self::buffer).
#[derive(Debug, Default)]
pub struct Wire {
    buffer: BytesMut,
    /// Up to where there is no end of a head.
    searched: usize,
    /// How long the last frame was.
    len: usize,
}

impl Wire {
    /// Where the next bytes of the stream go: at the end.
    pub fn buffer(&mut self) -> &mut BytesMut {
        &mut self.buffer
    }

    /// The next frame; `None` until more has come.
    ///
    /// # Errors
    ///
    /// [`WireError`]: the stream cannot be read on.
    pub fn frame(&mut self) -> Result<Option<Frame>, WireError> {
        while self.searched == 0 && matches!(self.buffer.first(), Some(b'\r' | b'\n')) {
            self.buffer.advance(1);
        }
        match self.buffer.first() {
            None => Ok(None),
            Some(&PACKET) => Ok(self.packet()),
            Some(_) => self.message(),
        }
    }

    /// The bytes that the last [`frame`](Self::frame) had in the stream.
    pub fn frame_len(&self) -> usize {
        self.len
    }

    fn packet(&mut self) -> Option<Frame> {
        let &[_, channel, high, low] = self.buffer.first_chunk::<PACKET_HEAD>()?;
        let len = usize::from(u16::from_be_bytes([high, low]));
        if self.buffer.len() < PACKET_HEAD + len {
            return None;
        }
        self.len = PACKET_HEAD + len;
        self.buffer.advance(PACKET_HEAD);
        let bytes = self.buffer.split_to(len).freeze();
        Some(Frame::Packet { channel, bytes })
    }

    fn message(&mut self) -> Result<Option<Frame>, WireError> {
        // First, so that it does not matter whether more has come.
        self.plausible()?;
        let from = self.searched.saturating_sub(3);
        let rest = &self.buffer[from..];
        let Some(end) = rest.windows(4).position(|window| window == b"\r\n\r\n") else {
            self.searched = self.buffer.len();
            if self.searched > HEAD_MAX {
                return Err(WireError::Head);
            }
            return Ok(None);
        };
        let head = from + end + 4;
        if head > HEAD_MAX {
            return Err(WireError::Head);
        }
        let body = body_len(&self.buffer[..head]).ok_or_else(|| self.nonsense())?;
        if body > BODY_MAX as u64 {
            return Err(WireError::Body(body));
        }
        let len = head + body as usize;
        if self.buffer.len() < len {
            // The end of the head is found again at once.
            self.searched = from + end;
            return Ok(None);
        }
        self.searched = 0;
        match Message::parse(&self.buffer[..len]) {
            Ok((message, used)) if used == len => {
                self.len = len;
                self.buffer.advance(len);
                Ok(Some(Frame::Message(message)))
            }
            Ok(_) | Err(ParseError::Error | ParseError::Incomplete(_)) => Err(self.nonsense()),
        }
    }

    /// Whether it may become a message: so that nonsense is not waited for.
    fn plausible(&self) -> Result<(), WireError> {
        if self.buffer[0].is_ascii_alphabetic() {
            Ok(())
        } else {
            Err(self.nonsense())
        }
    }

    fn nonsense(&self) -> WireError {
        let shown = self.buffer.len().min(60);
        WireError::Nonsense(self.buffer[..shown].escape_ascii().to_string())
    }
}

/// The length of the body; `None` if it is said, and no number.
fn body_len(head: &[u8]) -> Option<u64> {
    for line in head.split(|&byte| byte == b'\n') {
        let mut parts = line.splitn(2, |&byte| byte == b':');
        let (Some(name), Some(value)) = (parts.next(), parts.next()) else {
            continue;
        };
        if name.eq_ignore_ascii_case(b"content-length") {
            return std::str::from_utf8(value).ok()?.trim().parse().ok();
        }
    }
    Some(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn frames(wire: &mut Wire) -> Result<Vec<String>, WireError> {
        let mut frames = Vec::new();
        while let Some(frame) = wire.frame()? {
            frames.push(match frame {
                Frame::Packet { channel, bytes } => format!("{channel}:{bytes:?}"),
                Frame::Message(Message::Request(request)) => {
                    format!("{:?} {:?}", request.method(), request.body())
                }
                Frame::Message(message) => format!("{message:?}"),
            });
        }
        Ok(frames)
    }

    const STREAM: &[u8] = b"\r\nOPTIONS * RTSP/1.0\r\nCSeq: 1\r\n\r\n$\x02\0\x03abc\
        ANNOUNCE rtsp://a/b RTSP/1.0\r\ncontent-length: 4\r\n\r\nv=0\n$\0\0\0\
        SETUP rtsp://a/b RTSP/1.0\r\n\r\n";

    fn whole() -> Vec<String> {
        let mut wire = Wire::default();
        wire.buffer().extend_from_slice(STREAM);
        frames(&mut wire).unwrap()
    }

    #[test]
    fn messages_and_packets_are_told_apart() {
        assert_eq!(
            whole(),
            [
                "Options []",
                "2:b\"abc\"",
                "Announce [118, 61, 48, 10]",
                "0:b\"\"",
                "Setup []"
            ]
        );
    }

    #[test]
    fn what_is_too_long_or_nonsense_is_refused() {
        let refused = |bytes: &[u8]| {
            let mut wire = Wire::default();
            wire.buffer().extend_from_slice(bytes);
            frames(&mut wire).unwrap_err()
        };
        let endless = [b"OPTIONS * RTSP/1.0\r\nX: ", &[b'x'; HEAD_MAX][..]].concat();
        assert_eq!(refused(&endless), WireError::Head);
        let head = b"DESCRIBE rtsp://a RTSP/1.0\r\nContent-Length: 99999999999\r\n\r\n";
        assert_eq!(refused(head), WireError::Body(99_999_999_999));
        for nonsense in [
            &b"\x16\x03\x01"[..],
            b"GET / HTTP/1.1\r\n\r\n",
            b"1OPTIONS * RTSP/1.0\r\n\r\n",
            b"DESCRIBE rtsp://a RTSP/1.0\r\nContent-Length: -1\r\n\r\n",
        ] {
            assert!(matches!(refused(nonsense), WireError::Nonsense(_)));
        }
    }

    proptest! {
        #[test]
        fn it_does_not_matter_how_bytes_arrive(cuts in prop::collection::vec(1..40_usize, 1..60)) {
            let mut wire = Wire::default();
            let mut read = Vec::new();
            let mut rest = STREAM;
            for cut in cuts.iter().cycle() {
                let (part, left) = rest.split_at((*cut).min(rest.len()));
                wire.buffer().extend_from_slice(part);
                read.extend(frames(&mut wire).unwrap());
                rest = left;
                if rest.is_empty() {
                    break;
                }
            }
            prop_assert_eq!(read, whole());
        }

        #[test]
        fn nonsense_does_no_harm(bytes: Vec<u8>) {
            let mut wire = Wire::default();
            wire.buffer().extend_from_slice(&bytes);
            let _ = frames(&mut wire);
        }
    }
}
