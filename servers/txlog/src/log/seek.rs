//! Finding records by their time.
//!
//! A record's time is that of the machine when its batch was written. If the clock is put back,
//! times step back as well. The rule:
//!
//! - A file is passed over if it was followed by a new one before the time that is looked for, and
//!   its last record is older, as far as that is known.
//! - In the others, the first record of that time or later is the answer.
//!
//! So with a clock that is never put back, it is the first such record of the log. Otherwise there
//! may be records of that time or later before it, in files that were passed over, but never in its
//! own file.

use std::io::ErrorKind::NotFound;
use std::sync::Arc;

use super::scan::{At, Window};
use super::segment::Segment;
use super::{Disk, DiskFile, LogError, Shared};

/// How much is read from a file at a time.
const WINDOW_BYTES: usize = 128 * 1024;

/// The number of the first record of this time or later, or of the next one to come.
pub(super) async fn seek<D: Disk>(shared: &Shared<D>, time_ms: u64) -> Result<u64, LogError> {
    let next = *shared.next.borrow();
    let segments = shared.segments().clone();
    // This looks at no file: there are some hundred segments at most, in memory.
    let begin = (0..segments.len()).find(|&at| is_reached(&segments[at..], time_ms));
    let segments = &segments[begin.unwrap_or(segments.len())..];
    for (at, segment) in segments.iter().enumerate() {
        let following = segments.get(at + 1).map(|segment| segment.first);
        let end = following.map_or(next, |following| following.min(next));
        let file = match shared.readers.open(&shared.disk, segment).await {
            // It was removed meanwhile.
            Err(error) if error.kind() == NotFound && segment.first < shared.first() => continue,
            opened => opened.map_err(LogError::io("open", &segment.name))?,
        };
        if let Some(found) = seek_in(&*file, segment, (end, following), time_ms).await? {
            return Ok(found);
        }
    }
    Ok(next)
}

/// Whether the first of these segments may have a record of this time or later.
fn is_reached<F>(segments: &[Arc<Segment<F>>], time_ms: u64) -> bool {
    let Some(following) = segments.get(1) else {
        return true;
    };
    let newest_ms = segments[0].newest_ms().unwrap_or(0);
    following.head.created_ms.max(newest_ms) >= time_ms
}

/// The first record of this time or later, of those before `end`.
async fn seek_in<F: DiskFile>(
    file: &F,
    segment: &Segment<F>,
    (end, following): (u64, Option<u64>),
    time_ms: u64,
) -> Result<Option<u64>, LogError> {
    let (mut sequence, mut offset) = segment.place_before(segment.first);
    let mut window = Window::with_bytes(file, offset, WINDOW_BYTES);
    let failed = LogError::io("read", &segment.name);
    while sequence < end {
        let found = window.look(offset, sequence, segment.head.seal()).await;
        let found = match found.map_err(&failed)? {
            At::Record(found) => found,
            At::End => return Err(segment.corrupt((offset, sequence), None, following)),
            At::Damage(damage) => {
                return Err(segment.corrupt((offset, sequence), Some(damage), following));
            }
        };
        if found.header.time_ms >= time_ms {
            return Ok(Some(sequence));
        }
        segment.remember(sequence, offset);
        offset = found.end();
        sequence += 1;
        // A file may have millions of records.
        evenkeel::task::checkpoint().await;
    }
    Ok(None)
}
