//! The old process's side: it starts the new one, and gives it what there is.

use std::fmt::Display;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream as StdStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use evenkeel::net::UnixStream;
use evenkeel::net::handover::{self, HandoverError};
use evenkeel::task::spawn_blocking;

use super::SUCCESSOR;
use super::wire::{self, Estate, Left, New, Old};

/// Why no other process has taken over. This one goes on as before.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UpgradeError {
    /// There is one upgrade at a time.
    #[error("another upgrade is under way: wait for what it comes to")]
    UnderWay,
    /// Another process serves, or this one ends.
    #[error("this process takes no more connections: ask the one that serves now, if there is one")]
    Leaving,
    /// This process was told to end.
    #[error("this process was told to end, so the new one was ended, too")]
    Ending,
    /// There are too many processes.
    #[error(
        "{0} earlier processes may still be finishing their connections: wait until they have \
         ended, by process.drain at the latest"
    )]
    Ancestors(u32),
    /// The program cannot be started.
    #[error("cannot start {program}, by which this process was started: {error}; put it there")]
    Start {
        /// Its name.
        program: String,
        /// The system's error.
        error: io::Error,
    },
    /// It says why it does not serve.
    #[error("the new process has given up: {0}")]
    Failed(String),
    /// It ended without a word.
    #[error("the new process ended before it served ({0}); see what it said on standard error")]
    Ended(String),
    /// It does not come so far.
    #[error(
        "the new process did not serve within {0:?}, process.upgrade_timeout, and was ended; see \
         what it said on standard error"
    )]
    Late(Duration),
    /// It says something else than it should.
    #[error("the new process does not say what it should, and was ended: is it this program?")]
    Strange,
    /// The sockets cannot be passed on.
    #[error(transparent)]
    Sockets(#[from] HandoverError),
    /// The system.
    #[error("cannot speak to the new process: {0}")]
    Io(#[from] io::Error),
}

/// The new process, which ends with this unless it is kept.
#[derive(Debug)]
pub struct Successor {
    child: Option<Child>,
    stream: UnixStream,
    id: u32,
}

impl Successor {
    /// Starts it as this process was started.
    ///
    /// # Errors
    ///
    /// [`UpgradeError::Start`], and those of the system.
    pub async fn start() -> Result<Self, UpgradeError> {
        let (ours, theirs) = StdStream::pair()?;
        let (mut command, program) = again();
        command.stdin(Stdio::from(OwnedFd::from(theirs)));
        // It waits until the program is loaded. Then it drops our copy of the other end.
        let started = spawn_blocking(move || command.spawn()).await;
        let started = started.map_err(|_| UpgradeError::Ending)?;
        let child = started.map_err(|error| UpgradeError::Start { program, error })?;
        Ok(Self {
            id: child.id(),
            child: Some(child),
            stream: UnixStream::from_std(ours)?,
        })
    }

    /// Has it take over, and returns what it did not take. It serves then.
    ///
    /// # Errors
    ///
    /// Why it does not.
    pub async fn take_over(
        &mut self,
        estate: Estate,
        sockets: &[(&str, BorrowedFd<'_>)],
    ) -> Result<Left, UpgradeError> {
        match self.converse(estate, sockets).await {
            Err(UpgradeError::Io(error)) if is_end(&error) => {
                // It says on standard error what has happened, if not here.
                let status = self.end().await;
                Err(UpgradeError::Ended(status))
            }
            result => result,
        }
    }

    async fn converse(
        &mut self,
        estate: Estate,
        sockets: &[(&str, BorrowedFd<'_>)],
    ) -> Result<Left, UpgradeError> {
        let stream = &self.stream;
        // One that has failed early does not read it, but has said why.
        let gone = async {
            wire::say(stream, &Old::Estate(estate)).await?;
            handover::send(stream, sockets)
                .await
                .map_err(io::Error::from)
        };
        if let Err(error) = gone.await
            && !is_end(&error)
        {
            return Err(error.into());
        }
        match wire::hear(stream).await? {
            New::Prepared => {}
            New::Failed(why) => return Err(UpgradeError::Failed(why)),
            New::Serving(_) => return Err(UpgradeError::Strange),
        }
        wire::say(stream, &Old::Go).await?;
        match wire::hear(stream).await? {
            New::Serving(left) => Ok(left),
            New::Failed(why) => Err(UpgradeError::Failed(why)),
            New::Prepared => Err(UpgradeError::Strange),
        }
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Lets it go on when this is dropped. It is told by the end of this process that that has
    /// ended, so hold on to this until then.
    pub fn keep(&mut self) {
        // It is the system's child when this process has ended.
        drop(self.child.take());
    }

    /// Ends it, if it has not ended, and says how it did.
    async fn end(&mut self) -> String {
        let Some(mut child) = self.child.take() else {
            return "it was kept".to_owned();
        };
        let ended = spawn_blocking(move || {
            let _ = child.kill();
            child.wait()
        });
        match ended.await {
            Ok(Ok(status)) => status.to_string(),
            Ok(Err(error)) => unknown(&error),
            Err(error) => unknown(&error),
        }
    }
}

/// The command by which this process was started, and the program in it: not the file that was
/// started, which may be gone, but the one that is there now.
fn again() -> (Command, String) {
    let mut arguments = std::env::args_os();
    let program = arguments.next().unwrap_or_default();
    let shown = program.to_string_lossy().into_owned();
    let mut command = Command::new(program);
    command.args(arguments).env(SUCCESSOR, "1");
    (command, shown)
}

fn unknown(error: &dyn Display) -> String {
    format!("how is not known: {error}")
}

/// Whether the other end is closed.
fn is_end(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionReset | UnexpectedEof)
}

impl Drop for Successor {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            // It takes a moment until it can be waited for.
            drop(spawn_blocking(move || child.wait()));
        }
    }
}
