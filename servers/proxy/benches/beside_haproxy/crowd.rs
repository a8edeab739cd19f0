//! Thousands of clients, each of which asks again as soon as it is answered, and their server: all
//! on one thread of low priority, so that the proxy has as much of the machine as it needs.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use evenkeel::net::{TcpListener, TcpStream};
use evenkeel::runtime::{Builder, Runtime};
use evenkeel::task::JoinHandle;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::clients::{LIMIT, SMALL};
use super::{Result, priority};

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n";

/// So many connect at once.
const BATCH: usize = 100;

pub(crate) struct Crowd {
    runtime: Runtime,
    /// Their server.
    pub(crate) origin: SocketAddr,
}

impl Crowd {
    pub(crate) fn start() -> Result<Self> {
        // Without hand-off the tasks stay on this thread, whose priority is set.
        let runtime = Builder::new().workers(1).hand_off_after(None).build()?;
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0"))?;
        let origin = listener.local_addr()?;
        drop(runtime.spawn(async move {
            priority::last();
            while let Ok((stream, _)) = listener.accept().await {
                drop(evenkeel::spawn(served(stream)));
            }
        }));
        Ok(Self { runtime, origin })
    }

    /// So many clients begin to ask, until what is returned is dropped.
    pub(crate) fn ask(&self, proxy: SocketAddr, clients: usize) -> Result<Asking> {
        let mut asking = Asking {
            answers: Arc::default(),
            tasks: Vec::with_capacity(clients),
        };
        while asking.tasks.len() < clients {
            for _ in 0..BATCH.min(clients - asking.tasks.len()) {
                let answers = Arc::clone(&asking.answers);
                let task = self.runtime.spawn(asked(proxy, answers));
                asking.tasks.push(task);
            }
            let began = Instant::now();
            while asking.answers() < asking.tasks.len() {
                if began.elapsed() > LIMIT {
                    return Err("not all of thousands of clients are answered".into());
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        Ok(asking)
    }
}

/// Clients that ask.
pub(crate) struct Asking {
    answers: Arc<AtomicUsize>,
    tasks: Vec<JoinHandle<io::Result<()>>>,
}

impl Asking {
    /// How many answers there were.
    pub(crate) fn answers(&self) -> usize {
        // Relaxed: a statistic.
        self.answers.load(Ordering::Relaxed)
    }

    /// Whether all of them go on.
    pub(crate) fn all_go_on(&self) -> bool {
        !self.tasks.iter().any(JoinHandle::is_finished)
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

async fn asked(proxy: SocketAddr, answers: Arc<AtomicUsize>) -> io::Result<()> {
    let mut stream = TcpStream::connect(proxy).await?;
    let mut buffer = Vec::with_capacity(512);
    loop {
        stream.write_all(REQUEST).await?;
        buffer.clear();
        while !buffer.ends_with(SMALL) {
            if stream.read_buf(&mut buffer).await? == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
        }
        if !buffer.starts_with(b"HTTP/1.1 200 ") {
            return Err(ErrorKind::InvalidData.into());
        }
        // Relaxed: a statistic.
        answers.fetch_add(1, Ordering::Relaxed);
    }
}

async fn served(mut stream: TcpStream) -> io::Result<()> {
    let answer = [HEAD, SMALL].concat();
    let mut buffer = Vec::with_capacity(1_024);
    loop {
        buffer.clear();
        while !buffer.ends_with(b"\r\n\r\n") {
            if stream.read_buf(&mut buffer).await? == 0 {
                return Ok(());
            }
        }
        stream.write_all(&answer).await?;
    }
}
