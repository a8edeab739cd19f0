//! Peers that are slow and steady are not given up, though the system says for longer than they may
//! stand still that there is no room to write: there is when a third of megabytes is free.

use std::io::{Read, Write};
use std::thread::sleep;
use std::time::{Duration, Instant};

use ::http::HeaderMap;
use rustix::net::sockopt::set_socket_recv_buffer_size;

use super::support::frames::{DATA, END_HEADERS, Frames, HEADERS, WINDOW_UPDATE, block};
use super::support::two::{TwoClient, run};
use super::support::{Authority, Client, Origin, Proxy, Reply, Trust, pattern, web};

/// More than all buffers hold.
const LENGTH: usize = 30_000_000;

/// How long a peer may stand still.
const TIMES: &str = "timeouts = { body = \"4s\", idle = \"4s\" }\n";

/// For so long it takes little.
const SLOW: Duration = Duration::from_secs(9);

/// What it takes at once: as much as opens its window again.
const PART: usize = 64 * 1_024;

const PAUSE: Duration = Duration::from_millis(300);

/// A peer that takes little for a while: what is read through it comes slowly first.
struct Slow<S> {
    stream: S,
    began: Instant,
    /// What may be read before the next pause.
    left: usize,
}

impl<S> Slow<S> {
    fn new(stream: S) -> Self {
        Self {
            stream,
            began: Instant::now(),
            left: PART,
        }
    }
}

impl<S: Read> Read for Slow<S> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.began.elapsed() >= SLOW {
            return self.stream.read(buffer);
        }
        if self.left == 0 {
            sleep(PAUSE);
            self.left = PART;
        }
        let room = buffer.len().min(self.left);
        let read = self.stream.read(&mut buffer[..room])?;
        self.left -= read;
        Ok(read)
    }
}

impl<S: Write> Write for Slow<S> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.stream.flush()
    }
}

/// Answers with a long body, at once or in one chunk.
fn long() -> Origin {
    Origin::http(|asked| {
        let body = pattern(LENGTH);
        let (framing, end) = match asked.line.ends_with("/chunk") {
            true => (
                format!("Transfer-Encoding: chunked\r\n\r\n{LENGTH:x}"),
                "\r\n0\r\n\r\n",
            ),
            false => (format!("Content-Length: {LENGTH}\r\n"), ""),
        };
        let head = format!("HTTP/1.1 200 OK\r\n{framing}\r\n");
        Reply::Go([head.as_bytes(), &body, end.as_bytes()].concat())
    })
}

/// Asks for the long body, and takes it slowly.
fn takes_all<S: Read + Write>(stream: S, path: &str) {
    let mut client = Client::over(Slow::new(stream));
    let answer = client.get(path);
    assert_eq!(answer.status, 200);
    assert!(
        answer.body == pattern(LENGTH),
        "{} bytes",
        answer.body.len()
    );
}

#[test]
fn a_client_that_takes_an_answer_slowly_gets_all_of_it() {
    let origin = long();
    let proxy = Proxy::start(&web(TIMES, "", &[&origin]));
    std::thread::scope(|scope| {
        // One is moved by the kernel, and the other one copied.
        for path in ["/length", "/chunk"] {
            let stream = proxy.connect().stream;
            scope.spawn(move || takes_all(stream, path));
        }
    });
}

#[test]
fn a_client_over_tls_that_takes_an_answer_slowly_gets_all_of_it() {
    let (authority, origin) = (Authority::new("ours"), long());
    let issued = authority.issue("web", &["a.example"]);
    let tls = format!(
        "{TIMES}[listener.web.tls]\n{}",
        issued.config("certificate")
    );
    let proxy = Proxy::start(&web(&tls, "", &[&origin]));
    let trust = Trust::of(&authority);
    takes_all(
        trust.connect(proxy.address("web"), "a.example").stream,
        "/length",
    );
}

#[test]
fn a_client_of_http2_that_takes_an_answer_slowly_gets_all_of_it() {
    let origin = long();
    let proxy = Proxy::start(&web(TIMES, "", &[&origin]));
    let stream = Slow::new(proxy.connect().stream);
    // The windows hold up nothing.
    let mut client = Frames::over(stream, &[(4, 1 << 30)]);
    client.frame(WINDOW_UPDATE, 0, 0, &(1_u32 << 30).to_be_bytes());
    client.get(1, &[]);
    let mut body = Vec::new();
    while body.len() < LENGTH {
        body.extend(client.until(DATA).payload);
    }
    assert!(body == pattern(LENGTH));
}

