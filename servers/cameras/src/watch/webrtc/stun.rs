//! For whom a question of STUN is (RFC 8489), found before anything is computed for it.

/// What stands at the same place in every message.
const COOKIE: [u8; 4] = [0x21, 0x12, 0xa4, 0x42];
const HEADER: usize = 20;
/// The attribute with both sides' names: the asked one's, a colon, the asking one's.
const USERNAME: u16 = 6;

/// Whether a datagram is of STUN; others are of DTLS, RTP and RTCP (RFC 7983).
pub fn is_stun(datagram: &[u8]) -> bool {
    datagram.len() >= HEADER && datagram[0] < 4 && datagram[4..8] == COOKIE
}

/// The name of the side that is asked.
pub fn asked(datagram: &[u8]) -> Option<&str> {
    if !is_stun(datagram) {
        return None;
    }
    let mut rest = &datagram[HEADER..];
    while let Some((head, after)) = rest.split_first_chunk::<4>() {
        let kind = u16::from_be_bytes([head[0], head[1]]);
        let len = usize::from(u16::from_be_bytes([head[2], head[3]]));
        let value = after.get(..len)?;
        if kind == USERNAME {
            let names = std::str::from_utf8(value).ok()?;
            return names.split_once(':').map(|(asked, _)| asked);
        }
        // Values are filled up to four bytes.
        rest = after.get(len.next_multiple_of(4)..)?;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A question with these attributes.
    fn question(attributes: &[(u16, &[u8])]) -> Vec<u8> {
        let mut bytes = vec![0, 1, 0, 0];
        bytes.extend(COOKIE);
        bytes.extend([7; 12]);
        for (kind, value) in attributes {
            bytes.extend(kind.to_be_bytes());
            bytes.extend((value.len() as u16).to_be_bytes());
            bytes.extend(*value);
            bytes.resize(bytes.len().next_multiple_of(4), 0);
        }
        bytes
    }

    #[test]
    fn the_asked_name_is_found_behind_other_attributes() {
        let bytes = question(&[(0x24, &[1, 2, 3]), (6, b"server:browser"), (8, &[0; 20])]);
        assert_eq!(asked(&bytes), Some("server"));
        assert_eq!(asked(&question(&[(6, b"server")])), None);
        assert_eq!(asked(&question(&[])), None);
        let mut other = bytes.clone();
        other[4] = 0;
        assert_eq!(asked(&other), None);
        for len in 0..HEADER + 16 {
            assert_eq!(asked(&bytes[..len]), None, "{len}");
        }
    }

    proptest! {
        #[test]
        fn nonsense_does_no_harm(rest: Vec<u8>) {
            let mut bytes = question(&[]);
            bytes.extend(rest);
            asked(&bytes);
        }
    }
}
