//! Other times in a fragment that was written earlier, without looking at its samples.

use super::Mp4Error;

/// What is changed in a fragment.
#[derive(Clone, Copy, Debug)]
pub struct Shift {
    /// Its number in the file that it goes into.
    pub number: u32,
    /// How much earlier it is, in microseconds.
    pub earlier_us: i64,
    /// Which of the file's descriptions of the track counts, from 1 on.
    pub description: u32,
}

/// Changes the fragment that begins here. `rates` has the ticks a second of each track, by the
/// track's number in the file less 1. Tracks with none are hidden: their tables become free space.
///
/// # Errors
///
/// It is none of ours, or is damaged.
pub fn shift(fragment: &mut [u8], rates: &[u32], shift: Shift) -> Result<(), Mp4Error> {
    let (kind, moof, _) = split(fragment)?;
    if kind != *b"moof" {
        return Err(Mp4Error::Damaged("it does not begin with its table"));
    }
    let mut rest = moof;
    while !rest.is_empty() {
        let (kind, body, _) = split(rest)?;
        let len = body.len() + 8;
        let hides = match &kind {
            b"mfhd" => {
                put(body, 4, &shift.number.to_be_bytes())?;
                false
            }
            b"traf" => !shift_track(body, rates, shift)?,
            _ => false,
        };
        if hides {
            put(rest, 4, b"free")?;
        }
        rest = &mut rest[len..];
    }
    Ok(())
}

/// Whether the track is shown.
fn shift_track(mut rest: &mut [u8], rates: &[u32], shift: Shift) -> Result<bool, Mp4Error> {
    let mut rate = None;
    while !rest.is_empty() {
        let (kind, body, after) = split(rest)?;
        match &kind {
            b"tfhd" => {
                let number = u32::from_be_bytes(take(body, 4)?);
                let place = usize::try_from(number.wrapping_sub(1)).ok();
                rate = place.and_then(|place| rates.get(place).copied());
                if rate.is_none_or(|rate| rate == 0) {
                    return Ok(false);
                }
                put(body, 8, &shift.description.to_be_bytes())?;
            }
            b"tfdt" => {
                let rate = rate.ok_or(Mp4Error::Damaged("it has a track that the file has not"))?;
                let ticks = i128::from(u64::from_be_bytes(take(body, 4)?));
                let less = i128::from(shift.earlier_us) * i128::from(rate) / 1_000_000;
                let shifted = u64::try_from((ticks - less).max(0)).unwrap_or(u64::MAX);
                put(body, 4, &shifted.to_be_bytes())?;
            }
            _ => {}
        }
        rest = after;
    }
    Ok(true)
}

/// A box: its kind, its body, and what follows it.
type Split<'a> = ([u8; 4], &'a mut [u8], &'a mut [u8]);

/// The first box.
fn split(bytes: &mut [u8]) -> Result<Split<'_>, Mp4Error> {
    let len = u32::from_be_bytes(take(bytes, 0)?) as usize;
    let kind = take(bytes, 4)?;
    if len < 8 || len > bytes.len() {
        return Err(Mp4Error::Damaged("a box in it is longer than the rest"));
    }
    let (this, after) = bytes.split_at_mut(len);
    Ok((kind, &mut this[8..], after))
}

fn take<const N: usize>(bytes: &[u8], at: usize) -> Result<[u8; N], Mp4Error> {
    let found = bytes.get(at..at + N).and_then(|it| it.try_into().ok());
    found.ok_or(Mp4Error::Damaged("a box in it is too short"))
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) -> Result<(), Mp4Error> {
    let place = bytes.get_mut(at..at + value.len());
    place
        .ok_or(Mp4Error::Damaged("a box in it is too short"))?
        .copy_from_slice(value);
    Ok(())
}
