//! Signals that the process receives.

pub mod unix;

use std::io;

/// Waits for the next `SIGINT`, which a terminal sends at Ctrl-C.
///
/// Listening begins at the first poll and ends when the future completes or is dropped. A signal
/// between two calls of this is lost; to get all of them, keep a [`Signal`](unix::Signal) instead.
/// The first call changes the effect of `SIGINT` for the rest of the process's life; see
/// [`signal`](unix::signal()).
///
/// # Errors
///
/// No descriptor is left, or the runtime is shutting down.
///
/// # Cancel safety
///
/// Cancel safe: a dropped future stops listening.
///
/// # Examples
///
/// ```no_run
/// # evenkeel::runtime::Runtime::new().unwrap().block_on(async {
/// println!("serving until Ctrl-C");
/// evenkeel::signal::ctrl_c().await?;
/// println!("closing");
/// # Ok::<(), std::io::Error>(()) }).unwrap();
/// ```
pub async fn ctrl_c() -> io::Result<()> {
    let mut interrupts = unix::signal(unix::SignalKind::interrupt())?;
    match interrupts.recv().await {
        Some(()) => Ok(()),
        None => Err(io::Error::other(
            "the runtime shut down before Ctrl-C was pressed",
        )),
    }
}
