//! The socket that answers operators, in the control runtime, so that it answers whatever else the
//! proxy does.
//!
//! Who connects sends one line of commands with `;` between them, and gets an answer for each, with
//! an empty line after it. Then the connection ends, unless a command was `prompt`: more lines may
//! come then, until one says `quit`. The verbs are HAProxy's where it has them; a
//! last word `json` asks for the answer as JSON. Only the user of the process and root are
//! answered.

mod brief;
mod certificates;
mod commands;
mod cpu;
mod errors;
mod listeners;
mod metrics;
mod report;
mod rules;
mod sess;
mod table;

pub use brief::Brief;
pub(crate) use metrics::add as add_metrics;
pub use metrics::page as metrics_page;

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use evenkeel::Class;
use evenkeel::net::handover::Passed;
use evenkeel::task::AbortHandle;
use evenkeel::time::{sleep, timeout};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Semaphore;
use tracing::warn;

use crate::listener::Listener;
use crate::server::{Context, ServerError};
use crate::socket::{self, Address};

/// How many operators are answered at once; more wait.
pub const CONNECTIONS_MAX: usize = 32;

/// How long they may take to send their line, and to take the answer.
pub const TIME_MAX: Duration = Duration::from_secs(10);

/// How long an operator may think who has asked for a prompt.
pub const PROMPT_TIME_MAX: Duration = Duration::from_secs(600);

/// What asks for the next line.
pub const PROMPT: &str = "> ";
/// How long those who are being answered have when the proxy ends.
const FINISH_MAX: Duration = Duration::from_secs(1);

/// The longest line.
pub const LINE_BYTES_MAX: usize = 4_096;

/// What an answer begins with that says an error.
pub const ERROR: &str = "error: ";

/// The socket, at which nobody is answered yet.
#[derive(Debug)]
pub struct Bound {
    listener: Listener,
    path: PathBuf,
}

/// The socket at work, which ends with this.
#[derive(Debug)]
pub struct Socket {
    listener: Arc<Listener>,
    path: PathBuf,
    accepting: AbortHandle,
    places: Arc<Semaphore>,
}

impl Bound {
    /// Listens there, or goes on with the socket of an earlier process.
    ///
    /// # Errors
    ///
    /// [`ServerError::AdminSocket`].
    pub async fn new(path: PathBuf, passed: Option<Passed>) -> Result<Self, ServerError> {
        let wrong = |error| ServerError::AdminSocket {
            path: path.clone(),
            error,
        };
        let address = Address::Unix(path.clone());
        if let Some(passed) = passed {
            let listener = Listener::of_passed(&address, passed);
            let listener = listener.map_err(|error| wrong(error.into()))?;
            return Ok(Self { listener, path });
        }
        let listener = Listener::bind(&address).await.map_err(wrong)?;
        let own = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(&path, own).map_err(wrong)?;
        Ok(Self { listener, path })
    }

    /// Begins to answer.
    pub fn answer(self, context: &Arc<Context>) -> Socket {
        self.listener.take_file();
        let listener = Arc::new(self.listener);
        let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        let answering = run(
            Arc::clone(context),
            Arc::clone(&listener),
            Arc::clone(&places),
        );
        Socket {
            listener,
            path: self.path,
            accepting: context
                .runtimes
                .control()
                .spawn_in(Class::URGENT, answering)
                .abort_handle(),
            places,
        }
    }
}

impl Socket {
    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Answers nobody more. Its file stays, unless it `goes`.
    pub fn leave(&self, goes: bool) {
        if !goes {
            self.listener.leave_file();
        }
        self.accepting.abort();
    }

    /// Answers nobody more, and waits for a moment until those who are being answered have been.
    pub async fn finish(self) {
        self.accepting.abort();
        let all = u32::try_from(CONNECTIONS_MAX).unwrap_or(u32::MAX);
        let _ = timeout(FINISH_MAX, self.places.acquire_many(all)).await;
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn run(context: Arc<Context>, listener: Arc<Listener>, places: Arc<Semaphore>) {
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else {
            return;
        };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                warn!(%error, "the admin socket cannot accept: {error}");
                sleep(TIME_MAX / 10).await;
                continue;
            }
        };
        let context = Arc::clone(&context);
        drop(evenkeel::spawn_in(Class::URGENT, async move {
            // Who goes away gets no answer.
            let _ = answer(&context, &stream).await;
            drop(place);
        }));
    }
}

async fn answer(context: &Arc<Context>, mut stream: &socket::Socket) -> io::Result<()> {
    if !may_ask(stream)? {
        let text = format!("{ERROR}only the user of this process, and root, may ask\n\n");
        return stream.write_all(text.as_bytes()).await;
    }
    let mut buffer = Vec::with_capacity(256);
    let mut stays = false;
    loop {
        let limit = if stays { PROMPT_TIME_MAX } else { TIME_MAX };
        let line = match timeout(limit, line(stream, &mut buffer)).await {
            Ok(line) => line?,
            Err(_) => return Ok(()),
        };
        let Some(line) = line else {
            return Ok(());
        };
        let mut text = String::new();
        for command in line.split(';').map(str::trim) {
            match command {
                "prompt" => stays = !stays,
                "quit" => return Ok(()),
                // An empty line is a way to see whether it is there.
                "" if stays => {}
                command => {
                    text.push_str(&commands::run(context, command).await);
                    text.push('\n');
                }
            }
        }
        if stays {
            text.push_str(PROMPT);
        }
        let sent = timeout(TIME_MAX, stream.write_all(text.as_bytes()));
        sent.await.unwrap_or(Err(io::ErrorKind::TimedOut.into()))?;
        if !stays {
            return Ok(());
        }
    }
}

/// The mode of the file says the same, from a moment after it was made on.
fn may_ask(stream: &socket::Socket) -> io::Result<bool> {
    let socket::Socket::Unix(stream) = stream else {
        return Ok(false);
    };
    let user = stream.peer_cred()?.uid();
    Ok(user == 0 || user == nix::unistd::geteuid().as_raw())
}

/// Up to the end of a line, or of what is sent; nothing, if nothing is.
async fn line(mut stream: &socket::Socket, bytes: &mut Vec<u8>) -> io::Result<Option<String>> {
    loop {
        if let Some(end) = memchr::memchr(b'\n', bytes) {
            let line: Vec<u8> = bytes.drain(..=end).collect();
            return Ok(Some(String::from_utf8_lossy(&line).trim_end().to_owned()));
        }
        if bytes.len() > LINE_BYTES_MAX {
            return Err(io::ErrorKind::InvalidData.into());
        }
        if stream.read_buf(bytes).await? == 0 {
            let line = std::mem::take(bytes);
            let line = String::from_utf8_lossy(&line).into_owned();
            return Ok((!line.is_empty()).then_some(line));
        }
    }
}
