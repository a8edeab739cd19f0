//! What cameras send: numbered frames of one length, whose loss is seen by whoever reads them.

use bytes::{Buf, BufMut};

/// Bytes of a frame: what one TCP segment carries over Ethernet.
pub(crate) const FRAME_LEN: usize = 1_460;
/// Bytes at its start that say whose it is, which one, and when it was sent.
pub(crate) const HEAD_LEN: usize = 24;
const MARK: [u8; 4] = *b"cam1";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) camera: u32,
    /// Counted by the camera, also if the frame is never sent.
    pub(crate) number: u64,
    /// When it was sent or, if its connection took nothing then, should have been, in nanoseconds
    /// of the clock that all processes of a machine share.
    pub(crate) sent_ns: u64,
}

impl Head {
    pub(crate) fn bytes(self) -> [u8; HEAD_LEN] {
        let mut bytes = [0; HEAD_LEN];
        let mut rest = &mut bytes[..];
        rest.put_slice(&MARK);
        rest.put_u32_le(self.camera);
        rest.put_u64_le(self.number);
        rest.put_u64_le(self.sent_ns);
        bytes
    }

    /// `None` where no frame begins.
    fn read(bytes: &[u8; HEAD_LEN]) -> Option<Head> {
        let mut rest = bytes.strip_prefix(&MARK)?;
        Some(Head {
            camera: rest.get_u32_le(),
            number: rest.get_u64_le(),
            sent_ns: rest.get_u64_le(),
        })
    }
}

/// Nanoseconds since 1970: a clock that programs in every language can read alike.
pub(crate) fn now_ns() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| since.as_nanos() as u64)
}

/// Follows one camera's frames through reads of any size.
#[derive(Debug, Default)]
pub(crate) struct Follower {
    head: [u8; HEAD_LEN],
    /// Bytes of the frame under way that were taken so far.
    at: usize,
    /// Which camera it is, once its first head was read.
    pub(crate) camera: Option<u32>,
    /// The number that the next frame should have; `None` where any will do.
    pub(crate) next: Option<u64>,
    /// Frames that came whole.
    pub(crate) frames: u64,
    /// Frames that should have come before those that did.
    pub(crate) lost: u64,
}

/// What one read brought.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    /// Frames that ended in it.
    pub(crate) frames: u64,
    /// Frames that should have come before one that began in it.
    pub(crate) lost: u64,
    /// When the first frame that began in it was sent.
    pub(crate) sent_ns: Option<u64>,
}

/// Bytes that are no frame, or a frame of another camera, or one that came before.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Broken;

impl Follower {
    /// One that expects a camera's first frame; the default begins wherever its camera is.
    pub(crate) fn from_first() -> Self {
        Follower {
            next: Some(0),
            ..Follower::default()
        }
    }

    pub(crate) fn take(&mut self, mut bytes: &[u8]) -> Result<Seen, Broken> {
        let mut seen = Seen::default();
        while !bytes.is_empty() {
            let len = if self.at < HEAD_LEN {
                let len = bytes.len().min(HEAD_LEN - self.at);
                self.head[self.at..self.at + len].copy_from_slice(&bytes[..len]);
                len
            } else {
                bytes.len().min(FRAME_LEN - self.at)
            };
            bytes = &bytes[len..];
            let headed = self.at >= HEAD_LEN;
            self.at += len;
            if !headed && self.at >= HEAD_LEN {
                self.begin(&mut seen)?;
            }
            if self.at == FRAME_LEN {
                self.at = 0;
                seen.frames += 1;
                self.frames += 1;
            }
        }
        Ok(seen)
    }

    fn begin(&mut self, seen: &mut Seen) -> Result<(), Broken> {
        let head = Head::read(&self.head).ok_or(Broken)?;
        let camera = *self.camera.get_or_insert(head.camera);
        let expected = self.next.unwrap_or(head.number);
        if camera != head.camera || head.number < expected {
            return Err(Broken);
        }
        seen.lost += head.number - expected;
        self.lost += head.number - expected;
        self.next = Some(head.number.saturating_add(1));
        seen.sent_ns.get_or_insert(head.sent_ns);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(numbers: &[u64]) -> Vec<u8> {
        let frame = |&number| {
            let head = Head {
                camera: 7,
                number,
                sent_ns: 100 + number,
            };
            let mut frame = vec![0; FRAME_LEN];
            frame[..HEAD_LEN].copy_from_slice(&head.bytes());
            frame
        };
        numbers.iter().flat_map(frame).collect()
    }

    /// All that was seen when the bytes came in pieces of that length.
    fn followed(bytes: &[u8], piece: usize) -> Result<Seen, Broken> {
        let mut follower = Follower::from_first();
        let mut all = Seen::default();
        for piece in bytes.chunks(piece) {
            let seen = follower.take(piece)?;
            all.frames += seen.frames;
            all.lost += seen.lost;
            all.sent_ns = all.sent_ns.or(seen.sent_ns);
        }
        assert_eq!(follower.camera, Some(7));
        Ok(all)
    }

    #[test]
    fn frames_are_followed_through_reads_of_any_size() {
        let bytes = frames(&[0, 1, 2, 3]);
        for piece in [1, 7, 23, 24, 25, 1_459, 1_460, 1_461, 4_000, 10_000] {
            let seen = followed(&bytes, piece).expect("whole frames");
            let sent_ns = Some(100);
            assert_eq!(
                (seen.frames, seen.lost, seen.sent_ns),
                (4, 0, sent_ns),
                "{piece}"
            );
        }
    }

    #[test]
    fn what_was_never_sent_is_lost_and_half_a_frame_is_none() {
        let bytes = frames(&[1, 2, 5, 6]);
        let seen = followed(&bytes[..4 * FRAME_LEN - 1], 1_000).expect("a gap breaks nothing");
        assert_eq!((seen.frames, seen.lost), (3, 3));
    }

    #[test]
    fn who_joins_misses_nothing_from_before() {
        let mut follower = Follower::default();
        let seen = follower.take(&frames(&[40, 41, 44])).expect("whole frames");
        assert_eq!((seen.frames, seen.lost), (3, 2));
        assert_eq!((follower.next, follower.lost), (Some(45), 2));
    }

    #[test]
    fn what_is_no_frame_or_came_before_is_broken() {
        assert_eq!(followed(&frames(&[3, 3]), 5_000), Err(Broken));
        let mut follower = Follower::from_first();
        assert_eq!(follower.take(&[0; FRAME_LEN]), Err(Broken));
        let mut bytes = frames(&[0, 1]);
        bytes[FRAME_LEN + 4] = 8;
        assert_eq!(Follower::from_first().take(&bytes), Err(Broken));
    }
}
