//! Trims: the oldest records are removed because somebody says so, and not by what is to be kept.
//!
//! Consumers that have yet to read what would go lose it. So a trim is refused if a named cursor is
//! at a record that would go, unless it is forced. A cursor that is behind the oldest record, or of
//! an earlier epoch, does not count: its consumer is refused already, and has to be put elsewhere.
//!
//! No cursor gets to the disk between the comparison and the moment from which on the records
//! cannot be read. So each change of a cursor is before a trim, and then the trim sees it, or
//! behind it.

use std::fmt::Write as _;
use std::sync::Arc;

use txlog_client::Trim;

use super::cursors::{Held, Places, places_of};
use super::error::expect_within;
use super::list::{list, lost_tail};
use super::maintain::rotate_alone;
use super::mark::MarkFile;
use super::recover::{FIRST_EPOCH, look_at};
use super::retain::segments_before;
use super::write::Rotated;
use super::{Disk, Log, LogError};

/// How many consumers an error names.
const NAMED_MAX: usize = 5;

impl<D: Disk> Log<D> {
    /// As [`trim`](Self::trim), unless consumers have yet to read what would go, by their named
    /// cursors: as these are when the records go, and by what was asked of cursors and is not
    /// written yet. A dry run removes nothing, and returns what would be left.
    ///
    /// # Errors
    ///
    /// As [`trim`](Self::trim); [`LogError::CursorsBehind`], and [`LogError::Cursors`] if the
    /// cursors cannot be read, unless the trim is forced. Then nothing is removed.
    ///
    /// # Cancel safety
    ///
    /// As [`trim`](Self::trim).
    pub async fn trim_unless_read(&self, trim: Trim) -> Result<u64, LogError> {
        let left = self.left_by(trim.before)?;
        if !trim.is_forced {
            // Before anything is done for it.
            self.hold_unread(trim.before).await?;
        }
        match trim.is_dry_run {
            true => Ok(left),
            false => self.give_up(trim.before, trim.is_forced).await,
        }
    }

    /// Keeps named cursors as they are while this is held, if none is at a record that such a trim
    /// would remove.
    async fn hold_unread(&self, before: u64) -> Result<Held<'_, D::File>, LogError> {
        let shared = &self.shared;
        let (held, places) = shared.cursors.hold(shared).await?;
        let (first, left) = (self.first(), self.left_by(before)?);
        for places in &places {
            expect_read(places, shared.epoch, first, left)?;
        }
        Ok(held)
    }

    /// The number of the oldest record that a trim would leave.
    fn left_by(&self, before: u64) -> Result<u64, LogError> {
        let firsts: Vec<u64> = {
            let segments = self.shared.segments();
            segments.iter().map(|segment| segment.first).collect()
        };
        left(&firsts, self.next(), before)
    }

    /// Removes the segments all of whose records have numbers below `before`, and returns the
    /// number of the oldest record that is left. Since segments are removed whole, some records
    /// below `before` may be left; none are if `before` is the next number.
    ///
    /// # Errors
    ///
    /// [`LogError::OutOfRange`] if `before` is beyond the next record; [`LogError::Closed`] if the
    /// last segment had to be followed by a new one, and the log has failed or was closed;
    /// [`LogError::Io`]: the removal is tried again by the next [`retain`](Self::retain).
    ///
    /// # Cancel safety
    ///
    /// Cancel safe, as [`maintain`](Self::maintain).
    pub async fn trim(&self, before: u64) -> Result<u64, LogError> {
        self.give_up(before, true).await
    }

    async fn give_up(&self, before: u64, is_forced: bool) -> Result<u64, LogError> {
        let shared = &self.shared;
        let (first, next) = (self.first(), self.next());
        expect_within(before, first, next)?;
        {
            let active = Arc::clone(&shared.active).lock_owned().await;
            if active.has_records() && before >= active.next {
                if let Some(halt) = shared.halted() {
                    return Err(halt);
                }
                if !active.is_sound {
                    return Err(LogError::Closed);
                }
                if rotate_alone(shared, active).await? == Rotated::PutOff {
                    return Err(shared.put_off().unwrap_or(LogError::Closed));
                }
            }
        }
        let mut doomed = shared.doomed.lock().await;
        let held = match is_forced {
            true => None,
            false => Some(self.hold_unread(before).await?),
        };
        shared.doom(&mut doomed, |segments, _| segments_before(segments, before));
        // Files are removed without it: that may take long, and consumers write their places.
        drop(held);
        shared.remove(doomed).await?;
        Ok(self.first())
    }
}

/// What a trim of a log that no server has would do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WouldTrim {
    /// The oldest record that there is.
    pub first: u64,
    /// The oldest record that would be left.
    pub left: u64,
    /// The number of the next record.
    pub next: u64,
}

