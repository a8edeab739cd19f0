//! Where a task was spawned and the name it was given, in one word of its header: few tasks have
//! names, and a program may have a million tasks.
#![allow(
    unsafe_code,
    reason = "a pointer whose lowest bit says what it points to"
)]

use std::panic::Location;
use std::ptr::NonNull;

/// Points to a `Location`, or, with `NAMED` in its address, to a `Named` that it owns.
pub(super) struct Origin(NonNull<()>);

struct Named {
    name: &'static str,
    spawned_at: &'static Location<'static>,
}

const NAMED: usize = 1;
// Neither's address has that bit itself.
const _: () = assert!(align_of::<Named>() > NAMED && align_of::<Location<'static>>() > NAMED);

// SAFETY: both are `Send` and `Sync`, are never changed, and `Named` is freed by the last owner.
unsafe impl Send for Origin {}
// SAFETY: as above.
unsafe impl Sync for Origin {}

impl Origin {
    pub(super) fn new(spawned_at: &'static Location<'static>, name: Option<&'static str>) -> Self {
        match name {
            None => Self(NonNull::from(spawned_at).cast()),
            Some(name) => Self::named(Named { name, spawned_at }),
        }
    }

    #[cold]
    fn named(named: Named) -> Self {
        let pointer = NonNull::from(Box::leak(Box::new(named))).cast::<()>();
        Self(pointer.map_addr(|address| address | NAMED))
    }

    /// The name and its place, if there is one.
    #[inline]
    fn as_named(&self) -> Option<NonNull<Named>> {
        let pointer = self.0.as_ptr();
        let plain = pointer.map_addr(|address| address & !NAMED);
        (plain != pointer)
            .then(|| NonNull::new(plain.cast()))
            .flatten()
    }

    #[inline]
    pub(super) fn spawned_at(&self) -> &'static Location<'static> {
        match self.as_named() {
            // SAFETY: without the bit it points to a `Location` that is never freed.
            None => unsafe { self.0.cast().as_ref() },
            // SAFETY: with the bit it points to a `Named` that lives as long as this does.
            Some(named) => unsafe { named.as_ref() }.spawned_at,
        }
    }

    #[inline]
    pub(super) fn name(&self) -> Option<&'static str> {
        // SAFETY: as in `spawned_at`.
        self.as_named().map(|named| unsafe { named.as_ref() }.name)
    }
}

impl Drop for Origin {
    #[inline]
    fn drop(&mut self) {
        if let Some(named) = self.as_named() {
            // SAFETY: it was leaked in `named`, and its owner frees it once.
            drop(unsafe { Box::from_raw(named.as_ptr()) });
        }
    }
}

#[cfg(all(test, not(evenkeel_loom)))]
mod tests {
    use super::*;
    use std::ptr;

    #[test]
    fn a_word_says_where_and_by_which_name() {
        let here = Location::caller();
        let plain = Origin::new(here, None);
        assert!(ptr::eq(plain.spawned_at(), here));
        assert_eq!(plain.name(), None);
        let named = Origin::new(here, Some("a name"));
        assert!(ptr::eq(named.spawned_at(), here));
        assert_eq!(named.name(), Some("a name"));
        assert_eq!(size_of::<Origin>(), 8);
    }
}
