//! Compresses a piece of a body where no worker waits for it.

use std::io;

use evenkeel::Class;
use evenkeel::task::{self, checkpoint, yield_now};

use super::{SLICE_BYTES, Squeeze};

/// So many slices are compressed before others that compute may go on: less than a millisecond,
/// with each coding.
const SLICES: usize = 4;

/// Takes a piece, and adds to `coded` what comes of it; all that was given is given back. More than
/// a slice is compressed by a task that computes. Such a task has no place in the class `urgent`,
/// in which slices are compressed here.
///
/// # Errors
///
/// That of the library, or the task has ended before: it has panicked, or the runtime ends.
pub(crate) async fn push<P>(
    mut squeeze: Box<Squeeze>,
    piece: P,
    mut coded: Vec<u8>,
) -> io::Result<(Box<Squeeze>, P, Vec<u8>)>
where
    P: AsRef<[u8]> + Send + Sync + 'static,
{
    if piece.as_ref().len() <= SLICE_BYTES || task::class() == Some(Class::URGENT) {
        for slice in piece.as_ref().chunks(SLICE_BYTES) {
            squeeze.encoder.push(slice, &mut coded)?;
            checkpoint().await;
        }
        return Ok((squeeze, piece, coded));
    }
    let task = task::Builder::new().name("compress").computes(true);
    let task = task.spawn(async move {
        for slices in piece.as_ref().chunks(SLICES * SLICE_BYTES) {
            for slice in slices.chunks(SLICE_BYTES) {
                squeeze.encoder.push(slice, &mut coded)?;
            }
            yield_now().await;
        }
        Ok((squeeze, piece, coded))
    });
    task.await.map_err(io::Error::other)?
}
