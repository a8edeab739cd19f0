//! A server within the test, and connections to it that may send anything.

use std::future::Future;
use std::net::SocketAddr;

use bytes::{Bytes, BytesMut};
use evenkeel::net::TcpStream;
use evenkeel::time::timeout;
use tokio::io::AsyncWriteExt;
use tokio::sync::oneshot;
use txlog::log::{Log, LogConfig};
use txlog::server::{Server, ServerConfig};
use txlog::store::Store;
use txlog_client::frame::{Code, Request, Response, VERSION};
use txlog_client::wire::FrameReader;

use super::memory::MemoryDisk;
use super::{LIMIT, run, small};

/// Serves a log in memory while `test` runs, and closes the server after it.
pub(crate) fn serving<F>(config: ServerConfig, test: impl FnOnce(SocketAddr, MemoryDisk) -> F)
where
    F: Future<Output = ()>,
{
    serving_log(config, small(), test);
}

pub(crate) fn serving_log<F>(
    config: ServerConfig,
    log: LogConfig,
    test: impl FnOnce(SocketAddr, MemoryDisk) -> F,
) where
    F: Future<Output = ()>,
{
    run(async {
        let disk = MemoryDisk::new(1);
        let (log, _) = Log::open(disk.clone(), log).await.unwrap();
        serving_store(log, config, async |address| test(address, disk).await).await;
    });
}

/// Serves any store while `test` runs, and closes the server after it.
pub(crate) async fn serving_store<S: Store>(
    store: S,
    config: ServerConfig,
    test: impl AsyncFnOnce(SocketAddr),
) {
    let server = Server::bind("127.0.0.1:0", store, config).await.unwrap();
    let address = server.local_addr().unwrap();
    let (end, ends) = oneshot::channel::<()>();
    let server = evenkeel::spawn(server.run(async {
        let _ = ends.await;
    }));
    test(address).await;
    drop(end);
    // The log may have failed on purpose.
    let _ = server.await.unwrap();
}

/// A connection that may send anything.
pub(crate) struct Raw {
    pub(crate) frames: FrameReader<evenkeel::net::tcp::OwnedReadHalf>,
    pub(crate) write: evenkeel::net::tcp::OwnedWriteHalf,
}

impl Raw {
    pub(crate) async fn connect(address: SocketAddr) -> Self {
        let (read, write) = TcpStream::connect(address).await.unwrap().into_split();
        Self {
            frames: FrameReader::new(read, 16 << 20),
            write,
        }
    }

    pub(crate) async fn welcomed(address: SocketAddr) -> Self {
        let mut raw = Self::connect(address).await;
        raw.ask(&hello()).await;
        assert!(matches!(raw.answer().await, Some(Response::Welcome { .. })));
        raw
    }

    pub(crate) async fn ask(&mut self, request: &Request) {
        let mut buffer = BytesMut::new();
        request.encode(&mut buffer);
        self.send(&buffer).await;
    }

    pub(crate) async fn send(&mut self, bytes: &[u8]) {
        self.write.write_all(bytes).await.unwrap();
    }

    /// The next answer; `None` at the end.
    pub(crate) async fn answer(&mut self) -> Option<Response> {
        let frame = timeout(LIMIT, self.frames.next()).await.expect("in time");
        frame.unwrap().map(|frame| Response::decode(frame).unwrap())
    }

    /// Expects a fault as the next answer, and then the end.
    pub(crate) async fn faulted(&mut self) -> Code {
        let answer = self.answer().await;
        let Some(Response::Fault { code, text }) = answer else {
            panic!("{answer:?} is no fault")
        };
        // What is to be done is behind what happened.
        assert!(text.contains([':', ';']), "{text}");
        assert_eq!(self.answer().await, None);
        code
    }
}

pub(crate) fn hello() -> Request {
    let (min, max) = (VERSION, VERSION);
    Request::Hello {
        min,
        max,
        access: None,
    }
}

pub(crate) fn append(id: u64, payload: &'static str) -> Request {
    let payload = Bytes::from_static(payload.as_bytes());
    Request::Append { id, payload }
}
