//! Pipes: bytes that flow one way, without a name, or through a named pipe (FIFO) of the file
//! system.
//!
//! Names and meanings are those of `tokio::net::unix::pipe`.
//!
//! # Cancel safety
//!
//! A future of this module that is dropped before it is ready has done nothing.
//!
//! # The end of a pipe
//!
//! When every sender is gone, the receiver reads what is left, and then the end (0 bytes). When
//! every receiver is gone, writing fails with `BrokenPipe`. (The system also sends `SIGPIPE`, which
//! programs in Rust ignore unless they change it.)

mod descriptor;
mod end;
mod open;
mod receiver;
mod sender;

use std::io;

pub use self::open::OpenOptions;
pub use self::receiver::Receiver;
pub use self::sender::Sender;

/// Makes a pipe.
///
/// Neither end is inherited by child processes, unless it is handed to one: with
/// [`into_blocking_fd`](Sender::into_blocking_fd), as its standard output for example.
///
/// # Errors
///
/// No descriptor is left, or there is no current runtime.
///
/// # Examples
///
/// ```
/// # #[evenkeel::main]
/// # async fn main() -> std::io::Result<()> {
/// use evenkeel::net::unix::pipe;
/// use tokio::io::{AsyncReadExt, AsyncWriteExt};
///
/// let (mut sender, mut receiver) = pipe::pipe()?;
/// sender.write_all(b"hello").await?;
/// drop(sender);
/// let mut text = String::new();
/// receiver.read_to_string(&mut text).await?;
/// assert_eq!(text, "hello");
/// # Ok(())
/// # }
/// ```
///
/// The output of a child process:
///
/// ```
/// # #[evenkeel::main]
/// # async fn main() -> std::io::Result<()> {
/// use std::process::Command;
///
/// use evenkeel::net::unix::pipe;
/// use tokio::io::AsyncReadExt;
///
/// let (sender, mut receiver) = pipe::pipe()?;
/// let mut child = Command::new("echo").arg("hello").stdout(sender.into_blocking_fd()?).spawn()?;
/// let mut text = String::new();
/// receiver.read_to_string(&mut text).await?;
/// assert_eq!(text, "hello\n");
/// # evenkeel::spawn_blocking(move || child.wait()).await??;
/// # Ok(())
/// # }
/// ```
pub fn pipe() -> io::Result<(Sender, Receiver)> {
    let (reader, writer) = io::pipe()?;
    let (reader, writer) = (reader.into(), writer.into());
    descriptor::set_nonblocking(&reader, true)?;
    descriptor::set_nonblocking(&writer, true)?;
    Ok((
        Sender::from_owned_fd_unchecked(writer)?,
        Receiver::from_owned_fd_unchecked(reader)?,
    ))
}
