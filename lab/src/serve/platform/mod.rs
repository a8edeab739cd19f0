//! What the services ask of a runtime, and the runtimes that give it.
//!
//! The services are written once against [`Platform`]. Where the runtimes differ in more than a
//! name, the difference is here and said in the documentation of the instance.

/// What both runtimes have under the same names.
macro_rules! same_names {
    ($runtime:ident) => {
        type Listener = $runtime::net::TcpListener;
        type Stream = $runtime::net::TcpStream;
        type File = Arc<$runtime::fs::File>;

        fn block_on<F: Future>(&self, future: F) -> F::Output {
            self.runtime.block_on(future)
        }

        #[track_caller]
        fn spawn(future: impl Future<Output = ()> + Send + 'static) {
            // Dropping the handle lets the task run on by itself.
            drop($runtime::spawn(future));
        }

        async fn sleep(duration: Duration) {
            $runtime::time::sleep(duration).await;
        }

        async fn yield_now() {
            $runtime::task::yield_now().await;
        }

        fn bind(address: SocketAddr) -> io::Result<(Self::Listener, SocketAddr)> {
            let socket = match address {
                SocketAddr::V4(_) => $runtime::net::TcpSocket::new_v4(),
                SocketAddr::V6(_) => $runtime::net::TcpSocket::new_v6(),
            }?;
            socket.set_reuseaddr(true)?;
            socket.bind(address)?;
            let listener = socket.listen(BACKLOG)?;
            let bound = listener.local_addr()?;
            Ok((listener, bound))
        }

        async fn accept(listener: &Self::Listener) -> io::Result<Self::Stream> {
            let (stream, _) = listener.accept().await?;
            // A peer that is gone already shows at the first read; the option alone is no reason
            // to fail.
            let _ = stream.set_nodelay(true);
            Ok(stream)
        }

        async fn connect(address: SocketAddr) -> io::Result<Self::Stream> {
            let stream = Self::Stream::connect(address).await?;
            let _ = stream.set_nodelay(true);
            Ok(stream)
        }

        async fn create(path: PathBuf) -> io::Result<Self::File> {
            $runtime::fs::File::create(path).await.map(Arc::new)
        }

        async fn open(path: PathBuf) -> io::Result<Self::File> {
            $runtime::fs::File::open(path).await.map(Arc::new)
        }

        async fn sync_data(file: &Self::File) -> io::Result<()> {
            file.sync_data().await
        }

        async fn sync_all(file: &Self::File) -> io::Result<()> {
            file.sync_all().await
        }

        async fn stat(path: PathBuf) -> io::Result<u64> {
            Ok($runtime::fs::metadata(path).await?.len())
        }
    };
}

mod evenkeel;
mod tokio;

use std::collections::BTreeMap;
use std::fmt::Display;
use std::future::ready;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use ::tokio::io::{AsyncRead, AsyncWrite};

use super::args::{ClassName, Delivery, RuntimeArgs};
use super::stats::RuntimeStats;
use crate::error::{Error, Result};

pub(crate) use self::evenkeel::Evenkeel;
pub(crate) use self::tokio::Tokio;

/// Connections that may wait to be accepted, as many as the other peers have: with a runtime's
/// default a burst of clients would measure the kernel's retransmission timer.
const BACKLOG: u32 = 4_096;

/// A runtime under test: started once, shared by every service. Any thread can ask it for its
/// [`stats`](Platform::stats), also while every worker is stuck.
pub(crate) trait Platform: Clone + Send + Sync + 'static {
    /// The name on the command line and in reports.
    const NAME: &'static str;
    type Listener: Send + Sync + 'static;
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;
    /// A stream as hyper wants it.
    type HyperStream: hyper::rt::Read + hyper::rt::Write + Unpin + Send + 'static;
    type File: Send + Sync + 'static;
    /// What CPU time is shared among.
    type Class: Copy + Send + Sync + 'static;
    /// Whether there is more than one such.
    const HAS_CLASSES: bool = false;
    /// Whether it can hold back the wake-up of a socket's reader.
    const HAS_DELIVERY: bool = false;

    fn start(args: &RuntimeArgs) -> Result<Self>;
    fn block_on<F: Future>(&self, future: F) -> F::Output;
    fn stats(&self) -> RuntimeStats;
    /// The class of that name; `None` where there is none.
    fn class(&self, _: &ClassName) -> Option<Self::Class> {
        None
    }
    /// In the class of the task that spawns it. The caller's place counts as the place of spawning.
    #[track_caller]
    fn spawn(future: impl Future<Output = ()> + Send + 'static);
    /// As the runtime's own executor for hyper does it.
    fn execute(future: impl Future<Output = ()> + Send + 'static);
    /// In `class`, or where [`spawn`](Platform::spawn) would; `name` says what it is in reports.
    #[track_caller]
    fn spawn_in(
        class: Option<Self::Class>,
        name: &'static str,
        future: impl Future<Output = ()> + Send + 'static,
    );
    fn sleep(duration: Duration) -> impl Future<Output = ()> + Send;
    /// Back to the end of the queue.
    fn yield_now() -> impl Future<Output = ()> + Send;
    /// A place where a computing task lets others run if they are due.
    fn checkpoint() -> impl Future<Output = ()> + Send;

    /// From within the runtime. Says where it listens.
    fn bind(address: SocketAddr) -> io::Result<(Self::Listener, SocketAddr)>;
    /// The next connection, with `TCP_NODELAY` set.
    fn accept(listener: &Self::Listener) -> impl Future<Output = io::Result<Self::Stream>> + Send;
    /// A connection to `address`, with `TCP_NODELAY` set.
    fn connect(address: SocketAddr) -> impl Future<Output = io::Result<Self::Stream>> + Send;
    /// How its reader is woken from now on.
    fn set_delivery(_: &Self::Stream, _: Delivery) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
    /// A file that is new, or empty from now on.
    fn create(path: PathBuf) -> impl Future<Output = io::Result<Self::File>> + Send;
    /// A file to read from.
    fn open(path: PathBuf) -> impl Future<Output = io::Result<Self::File>> + Send;
    /// Writes all of `bytes`, and gives them back.
    fn write_at(
        file: &Self::File,
        bytes: Vec<u8>,
        offset: u64,
    ) -> impl Future<Output = io::Result<Vec<u8>>> + Send;
    /// Waits until what was written is on the device.
    fn sync_data(file: &Self::File) -> impl Future<Output = io::Result<()>> + Send;
    /// The same, and the file's metadata with it.
    fn sync_all(file: &Self::File) -> impl Future<Output = io::Result<()>> + Send;
    /// How long a file is.
    fn stat(path: PathBuf) -> impl Future<Output = io::Result<u64>> + Send;
    /// Serves the log of `txlog` in a directory, and says where.
    fn serve_log(_: SocketAddr, _: PathBuf) -> impl Future<Output = Result<SocketAddr>> + Send {
        let advice = "has no --log-directory, as `txlog` runs on evenkeel; give --log-path";
        ready(Err(Error::new(format!("{} {advice}", Self::NAME))))
    }
    fn hyper_stream(stream: Self::Stream) -> Self::HyperStream;
}

fn failed<E: Display>(runtime: &'static str) -> impl Fn(E) -> Error {
    move |error| Error::new(format!("the {runtime} runtime did not start: {error}"))
}

/// Values by name, as the accounts have them.
fn named<T, const N: usize>(values: [(&str, T); N]) -> BTreeMap<String, T> {
    values.map(|(name, value)| (name.to_owned(), value)).into()
}

/// Whole microseconds, as the accounts have them.
pub(crate) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
