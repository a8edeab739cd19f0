//! Long copies to the system's cache, in parts.
//!
//! While the kernel copies for a thread it gives the processor to nobody else, unless it was built
//! to. A MiB mostly takes some 40 us. Where a virtual machine's host has just read the pages to
//! bring them to the disk it takes ten times as long, and a worker that is woken on that processor
//! waits. So each call of the system is to take some 50 us, at the pace of the one before it. Where
//! copying is fast, that is one call more for a MiB.
//!
//! Reads are not cut up: they may wait for the device, which is faster the more it is asked for at
//! a time, and hold no processor meanwhile.

use std::fs::File;
use std::io::{self, IoSlice, Seek, Write};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use crate::clock::Clock;

/// How long one call is to take.
const CALL: Duration = Duration::from_micros(50);
/// How much the first call copies, whose pace is not known.
const FIRST: usize = 128 << 10;
/// The least that a call copies: where so little takes longer, it waits for something else.
const LEAST: usize = 64 << 10;
/// Parts end where pages do: of a page that is written in part, the rest may have to be read.
const PAGE: u64 = 4 << 10;

/// How bytes are written to one file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parts {
    pub(super) clock: Clock,
    /// One call is to do all, as others would see that it was several or each would wait for the
    /// device.
    pub(super) whole: bool,
}

impl Parts {
    /// Writes bytes at an offset until the system takes fewer than it is given. An error is told if
    /// nothing was written before it; else the next write finds it out.
    pub(super) fn write_at(self, file: &File, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.each(offset, bytes.len(), |part| {
            file.write_at(&bytes[part.clone()], offset + part.start as u64)
        })
    }

    /// Writes all bytes at an offset.
    pub(super) fn write_all_at(self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
        all(bytes.len(), |done| {
            self.write_at(file, &bytes[done..], offset + done as u64)
        })
    }

    /// Writes all bytes of several buffers, one after the other, at an offset.
    pub(super) fn write_all_vectored_at(
        self,
        file: &File,
        mut buffers: &mut [IoSlice<'_>],
        offset: u64,
    ) -> io::Result<()> {
        let length = buffers.iter().map(|buffer| buffer.len()).sum();
        all(length, |before| {
            let offset = offset + before as u64;
            self.each(offset, length - before, |part| {
                let slices = first_of(buffers, part.len());
                let count = rustix::io::pwritev(file, &slices, offset + part.start as u64)?;
                IoSlice::advance_slices(&mut buffers, count);
                Ok(count)
            })
        })
    }

    /// Writes all bytes where the file's cursor is.
    pub(super) fn write_all(self, mut file: &File, bytes: &[u8]) -> io::Result<()> {
        let begins_at = match self.whole || bytes.len() <= FIRST {
            true => 0,
            false => file.stream_position()?,
        };
        all(bytes.len(), |done| {
            let rest = &bytes[done..];
            self.each(begins_at + done as u64, rest.len(), |part| {
                file.write(&rest[part])
            })
        })
    }

    /// Has one part after the other written of so many bytes, which go to `offset`, until one is
    /// not written to its end.
    fn each(
        self,
        offset: u64,
        length: usize,
        mut write: impl FnMut(Range<usize>) -> io::Result<usize>,
    ) -> io::Result<usize> {
        let (mut done, mut most) = (0, FIRST);
        loop {
            let end = match self.whole {
                true => length,
                false => end_of_part(offset, done, most).min(length),
            };
            let began = self.clock.cycles();
            match write(done..end) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) if done > 0 => return Ok(done),
                Err(error) => return Err(error),
                Ok(count) => {
                    let took = self.clock.cycles().saturating_sub(began);
                    most = length_in(self.clock.cycles_of(CALL), count, took);
                    done += count;
                }
            }
            if done < end || done == length {
                return Ok(done);
            }
        }
    }
}

/// Where a part ends that begins after `done` bytes from `offset` on and has `most` at most.
fn end_of_part(offset: u64, done: usize, most: usize) -> usize {
    let over = offset.wrapping_add(done as u64).wrapping_add(most as u64) % PAGE;
    done.saturating_add(most) - over as usize
}

/// How much is copied in the time `wanted`, if so much took so long.
fn length_in(wanted: u64, copied: usize, took: u64) -> usize {
    let length = u128::from(wanted) * copied as u128 / u128::from(took.max(1));
    usize::try_from(length).unwrap_or(usize::MAX).max(LEAST)
}

/// Has what is left written until nothing is.
fn all(length: usize, mut write: impl FnMut(usize) -> io::Result<usize>) -> io::Result<()> {
    let mut done = 0;
    while done < length {
        match write(done)? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            count => done += count,
        }
    }
    Ok(())
}

/// The first so many bytes of what the buffers hold together, or as many as one call takes.
fn first_of<'a>(buffers: &'a [IoSlice<'_>], length: usize) -> Vec<IoSlice<'a>> {
    /// `IOV_MAX` of all systems that there are.
    const SLICES_MAX: usize = 1_024;
    let (mut slices, mut left) = (Vec::new(), length);
    for buffer in buffers {
        if left == 0 || slices.len() == SLICES_MAX {
            break;
        }
        let count = buffer.len().min(left);
        if count > 0 {
            slices.push(IoSlice::new(&buffer[..count]));
        }
        left -= count;
    }
    slices
}

#[cfg(test)]
mod tests;
