//! Whole connections: a proxy within this process takes whatever bytes come, and goes on serving.
//!
//! It listens at Unix sockets, so that no ports are used up, and its server is one of this file. A
//! panic in it ends this process, as each does here.

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;

use evenkeel::runtime::Builder;
use proxy::config;
use proxy::runtimes::Runtimes;
use proxy::server::Server;
use servers_common::properties::Property;

use crate::properties::{headers, requests};

/// Whatever bytes a connection has, others are served.
pub(crate) const CONNECTION: Property = Property {
    name: "connection",
    seeds,
    check: connection,
};

/// The listeners, which the first byte chooses from.
const LISTENERS: [&str; 4] = ["http", "proxied", "two", "tcp"];

/// Longer than the proxy has patience with its clients.
const LIMIT: Duration = Duration::from_secs(5);

/// So often another client asks, too.
const ASKED_EACH: u64 = 64;

/// The largest answer that is read, beyond which the connection is closed.
const ANSWER_BYTES_MAX: u64 = 1 << 20;

/// As many bytes as a client sends at most.
const BYTES_MAX: usize = 64 * 1_024;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

fn seeds() -> Vec<Vec<u8>> {
    let of = |listener: u8, bytes: &[u8]| [&[listener][..], bytes].concat();
    let mut all: Vec<Vec<u8>> = requests().iter().map(|bytes| of(0, bytes)).collect();
    let get = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    for header in headers() {
        all.push(of(1, &[&header[..], get].concat()));
    }
    all.extend([0, 2].map(|listener| of(listener, &two())));
    all.push(of(3, b"any bytes"));
    all
}

/// A connection of HTTP/2: settings, a request without a body, one with a body, a PING, a larger
/// window, one that is taken back, and the end.
fn two() -> Vec<u8> {
    // Static headers of HPACK: GET or POST, http, /; and the name `:authority` with a value.
    let get = [0x82, 0x86, 0x84, 0x41, 1, b'a'];
    let post = [0x83, 0x86, 0x84, 0x41, 1, b'a'];
    let frames = [
        frame(4, 0, 0, &[0, 4, 0, 1, 0, 0]),
        frame(1, 0x5, 1, &get),
        frame(1, 0x4, 3, &post),
        frame(0, 0x1, 3, b"a body"),
        frame(6, 0, 0, &[7; 8]),
        frame(8, 0, 0, &[0, 0, 16, 0]),
        frame(1, 0x4, 5, &post),
        frame(3, 0, 5, &[0, 0, 0, 8]),
        frame(7, 0, 0, &[0; 8]),
    ];
    [PREFACE.to_vec(), frames.concat()].concat()
}

fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
    let length = u8::try_from(payload.len()).unwrap_or(u8::MAX);
    let head = [0, 0, length, kind, flags, 0, 0, 0, stream];
    [&head[..], payload].concat()
}

fn connection(bytes: &[u8]) -> bool {
    static CHECKED: AtomicU64 = AtomicU64::new(0);
    let Some((&first, bytes)) = bytes.split_first() else {
        return false;
    };
    let folder = folder();
    let listener = LISTENERS[usize::from(first) % LISTENERS.len()];
    let bytes = &bytes[..bytes.len().min(BYTES_MAX)];
    let answer = sent(&folder.join(listener), bytes, usize::from(first >> 2));
    // Relaxed: it only has to be another number each time.
    let count = CHECKED.fetch_add(1, Ordering::Relaxed);
    if count.is_multiple_of(ASKED_EACH) {
        let request = b"GET /well HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
        let answer = sent(&folder.join("http"), request, 0);
        let shown = String::from_utf8_lossy(&answer);
        assert!(
            shown.starts_with("HTTP/1.1 200 "),
            "others have no answer: {shown:?}"
        );
    }
    !answer.is_empty()
}

