//! Cameras that are none: for tests, measurements, and a first look without hardware.
//!
//! Each answers RTSP at `/cam0`, `/cam1` and so on, and sends the same pictures again and again,
//! one write for each packet, as cameras do. They have threads of their own and share no code with
//! the server's way of sending. Grey pictures say which they are, and when they were sent. Pictures
//! that move show the camera's name and the time.

mod dialogue;
mod encoder;
mod packets;
mod picture;
mod scene;
mod sender;
mod stamp;
mod writer;

pub use packets::{NoStream, PAYLOAD_MAX, Stream};
pub use picture::Pictures;
pub use stamp::{DIGITS, Stamp, stamps};

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use crate::rtsp::auth::Credentials;
use scene::Scene;

/// What the cameras are like.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What they send.
    pub stream: Stream,
    /// Pictures a second.
    pub rate: u32,
    /// Whom they answer; anybody, if it is `None`.
    pub credentials: Option<Credentials>,
}

/// Cameras at work, which end when this is dropped.
#[derive(Debug)]
pub struct Simulator {
    address: SocketAddr,
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

/// What the threads share.
#[derive(Debug)]
struct Shared {
    settings: Settings,
    /// Each sends a picture of its own that moves, and not the stream.
    moves: bool,
    ends: AtomicBool,
    /// Connections that play and that the sender has not taken over yet, with the camera's name.
    fresh: Mutex<Vec<(TcpStream, String)>>,
    /// All that are open, to be closed at the end or on demand.
    open: Mutex<Vec<TcpStream>>,
    sessions: AtomicUsize,
    sent: AtomicU64,
    dropped: AtomicU64,
}

impl Simulator {
    /// Begins to listen and to send.
    ///
    /// # Errors
    ///
    /// The address cannot be listened on.
    pub fn start(address: SocketAddr, settings: Settings) -> io::Result<Self> {
        Self::begin(address, settings, false)
    }

    /// The same with pictures that move, so many a second: each camera shows its name, which is the
    /// last part of its path, and the time.
    ///
    /// # Errors
    ///
    /// The address cannot be listened on.
    pub fn start_moving(address: SocketAddr, rate: u32) -> io::Result<Self> {
        let sets = Scene::sets();
        let stream = Stream {
            sps: sets.sps,
            pps: sets.pps,
            pictures: Vec::new(),
        };
        let settings = Settings {
            stream,
            rate,
            credentials: None,
        };
        Self::begin(address, settings, true)
    }

    fn begin(address: SocketAddr, settings: Settings, moves: bool) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            settings,
            moves,
            ends: AtomicBool::new(false),
            fresh: Mutex::default(),
            open: Mutex::default(),
            sessions: AtomicUsize::new(0),
            sent: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
        });
        let (accepts, sends) = (Arc::clone(&shared), Arc::clone(&shared));
        let threads = vec![
            std::thread::spawn(move || accept(&accepts, &listener)),
            std::thread::spawn(move || sender::run(&sends)),
        ];
        Ok(Self {
            address,
            shared,
            threads,
        })
    }

    /// Where they listen.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address of a camera.
    pub fn url(&self, camera: usize) -> String {
        format!("rtsp://{}/cam{camera}", self.address)
    }

    /// Sessions that have begun to play.
    pub fn sessions(&self) -> usize {
        self.shared.sessions.load(Ordering::Relaxed)
    }

    /// Bytes that were sent.
    pub fn sent(&self) -> u64 {
        self.shared.sent.load(Ordering::Relaxed)
    }

    /// Pictures that were left out, since a connection did not take what came before.
    pub fn dropped(&self) -> u64 {
        self.shared.dropped.load(Ordering::Relaxed)
    }

    /// Cuts all connections, as a switch does that is switched off.
    pub fn cut(&self) {
        self.shared.cut();
    }
}

impl Drop for Simulator {
    fn drop(&mut self) {
        self.shared.ends.store(true, Ordering::SeqCst);
        self.shared.cut();
        // Wakes the one that waits.
        drop(TcpStream::connect(self.address));
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn ends(&self) -> bool {
        // Pairs with the store when the simulator is dropped.
        self.ends.load(Ordering::SeqCst)
    }

    fn cut(&self) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        for stream in open.drain(..) {
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
    }
}

fn accept(shared: &Arc<Shared>, listener: &TcpListener) {
    for stream in listener.incoming() {
        if shared.ends() {
            return;
        }
        let Ok(stream) = stream else { continue };
        let shared = Arc::clone(shared);
        // Ends with the connection.
        std::thread::spawn(move || dialogue::serve(&shared, stream));
    }
}