#[test]
fn a_client_that_takes_what_a_tunnel_brings_slowly_gets_all_of_it() {
    let origin = Origin::raw(|mut stream, _, _| {
        let _ = stream.read(&mut [0; 4_096]).unwrap();
        let head =
            "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: other\r\n\r\n";
        stream.write_all(head.as_bytes()).unwrap();
        // Its client says whether all has come.
        let _ = stream.write_all(&pattern(LENGTH));
    });
    let proxy = Proxy::start(&web("timeouts.idle = \"3s\"", "", &[&origin]));
    let stream = Slow::new(proxy.connect().stream);
    let mut client = Frames::over(stream, &[(4, 1 << 30)]);
    client.frame(WINDOW_UPDATE, 0, 0, &(1_u32 << 30).to_be_bytes());
    let connect = block("CONNECT", &[(":protocol", "other")]);
    client.frame(HEADERS, END_HEADERS, 1, &connect);
    let mut body = Vec::new();
    while body.len() < LENGTH {
        body.extend(client.until(DATA).payload);
    }
    assert!(body == pattern(LENGTH));
}

/// The end of an answer waits in buffers long after it was given to them, and its connection has no
/// request any more.
#[test]
fn the_end_of_an_answer_by_http2_outlasts_the_time_between_requests() {
    let length = 5_000_000;
    let origin = Origin::http(move |_| {
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n");
        Reply::Go([head.as_bytes(), &pattern(length)].concat())
    });
    let times = "timeouts = { body = \"4s\", keep_alive = \"100ms\" }\n";
    let proxy = Proxy::start(&web(times, "", &[&origin]));
    let stream = Slow::new(proxy.connect().stream);
    let mut client = Frames::over(stream, &[(4, 1 << 30)]);
    client.frame(WINDOW_UPDATE, 0, 0, &(1_u32 << 30).to_be_bytes());
    client.get(1, &[]);
    let mut body = Vec::new();
    while body.len() < length {
        body.extend(client.until(DATA).payload);
        // As clients do.
        client.frame(WINDOW_UPDATE, 0, 0, &1_u32.to_be_bytes());
    }
    assert!(body == pattern(length));
    // A GOAWAY is behind it.
    client.ended();
}

#[test]
fn a_client_of_tcp_that_takes_bytes_slowly_gets_all_of_them() {
    let origin = Origin::raw(|mut stream, _, _| {
        // Its client says whether all has come.
        let _ = stream.write_all(&pattern(LENGTH));
    });
    let config = web(TIMES, "", &[&origin]).replace("\"http\"", "\"tcp\"");
    std::thread::scope(|scope| {
        for splices in ["splice = true\n", "splice = false\n"] {
            let config = config.replace(TIMES, &format!("{TIMES}{splices}"));
            scope.spawn(move || {
                let proxy = Proxy::start(&config);
                let mut client = Client::over(Slow::new(proxy.connect().stream));
                assert!(client.rest() == pattern(LENGTH), "{splices}");
            });
        }
    });
}

const UPLOAD: usize = 2_400_000;

/// A server that takes an upload slowly, and a listener and pool that wait for four seconds.
fn behind_a_slow_server() -> (Origin, Proxy) {
    let origin = Origin::raw(|stream, _, _| {
        // The upload waits in the proxy's buffer, and not in this one.
        set_socket_recv_buffer_size(&stream, 2 * PART).unwrap();
        let mut stream = Slow::new(stream);
        let (mut all, mut part) = (Vec::new(), vec![0; PART]);
        // With chunks around it, or without.
        let is_whole = |all: &[u8]| {
            let marks = pattern(UPLOAD);
            all.ends_with(b"\r\n0\r\n\r\n") || all.ends_with(&marks[UPLOAD - PART..])
        };
        while !is_whole(&all) {
            let read = stream.read(&mut part).unwrap();
            assert!(read > 0, "it ended after {} bytes", all.len());
            all.extend_from_slice(&part[..read]);
        }
        let length = all.len();
        let head = "HTTP/1.1 200 OK\r\nContent-Length: ";
        let text = length.to_string();
        let answer = format!("{head}{}\r\n\r\n{text}", text.len());
        stream.write_all(answer.as_bytes()).unwrap();
    });
    let times = "timeouts = { answer = \"4s\", body = \"4s\" }";
    let proxy = Proxy::start(&web("", times, &[&origin]));
    (origin, proxy)
}

/// All of an upload waits in the send buffer of its server's connection, and the answer comes when
/// that has taken it.
#[test]
fn a_server_that_takes_an_upload_slowly_is_waited_for() {
    let (_origin, proxy) = behind_a_slow_server();
    let post = format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {UPLOAD}\r\n\r\n");
    std::thread::scope(|scope| {
        // A body of which nothing comes with its head is moved by the kernel.
        for pause in [PAUSE, Duration::ZERO] {
            let (mut client, post) = (proxy.connect(), &post);
            scope.spawn(move || {
                client.send(post);
                sleep(pause);
                client.send(pattern(UPLOAD));
                let answer = client.answer();
                assert!(answer.text().parse::<usize>().unwrap() > UPLOAD);
            });
        }
    });
}

#[test]
fn a_server_that_takes_an_upload_of_http2_slowly_is_waited_for() {
    let (_origin, proxy) = behind_a_slow_server();
    run(async {
        let mut client = TwoClient::connect(proxy.address("web")).await;
        let answer = client.post("/", &pattern(UPLOAD), HeaderMap::new()).await;
        assert!(answer.text().parse::<usize>().unwrap() > UPLOAD);
    });
}