/// Says what a trim of a log that no server has open would do, and changes nothing. Records of the
/// last segment are read, and no others.
///
/// # Errors
///
/// As [`Log::open`], and [`Log::trim_unless_read`].
pub async fn would_trim<D: Disk>(disk: &D, trim: Trim) -> Result<WouldTrim, LogError> {
    let mut listed = list(disk).await?;
    let mark = listed.take_mark()?;
    let (Some(oldest), Some(last)) = (listed.segments.first(), listed.segments.last()) else {
        return Err(LogError::NoLog);
    };
    let walked = look_at(disk, last, listed.unfinished.is_some(), None).await?;
    let (first, next) = (oldest.first, walked.next);
    lost_tail(mark.as_ref(), next, walked.damage)?;
    let segments = listed.segments.iter();
    let firsts: Vec<u64> = segments.map(|segment| segment.first).collect();
    let left = left(&firsts, next, trim.before)?;
    if !trim.is_forced {
        let epoch = mark.as_ref().map(|mark| MarkFile::last(mark).epoch);
        let places = places_of(disk, listed.log_id).await?;
        expect_read(&places, epoch.unwrap_or(FIRST_EPOCH), first, left)?;
    }
    Ok(WouldTrim { first, left, next })
}

/// The oldest record that is left of segments with these first records: segments go whole, and the
/// last one is followed by a new one if all of its records go.
fn left(firsts: &[u64], next: u64, before: u64) -> Result<u64, LogError> {
    let first = firsts.first().copied().unwrap_or(next);
    expect_within(before, first, next)?;
    let whole = firsts.iter().rev().find(|first| **first <= before);
    Ok(match before == next {
        true => next,
        false => whole.copied().unwrap_or(first),
    })
}

/// Refuses to remove the records from `first` up to `left` if a cursor is at one of them.
fn expect_read(places: &Places, epoch: u64, first: u64, left: u64) -> Result<(), LogError> {
    let at = |sequence: u64| match sequence {
        // Whatever is the oldest.
        0 => first,
        sequence => sequence,
    };
    let behind = places.iter().filter(|(_, place)| place.epoch == epoch);
    let behind = behind.map(|(name, place)| (at(place.sequence), name));
    let mut behind: Vec<_> = behind
        .filter(|(sequence, _)| (first..left).contains(sequence))
        .collect();
    if behind.is_empty() {
        return Ok(());
    }
    behind.sort_unstable();
    let mut names = String::new();
    for (at, (sequence, name)) in behind.iter().take(NAMED_MAX).enumerate() {
        let comma = if at > 0 { ", " } else { "" };
        // A string takes whatever is written.
        let _ = write!(names, "{comma}{name} (at {sequence})");
    }
    if let Some(others @ 1..) = behind.len().checked_sub(NAMED_MAX) {
        let _ = write!(names, " and {others} more");
    }
    Err(LogError::CursorsBehind { names, left })
}

#[cfg(test)]
mod tests {
    use super::super::cursors::Place;
    use super::*;

    #[test]
    fn segments_go_whole_and_all_records_only_if_that_is_asked_for() {
        let firsts = [11, 21, 31];
        let left = |before| left(&firsts, 35, before).unwrap();
        assert_eq!([left(0), left(11), left(20)], [11, 11, 11]);
        assert_eq!([left(21), left(30), left(31), left(34)], [21, 21, 31, 31]);
        assert_eq!(left(35), 35);
        let error = super::left(&firsts, 35, 36).unwrap_err();
        assert!(
            matches!(
                error,
                LogError::OutOfRange {
                    sequence: 36,
                    first: 11,
                    next: 35
                }
            ),
            "{error}"
        );
        assert_eq!(super::left(&[1], 1, 1).unwrap(), 1, "an empty log");
    }

    #[test]
    fn those_who_have_yet_to_read_what_would_go_are_named() {
        let place = |epoch, sequence| Place { epoch, sequence };
        let mut places = Places::from([
            ("behind".to_owned(), place(2, 10)),
            ("earlier".to_owned(), place(1, 15)),
            ("beyond".to_owned(), place(2, 21)),
        ]);
        expect_read(&places, 2, 11, 21).unwrap();
        places.insert("billing".to_owned(), place(2, 20));
        places.insert("new".to_owned(), place(2, 0));
        let error = expect_read(&places, 2, 11, 21).unwrap_err().to_string();
        assert!(error.contains("new (at 11), billing (at 20)"), "{error}");
        assert!(error.contains("the records before 21"), "{error}");
        expect_read(&places, 2, 11, 11).unwrap();
        for number in 0..9 {
            places.insert(format!("c{number}"), place(2, 12));
        }
        let error = expect_read(&places, 2, 11, 21).unwrap_err().to_string();
        assert!(error.contains(" and 6 more"), "{error}");
        assert!(error.contains("--force"), "{error}");
    }
}