/// Sends bytes in two parts, and gives what came back until the end.
fn sent(to: &Path, bytes: &[u8], cut: usize) -> Vec<u8> {
    let mut stream = UnixStream::connect(to).expect("the proxy listens there");
    for limited in [
        stream.set_read_timeout(Some(LIMIT)),
        stream.set_write_timeout(Some(LIMIT)),
    ] {
        limited.expect("the time is not zero");
    }
    let (one, two) = bytes.split_at(cut.min(bytes.len()));
    // The proxy may have refused it already.
    let _ = stream.write_all(one).and_then(|()| stream.write_all(two));
    let _ = stream.shutdown(Shutdown::Write);
    let mut answer = Vec::new();
    let read = stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer);
    if let Err(error) = read {
        let is_late = matches!(
            error.kind(),
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
        );
        assert!(
            !is_late,
            "a connection neither ends nor goes on: {answer:?}"
        );
    }
    answer
}

/// Where the sockets are, once a proxy listens there.
static FOLDER: OnceLock<PathBuf> = OnceLock::new();

/// Removes the sockets, after which no connection can be checked any more. libFuzzer ends the
/// process by itself, and leaves them.
#[cfg(not(evenkeel_fuzz))]
pub(crate) fn leave() {
    if let Some(folder) = FOLDER.get() {
        // What stays is said by whoever looks for it.
        let _ = std::fs::remove_dir_all(folder);
    }
}

fn folder() -> &'static Path {
    FOLDER.get_or_init(|| {
        let name = format!("evenkeel-fuzz-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).expect("temporary folders can be made");
        serve_origin(&folder.join("origin"));
        let (sender, ready) = channel();
        let path = folder.join("proxy.toml");
        thread::spawn(move || serve(&path, &sender));
        ready.recv().expect("the proxy begins");
        folder
    })
}

/// Patient for a moment only, so that what waits ends soon.
fn configuration(folder: &Path) -> String {
    let mut text = format!(
        "[process]\nworkers = 2\nconnections_max = 1000\n\
         [pool.app]\n[[pool.app.server]]\nname = \"one\"\naddress = \"unix:{}\"\n",
        folder.join("origin").display()
    );
    for listener in LISTENERS {
        let (mode, more) = match listener {
            "proxied" => ("http", "accept_proxy = true\n"),
            "two" => ("http", "h2 = { only = true }\n"),
            "tcp" => ("tcp", ""),
            _ => ("http", ""),
        };
        text += &format!(
            "[listener.{listener}]\nbind = \"unix:{}\"\nmode = \"{mode}\"\npool = \"app\"\n{more}\
             timeouts = {{ head = \"100ms\", body = \"100ms\", keep_alive = \"100ms\", \
             idle = \"100ms\", proxy_header = \"100ms\" }}\n",
            folder.join(listener).display()
        );
    }
    text
}

fn serve(path: &Path, ready: &Sender<()>) {
    let folder = path.parent().expect("it is in a folder");
    let config = config::parse("fuzz", &configuration(folder));
    let config = config.unwrap_or_else(|error| panic!("{error}"));
    let mut builder = Builder::new();
    let runtime = builder.workers(2).build().expect("threads can be made");
    runtime.block_on(async {
        let server = Server::begin(path, config, None, Runtimes::current()).await;
        let _server = server.expect("nobody else has these sockets");
        let _ = ready.send(());
        std::future::pending::<()>().await;
    });
}

/// Answers each request with a few bytes.
fn serve_origin(path: &Path) {
    let listener = UnixListener::bind(path).expect("nobody else has this socket");
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            // The proxy may go away at any time.
            thread::spawn(move || drop(answer(stream)));
        }
    });
}

fn answer(mut stream: UnixStream) -> io::Result<()> {
    stream.set_read_timeout(Some(LIMIT))?;
    let mut buffer = vec![0; BYTES_MAX];
    let mut filled = 0;
    loop {
        let came = stream.read(&mut buffer[filled..])?;
        if came == 0 {
            return Ok(());
        }
        filled += came;
        let mut headers = [httparse::EMPTY_HEADER; 128];
        let mut request = httparse::Request::new(&mut headers);
        let parsed = request.parse(&buffer[..filled]);
        if !matches!(parsed, Ok(httparse::Status::Partial)) {
            // A body, and what is no request, is answered, too, which the proxy does not expect.
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")?;
            filled = 0;
        }
    }
}
