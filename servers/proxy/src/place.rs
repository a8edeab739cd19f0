//! Memory for one value, which is made where it stays.
//!
//! [`Box::new`] makes the value on the stack and moves it, as it could not be dropped otherwise if
//! there were no memory. A future of some kilobytes was copied so for each request, though all but
//! a few words of it are still unused.

use std::pin::Pin;

/// The value, in memory of its own.
pub(crate) fn in_place<T>(make: impl FnOnce() -> T) -> Box<T> {
    Box::write(Box::new_uninit(), make())
}

/// The same, pinned.
pub(crate) fn pinned<T>(make: impl FnOnce() -> T) -> Pin<Box<T>> {
    Box::into_pin(in_place(make))
}
