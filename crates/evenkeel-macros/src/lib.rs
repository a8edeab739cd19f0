//! The attribute macros of the evenkeel runtime.
//!
//! Use them through the `evenkeel` crate, which re-exports them: [`macro@main`] and
//! [`macro@test`].

mod entry;
mod options;

use proc_macro::TokenStream;

use crate::entry::{Entry, expand};

/// Runs an `async fn main` on a runtime of its own.
///
/// The function becomes an ordinary one that builds a runtime and blocks on the body, and returns
/// what the body returns. If the runtime cannot be built, the process says so on its standard error
/// and exits with status 1.
///
/// # Options
///
/// - `workers = N`: as many workers as this instead of one per core.
/// - `busy_wait = "..."`: how long an idle worker spins before it parks: a level of `BusyWait` as
///   it is printed, such as `"none"`, `"very_short"` or `"adaptive"`.
/// - `start_paused = true`: a runtime for tests, whose time stands still while anything can run,
///   and jumps to the next timer when all tasks wait (`time::pause`). It has one worker.
/// - `crate = "..."`: the path of the `evenkeel` crate, if it goes by another name.
///
/// Tokio's `worker_threads` is `workers` here, and its `flavor` has nothing to choose from: it is
/// refused with a message that says so.
///
/// Everything else is set by building the runtime in an ordinary `main`.
///
/// # Examples
///
/// ```
/// #[evenkeel::main(workers = 2, busy_wait = "none")]
/// async fn main() -> std::io::Result<()> {
///     let listener = evenkeel::net::TcpListener::bind("127.0.0.1:0").await?;
///     println!("listening on {}", listener.local_addr()?);
///     Ok(())
/// }
/// ```
#[proc_macro_attribute]
pub fn main(options: TokenStream, function: TokenStream) -> TokenStream {
    expand(Entry::Main, options.into(), function.into()).into()
}

/// Makes an `async fn` a test that runs on a runtime of its own.
///
/// The options are those of [`macro@main`]. Attributes such as `#[ignore]` and `#[should_panic]`
/// are kept; the test may return a `Result`.
///
/// # Examples
///
/// ```
/// #[evenkeel::test(workers = 1)]
/// async fn a_task_gives_its_result() {
///     assert_eq!(evenkeel::spawn(async { 1 + 1 }).await.unwrap(), 2);
/// }
/// ```
#[proc_macro_attribute]
pub fn test(options: TokenStream, function: TokenStream) -> TokenStream {
    expand(Entry::Test, options.into(), function.into()).into()
}
