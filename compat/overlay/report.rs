//! What is known of a task's spawn site, and what is left to Tokio, for reports.

pub(crate) use evenkeel::drop_in::LeftToTokio;
use std::cell::Cell;
use std::panic::Location;

thread_local! {
    /// Where a task is about to be spawned. Tokio hands it down only where it traces tasks.
    static SITE: Cell<Option<&'static Location<'static>>> = const { Cell::new(None) };
}

/// A task is about to be spawned at this place.
#[inline]
pub(crate) fn note_spawn_site(site: &'static Location<'static>) {
    _ = SITE.try_with(|place| place.set(Some(site)));
}

/// Where the task that is being spawned was spawned; this place, if that is not known.
#[inline]
#[track_caller]
pub(super) fn spawn_site() -> &'static Location<'static> {
    let noted = SITE.try_with(Cell::get).unwrap_or(None);
    noted.unwrap_or_else(Location::caller)
}

/// Tokio does something itself.
pub(crate) fn leave(what: LeftToTokio) {
    evenkeel::drop_in::leave(what);
}
