//! Opening a named pipe.

use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use super::descriptor::check_pipe;
use super::{Receiver, Sender};

/// How to open a named pipe (FIFO), which `mkfifo` makes.
///
/// Opening never waits for the other side, unlike in the standard library.
///
/// # Examples
///
/// ```
/// # #[evenkeel::main]
/// # async fn main() -> std::io::Result<()> {
/// use evenkeel::net::unix::pipe;
/// use tokio::io::{AsyncReadExt, AsyncWriteExt};
///
/// let path = std::env::temp_dir().join(format!("evenkeel-doc-{}.fifo", std::process::id()));
/// # std::process::Command::new("mkfifo").arg(&path).status()?;
/// let mut receiver = pipe::OpenOptions::new().open_receiver(&path)?;
/// let mut sender = pipe::OpenOptions::new().open_sender(&path)?;
/// sender.write_all(b"hello").await?;
/// let mut buffer = [0; 5];
/// receiver.read_exact(&mut buffer).await?;
/// assert_eq!(&buffer, b"hello");
/// std::fs::remove_file(&path)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct OpenOptions {
    #[cfg(target_os = "linux")]
    read_write: bool,
    unchecked: bool,
}

impl OpenOptions {
    /// Checks that the file is a pipe, and opens it for one direction.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether to open the pipe for both directions, whichever end is asked for.
    ///
    /// Such a receiver never sees the end of the pipe, as it is a sender too: it goes on when all
    /// senders have closed the pipe and others come. Such a sender can be opened before a receiver.
    /// Only Linux promises this.
    #[cfg(target_os = "linux")]
    pub fn read_write(&mut self, read_write: bool) -> &mut Self {
        self.read_write = read_write;
        self
    }

    /// Whether to leave out the check that the file is a pipe.
    ///
    /// What is not one may turn out not to be watchable when it is first waited for.
    pub fn unchecked(&mut self, unchecked: bool) -> &mut Self {
        self.unchecked = unchecked;
        self
    }

    /// Opens the end that reads. Without [`read_write`](Self::read_write) it reads the end of the
    /// pipe for as long as nobody has it open for writing.
    ///
    /// The system call is made at once, on this thread.
    ///
    /// # Errors
    ///
    /// There is no such file, it may not be read, it is no pipe (`InvalidInput`), or there is no
    /// current runtime.
    pub fn open_receiver(&self, path: impl AsRef<Path>) -> io::Result<Receiver> {
        let mut options = File::options();
        Receiver::from_owned_fd_unchecked(self.open(options.read(true), path.as_ref())?)
    }

    /// Opens the end that writes.
    ///
    /// The system call is made at once, on this thread.
    ///
    /// # Errors
    ///
    /// As [`open_receiver`](Self::open_receiver), and nobody has the pipe open for reading
    /// (`ENXIO`): open the receiver first, try again later, or open with
    /// [`read_write`](Self::read_write).
    pub fn open_sender(&self, path: impl AsRef<Path>) -> io::Result<Sender> {
        let mut options = File::options();
        Sender::from_owned_fd_unchecked(self.open(options.write(true), path.as_ref())?)
    }

    fn open(&self, options: &mut fs::OpenOptions, path: &Path) -> io::Result<OwnedFd> {
        #[cfg(target_os = "linux")]
        if self.read_write {
            options.read(true).write(true);
        }
        let file = options.custom_flags(libc::O_NONBLOCK).open(path)?;
        if !self.unchecked {
            check_pipe(&file)?;
        }
        Ok(file.into())
    }
}
