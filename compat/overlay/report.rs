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

/// Tokio's pool does a piece of blocking work, for this place in the program or in Tokio.
pub(crate) fn leave_blocking(site: &'static Location<'static>) {
    // This file's path begins as those of Tokio's source do.
    let source = file!().trim_end_matches("evenkeel/report.rs");
    let part = site.file().strip_prefix(source).unwrap_or_default();
    if part.contains("scheduler") {
        // The runtime's own threads: Tokio's workers, or the one of the driver.
        return;
    }
    leave(match part.split('/').next() {
        // What must be done before the pool ends comes from files and streams alone, by a function
        // in `runtime` that does not say who called it.
        Some("fs" | "io" | "runtime") => LeftToTokio::File,
        Some("net") => LeftToTokio::Lookup,
        _ => LeftToTokio::Blocking,
    });
}
