//! The little of the log server's protocol that appending needs: a frame is its length in four
//! bytes, then so many bytes, all integers least byte first.

/// What a client says first: its kind, the mark, and the versions that it speaks.
pub(crate) const HELLO: [u8; 13] = [9, 0, 0, 0, 0x01, b'E', b'K', b'T', b'L', 1, 0, 1, 0];
/// The answer: kind, version, the largest record, appends under way, the log's two ends.
pub(crate) const WELCOME_LEN: usize = 4 + 27;
/// Length, kind, number of the request.
pub(crate) const APPEND_HEAD_LEN: usize = 4 + 1 + 8;
/// Length, kind, number of the request, number of the record.
pub(crate) const APPENDED_LEN: usize = 4 + 1 + 8 + 8;
/// The largest record that is taken.
pub(crate) const RECORD_MAX: usize = 1_048_576;

const WELCOME: u8 = 0x81;
const APPEND: u8 = 0x02;
const APPENDED: u8 = 0x82;

pub(crate) fn welcome() -> [u8; WELCOME_LEN] {
    let mut frame = [0; WELCOME_LEN];
    frame[0] = 27;
    frame[4] = WELCOME;
    frame[5] = 1;
    frame[7..11].copy_from_slice(&(RECORD_MAX as u32).to_le_bytes());
    frame[11] = 1;
    frame
}

pub(crate) fn append(id: u64, record: &[u8]) -> Vec<u8> {
    let mut frame = Vec::with_capacity(APPEND_HEAD_LEN + record.len());
    frame.extend(((1 + 8 + record.len()) as u32).to_le_bytes());
    frame.push(APPEND);
    frame.extend(id.to_le_bytes());
    frame.extend(record);
    frame
}

/// The request's number and the length of the record that follows; `None` for anything else.
pub(crate) fn read_append(head: [u8; APPEND_HEAD_LEN]) -> Option<(u64, usize)> {
    let (len, rest) = head.split_first_chunk::<4>()?;
    let (kind, id) = rest.split_first()?;
    let record = (u32::from_le_bytes(*len) as usize).checked_sub(1 + 8)?;
    let id = u64::from_le_bytes(id.try_into().ok()?);
    (*kind == APPEND && record <= RECORD_MAX).then_some((id, record))
}

pub(crate) fn appended(id: u64, sequence: u64) -> [u8; APPENDED_LEN] {
    let mut frame = [0; APPENDED_LEN];
    frame[0] = 17;
    frame[4] = APPENDED;
    frame[5..13].copy_from_slice(&id.to_le_bytes());
    frame[13..].copy_from_slice(&sequence.to_le_bytes());
    frame
}

/// Whether this acknowledges the append of that number.
pub(crate) fn acknowledges(frame: &[u8; APPENDED_LEN], id: u64) -> bool {
    frame[..4] == [17, 0, 0, 0] && frame[4] == APPENDED && frame[5..13] == id.to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_append_is_read_as_it_is_written() {
        let frame = append(7, b"record");
        let (head, record) = frame.split_first_chunk().expect("a head");
        assert_eq!(read_append(*head), Some((7, 6)));
        assert_eq!(record, b"record");
        assert!(acknowledges(&appended(7, 40), 7));
        assert!(!acknowledges(&appended(8, 40), 7));
    }

    #[test]
    fn what_is_no_append_is_refused() {
        let head = |len: u32, kind| {
            let mut head = [0; APPEND_HEAD_LEN];
            head[..4].copy_from_slice(&len.to_le_bytes());
            head[4] = kind;
            head
        };
        assert_eq!(read_append(head(9, APPEND)), Some((0, 0)));
        assert_eq!(read_append(head(8, APPEND)), None);
        assert_eq!(read_append(head(9, 3)), None);
        assert_eq!(read_append(head(u32::MAX, APPEND)), None);
    }
}
