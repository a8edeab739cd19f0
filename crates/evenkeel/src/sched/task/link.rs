//! What an injection queue needs of its entries.
#![allow(
    unsafe_code,
    reason = "entries promise to keep their link in one place"
)]

use crate::sync::atomic::AtomicPtr;

/// An entry of an injection queue: it has room for the link to the next entry.
///
/// # Safety
///
/// `link` must return the same location every time, and only the injection queue may touch that
/// location while the entry is in it.
pub(crate) unsafe trait Link: Sized {
    fn link(&self) -> &AtomicPtr<Self>;

    /// Since when it is ready, in cycles, for statistics; 0 if it does not say.
    fn since(&self) -> u64 {
        0
    }
}
