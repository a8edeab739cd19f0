//! The two runtimes behind one interface, so that both run the very same code.

use std::future::Future;

use tokio::io::{AsyncRead, AsyncWrite};

/// A runtime under measurement.
pub(crate) trait Peer: Send + Sync + Sized + 'static {
    /// What the names of its threads begin with.
    const THREADS: &'static str;
    type Error: std::fmt::Debug + Send;
    type Join: Future<Output = Result<(), Self::Error>> + Send;
    type Listener: Send + Sync + 'static;
    type Stream: AsyncRead + AsyncWrite + Send + Unpin + 'static;

    /// A stream as the HTTP library wants it.
    type Http: hyper::rt::Read + hyper::rt::Write + Send + Unpin + 'static;

    fn new(workers: usize) -> Self;
    /// Spawns through a handle, from outside.
    fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) -> Self::Join;
    fn block_on<F: Future>(&self, future: F) -> F::Output;
    /// Spawns on the runtime of the calling thread.
    fn spawn_here(future: impl Future<Output = ()> + Send + 'static);
    /// The same, before others where there are classes.
    fn spawn_urgent(future: impl Future<Output = ()> + Send + 'static);
    fn yield_now() -> impl Future<Output = ()> + Send;
    fn bind() -> impl Future<Output = std::io::Result<Self::Listener>> + Send;
    fn port(listener: &Self::Listener) -> u16;
    fn accept(
        listener: &Self::Listener,
    ) -> impl Future<Output = std::io::Result<Self::Stream>> + Send;
    fn http(stream: Self::Stream) -> Self::Http;
}

pub(crate) struct Evenkeel(evenkeel::runtime::Runtime);

impl Peer for Evenkeel {
    const THREADS: &'static str = "evenkeel";
    type Error = evenkeel::task::JoinError;
    type Join = evenkeel::task::JoinHandle<()>;
    type Listener = evenkeel::net::TcpListener;
    type Stream = evenkeel::net::TcpStream;
    #[cfg(feature = "hyper")]
    type Http = evenkeel::net::TcpStream;
    #[cfg(not(feature = "hyper"))]
    type Http = hyper_util::rt::TokioIo<evenkeel::net::TcpStream>;

    fn new(workers: usize) -> Self {
        let runtime = evenkeel::runtime::Builder::new().workers(workers).build();
        Self(runtime.expect("the machine has threads and descriptors for a benchmark"))
    }

    fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) -> Self::Join {
        self.0.spawn(future)
    }

    fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.0.block_on(future)
    }

    fn spawn_here(future: impl Future<Output = ()> + Send + 'static) {
        drop(evenkeel::spawn(future));
    }

    fn spawn_urgent(future: impl Future<Output = ()> + Send + 'static) {
        drop(evenkeel::spawn_in(evenkeel::Class::URGENT, future));
    }

    fn yield_now() -> impl Future<Output = ()> + Send {
        evenkeel::task::yield_now()
    }

    async fn bind() -> std::io::Result<Self::Listener> {
        evenkeel::net::TcpListener::bind("127.0.0.1:0").await
    }

    fn port(listener: &Self::Listener) -> u16 {
        listener.local_addr().map_or(0, |address| address.port())
    }

    async fn accept(listener: &Self::Listener) -> std::io::Result<Self::Stream> {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }

    #[cfg(feature = "hyper")]
    fn http(stream: Self::Stream) -> Self::Http {
        stream
    }

    // Without the feature, through Tokio's I/O traits, which cost an adapter.
    #[cfg(not(feature = "hyper"))]
    fn http(stream: Self::Stream) -> Self::Http {
        hyper_util::rt::TokioIo::new(stream)
    }
}

pub(crate) struct Tokio(tokio::runtime::Runtime);

impl Peer for Tokio {
    const THREADS: &'static str = "tokio-peer";
    type Error = tokio::task::JoinError;
    type Join = tokio::task::JoinHandle<()>;
    type Listener = tokio::net::TcpListener;
    type Stream = tokio::net::TcpStream;
    type Http = hyper_util::rt::TokioIo<tokio::net::TcpStream>;

    fn new(workers: usize) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(workers)
            .thread_name(Self::THREADS)
            .enable_all()
            .build();
        Self(runtime.expect("the machine has threads and descriptors for a benchmark"))
    }

    fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) -> Self::Join {
        self.0.spawn(future)
    }

    fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.0.block_on(future)
    }

    fn spawn_here(future: impl Future<Output = ()> + Send + 'static) {
        drop(tokio::spawn(future));
    }

    fn spawn_urgent(future: impl Future<Output = ()> + Send + 'static) {
        Self::spawn_here(future);
    }

    fn yield_now() -> impl Future<Output = ()> + Send {
        tokio::task::yield_now()
    }

    async fn bind() -> std::io::Result<Self::Listener> {
        tokio::net::TcpListener::bind("127.0.0.1:0").await
    }

    fn port(listener: &Self::Listener) -> u16 {
        listener.local_addr().map_or(0, |address| address.port())
    }

    async fn accept(listener: &Self::Listener) -> std::io::Result<Self::Stream> {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }

    fn http(stream: Self::Stream) -> Self::Http {
        hyper_util::rt::TokioIo::new(stream)
    }
}
