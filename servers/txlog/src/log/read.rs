//! Reading durable records by their number.

use std::io;

use txlog_client::Record;

use super::error::expect_within;
use super::scan::{At, Window};
use super::segment::Segment;
use super::{Disk, LogError, Shared};

/// How much is read from a file at a time.
const WINDOW_BYTES: usize = 128 * 1024;

/// The limits of one read.
#[derive(Clone, Copy, Debug)]
pub struct ReadLimits {
    /// The most records.
    pub records_max: usize,
    /// The most bytes of payload; a single record may have more.
    pub bytes_max: usize,
}

impl Default for ReadLimits {
    fn default() -> Self {
        Self {
            records_max: 10_000,
            bytes_max: 1 << 20,
        }
    }
}

/// The records that have been read, and the room that is left.
struct Taken {
    records: Vec<Record>,
    bytes: usize,
    limits: ReadLimits,
}

impl Taken {
    fn has_room_for(&self, bytes: usize) -> bool {
        self.records.len() < self.limits.records_max
            && (self.records.is_empty() || self.bytes + bytes <= self.limits.bytes_max)
    }
}

pub(super) async fn read<D: Disk>(
    shared: &Shared<D>,
    from: u64,
    limits: ReadLimits,
) -> Result<Vec<Record>, LogError> {
    let next = *shared.next.borrow();
    let (segments, first) = {
        let all = shared.segments();
        let first = all.first().map_or(1, |segment| segment.first);
        let from = if from == 0 { first } else { from };
        let skip = all.partition_point(|segment| segment.first <= from);
        (all[skip.saturating_sub(1)..].to_vec(), first)
    };
    let from = if from == 0 { first } else { from };
    if from < first {
        let sequence = from;
        return Err(LogError::Trimmed { sequence, first });
    }
    expect_within(from, first, next)?;
    let mut taken = Taken {
        records: Vec::new(),
        bytes: 0,
        limits,
    };
    let mut sequence = from;
    for (at, segment) in segments.iter().enumerate() {
        let following = segments.get(at + 1).map(|segment| segment.first);
        let end = following.map_or(next, |following| following.min(next));
        if sequence >= end {
            continue;
        }
        let file = shared.readers.open(&shared.disk, segment).await;
        let file = file.map_err(|error| gone(shared, segment, sequence, error))?;
        if !read_segment(&*file, segment, (sequence, end, following), &mut taken).await? {
            break;
        }
        sequence = end;
    }
    Ok(taken.records)
}

/// Why a segment cannot be opened: it may have been removed since it was looked for.
fn gone<D: Disk>(
    shared: &Shared<D>,
    segment: &Segment<D::File>,
    sequence: u64,
    error: io::Error,
) -> LogError {
    let first = shared.first();
    if error.kind() == io::ErrorKind::NotFound && segment.first < first {
        return LogError::Trimmed { sequence, first };
    }
    LogError::io("open", &segment.name)(error)
}

/// Reads the records from `from` up to `end`. Returns whether there is room for more.
async fn read_segment<F: super::DiskFile>(
    file: &F,
    segment: &Segment<F>,
    (from, end, following): (u64, u64, Option<u64>),
    taken: &mut Taken,
) -> Result<bool, LogError> {
    let (mut sequence, mut offset) = segment.place_before(from);
    let (mut window, seal) = (
        Window::with_bytes(file, offset, WINDOW_BYTES),
        segment.head.seal(),
    );
    let failed = LogError::io("read", &segment.name);
    while sequence < end {
        let found = match window.look(offset, sequence, seal).await.map_err(&failed)? {
            At::Record(found) => found,
            At::End => return Err(segment.corrupt((offset, sequence), None, following)),
            At::Damage(damage) => {
                return Err(segment.corrupt((offset, sequence), Some(damage), following));
            }
        };
        segment.remember(sequence, offset);
        if sequence >= from {
            let payload = found.payload();
            if !taken.has_room_for(payload.len()) {
                return Ok(false);
            }
            taken.bytes += payload.len();
            taken.records.push(Record {
                sequence,
                time_ms: found.header.time_ms,
                payload,
            });
        }
        offset = found.end();
        sequence += 1;
        evenkeel::task::checkpoint().await;
    }
    Ok(true)
}
