//! What the proxy costs beside HAProxy: processor time of its process for each operation, in turn.
//!
//! Clients, servers and both proxies share the machine, over loopback. Each proxy has one thread,
//! the same timeouts, and no logs, as ours has none. HAProxy may splice, and may use connections to
//! servers again for any client, as ours does.

use std::error::Error;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use clap::Parser;
use evenkeel_measure::comparison::Comparison;
use evenkeel_measure::options::{JsonOption, RoundOptions};
use evenkeel_measure::rounds::alternate;
use evenkeel_measure::statistics::Better;

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// Measures the processor time of evenkeel-proxy for each operation beside HAProxy's.
#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    rounds: RoundOptions,
    #[command(flatten)]
    json: JsonOption,
    /// The program of HAProxy
    #[arg(long, default_value = "haproxy")]
    haproxy: String,
}

/// So many clients ask at once.
const CLIENTS: usize = 4;

const BIG: usize = 1 << 20;

const MEDIUM: usize = 10_000;

/// The client of HTTP/2.
const H2LOAD: &str = "h2load";

/// Requests of each of its connections at a time.
const STREAMS: usize = 10;

/// The same limits and times as ours.
const HAPROXY: &str = "\
global
  nbthread 1
  maxconn 1000
defaults
  timeout connect 5s
  timeout client 60s
  timeout server 60s
  timeout http-request 10s
  timeout http-keep-alive 60s
  http-reuse always
  option splice-request
  option splice-response
";

/// No answer takes longer.
const LIMIT: Duration = Duration::from_secs(20);

/// What the clients do, again and again.
#[derive(Clone, Copy)]
enum Load {
    /// A request over a connection that is kept.
    Kept,
    /// A request over a connection of its own.
    Closed,
    /// A connection that passes five bytes.
    Connection,
    /// A megabyte, over a kept connection of HTTP.
    HttpBytes,
    /// A megabyte, over a connection of TCP.
    TcpBytes,
    /// Ten kilobytes over a connection of HTTP/2, several at a time. The server speaks HTTP/1.1.
    Two,
}

/// With a name, and how often each client does it in a measurement of 400 ms or so.
const LOADS: [(&str, Load, usize); 6] = [
    ("HTTP, kept connections", Load::Kept, 2_000),
    ("HTTP, a connection for each", Load::Closed, 600),
    ("TCP, a connection for each", Load::Connection, 600),
    ("HTTP, 1 MB", Load::HttpBytes, 60),
    ("TCP, 1 MB", Load::TcpBytes, 60),
    ("H2 10k", Load::Two, 2_000),
];

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let mut results = arguments.json.begin("beside_haproxy")?;
    let origins = [origin(serve_http)?, origin(serve_bytes)?];
    let directory = tempfile::tempdir()?;
    let proxies = [
        Proxy::ours(directory.path(), origins)?,
        Proxy::haproxy(&arguments.haproxy, directory.path(), origins)?,
    ];
    let names = ["evenkeel-proxy", "HAProxy"];
    let title = "processor time for each operation";
    let mut comparison = Comparison::new(title, "us", Better::Less, &names)
        .with_note(format!("HAProxy is {}", version(&arguments.haproxy)?));
    for (name, load, operations) in LOADS {
        if matches!(load, Load::Two) && Command::new(H2LOAD).arg("--version").output().is_err() {
            eprintln!("{name} is not measured: {H2LOAD} is missing, which nghttp2-client brings");
            continue;
        }
        let share = arguments
            .rounds
            .sample(Duration::from_secs(1))
            .as_secs_f64();
        let operations = ((operations as f64 * share) as usize).max(1);
        for proxy in &proxies {
            proxy.measure(load, operations / 4 + 1)?;
        }
        let measure = |proxy: &Proxy| proxy.measure(load, operations);
        comparison.add(
            name,
            &alternate(arguments.rounds.rounds(), &proxies, measure)?,
        );
    }
    print!("{comparison}");
    results.add_comparison(&comparison)?;
    Ok(())
}

/// A proxy at work, which ends with this.
struct Proxy {
    child: Child,
    http: SocketAddr,
    tcp: SocketAddr,
}

impl Proxy {
    fn ours(directory: &Path, [http, tcp]: [SocketAddr; 2]) -> Result<Self> {
        let file = directory.join("proxy.toml");
        let listener = |name: &str| {
            format!(
                "[listener.{name}]\nbind = \"127.0.0.1:0\"\nmode = \"{name}\"\npool = \"{name}\"\n"
            )
        };
        let server = |name: &str, address: SocketAddr| {
            format!("[[pool.{name}.server]]\nname = \"s\"\naddress = \"{address}\"\n")
        };
        let parts = [
            "[process]\nworkers = 1\nconnections_max = 1000\n".to_owned(),
            listener("http"),
            listener("tcp"),
            server("http", http),
            server("tcp", tcp),
        ];
        std::fs::write(&file, parts.concat())?;
        let mut child = Command::new(env!("CARGO_BIN_EXE_evenkeel-proxy"))
            .arg("run")
            .arg(&file)
            .stdout(Stdio::piped())
            .spawn()?;
        let output = child.stdout.take().ok_or("it has no output")?;
        let (mut http, mut tcp) = (None, None);
        for line in BufReader::new(output).lines() {
            let line = line?;
            let address = |name: &str| line.strip_prefix(name)?.parse().ok();
            http = http.or_else(|| address("listening on http "));
            tcp = tcp.or_else(|| address("listening on tcp "));
            if line == "ready" {
                break;
            }
        }
        let (http, tcp) = http.zip(tcp).ok_or("the proxy does not begin")?;
        Ok(Self { child, http, tcp })
    }

    fn haproxy(program: &str, directory: &Path, [http, tcp]: [SocketAddr; 2]) -> Result<Self> {
        // It has no way to say which port it was given.
        let free = || TcpListener::bind("127.0.0.1:0")?.local_addr();
        let (to_http, to_tcp) = (free()?, free()?);
        let file = directory.join("haproxy.cfg");
        let section = |name: &str, bind: SocketAddr, server: SocketAddr| {
            format!("listen {name}\n  mode {name}\n  bind {bind}\n  server s {server}\n")
        };
        let parts = [
            HAPROXY.to_owned(),
            section("http", to_http, http),
            section("tcp", to_tcp, tcp),
        ];
        std::fs::write(&file, parts.concat())?;
        let child = Command::new(program)
            .arg("-db")
            .arg("-f")
            .arg(&file)
            .spawn();
        let child = child.map_err(|error| {
            format!("cannot start {program}: {error}; install HAProxy, or name it by --haproxy")
        })?;
        let proxy = Self {
            child,
            http: to_http,
            tcp: to_tcp,
        };
        let began = Instant::now();
        while TcpStream::connect(to_http).is_err() {
            if began.elapsed() > LIMIT {
                return Err("HAProxy does not begin".into());
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(proxy)
    }

    /// The processor time of an operation, in microseconds.
    fn measure(&self, load: Load, operations: usize) -> Result<f64> {
        let before = self.processor_us()?;
        if let Load::Two = load {
            self.two(operations * CLIENTS)?;
            return Ok((self.processor_us()? - before) / (operations * CLIENTS) as f64);
        }
        thread::scope(|scope| {
            let work = || self.client(load, operations);
            let clients: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(work)).collect();
            let done = clients.into_iter().map(|client| match client.join() {
                Ok(done) => done,
                Err(_) => Err("a client has panicked".into()),
            });
            done.collect::<Result<()>>()
        })?;
        let spent = self.processor_us()? - before;
        Ok(spent / (operations * CLIENTS) as f64)
    }

    /// Has so many requests of HTTP/2 answered.
    fn two(&self, requests: usize) -> Result<()> {
        let output = Command::new(H2LOAD)
            .args(["-n", &requests.to_string()])
            .args(["-c", &CLIENTS.to_string()])
            .args(["-m", &STREAMS.to_string()])
            .arg(format!("http://{}/medium", self.http))
            .output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        let expected = format!("{requests} 2xx, 0 3xx, 0 4xx, 0 5xx");
        if !text.contains(&expected) || !text.contains(&format!("{requests} succeeded")) {
            return Err(format!("{H2LOAD} has not got all answers: {text}").into());
        }
        Ok(())
    }

    /// What its threads have used so far.
    fn processor_us(&self) -> Result<f64> {
        let mut ns = 0.0;
        for thread in std::fs::read_dir(format!("/proc/{}/task", self.child.id()))? {
            let text = std::fs::read_to_string(thread?.path().join("schedstat"))?;
            let first = text.split(' ').next().unwrap_or_default();
            ns += first.parse::<f64>()?;
        }
        Ok(ns / 1_000.0)
    }

    fn client(&self, load: Load, operations: usize) -> Result<()> {
        let mut buffer = vec![0; 256 * 1_024];
        let kept = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
        let closed = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
        let big = "GET /big HTTP/1.1\r\nHost: a\r\n\r\n";
        match load {
            Load::Kept | Load::HttpBytes => {
                let (request, body) = match load {
                    Load::Kept => (kept, SMALL.len()),
                    _ => (big, BIG),
                };
                let mut stream = connect(self.http)?;
                for _ in 0..operations {
                    stream.write_all(request.as_bytes())?;
                    answer(&mut stream, &mut buffer, body)?;
                }
            }
            Load::Closed => {
                for _ in 0..operations {
                    let mut stream = connect(self.http)?;
                    stream.write_all(closed.as_bytes())?;
                    answer(&mut stream, &mut buffer, SMALL.len())?;
                    rest(&mut stream, &mut buffer, 0)?;
                }
            }
            // Done by another program.
            Load::Two => {}
            Load::Connection | Load::TcpBytes => {
                let (request, bytes) = match load {
                    Load::Connection => (b"s", SMALL.len()),
                    _ => (b"b", BIG),
                };
                for _ in 0..operations {
                    let mut stream = connect(self.tcp)?;
                    stream.write_all(request)?;
                    rest(&mut stream, &mut buffer, bytes)?;
                }
            }
        }
        Ok(())
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn connect(address: SocketAddr) -> Result<TcpStream> {
    let stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(LIMIT))?;
    Ok(stream)
}

/// Reads a head and so many bytes behind it.
fn answer(stream: &mut TcpStream, buffer: &mut [u8], body: usize) -> Result<()> {
    let mut filled = 0;
    let head = loop {
        let came = stream.read(&mut buffer[filled..])?;
        if came == 0 {
            return Err("a connection ended within a head".into());
        }
        filled += came;
        let end = buffer[..filled]
            .windows(4)
            .position(|four| four == b"\r\n\r\n");
        if let Some(end) = end {
            break end + 4;
        }
    };
    if !buffer.starts_with(b"HTTP/1.1 200 ") {
        return Err(format!(
            "no good answer: {}",
            String::from_utf8_lossy(&buffer[..head])
        )
        .into());
    }
    let mut left = (head + body).saturating_sub(filled);
    while left > 0 {
        let came = stream.read(buffer)?;
        if came == 0 {
            return Err("a connection ended within a body".into());
        }
        left = left.saturating_sub(came);
    }
    Ok(())
}

/// Reads to the end, which has to come after so many bytes.
fn rest(stream: &mut TcpStream, buffer: &mut [u8], bytes: usize) -> Result<()> {
    let mut read = 0;
    loop {
        match stream.read(buffer)? {
            0 if read == bytes => return Ok(()),
            0 => return Err(format!("{read} bytes came, and not {bytes}").into()),
            came => read += came,
        }
    }
}

const SMALL: &[u8] = b"hello";

/// A server behind the proxies, for as long as the process lasts.
fn origin(serve: fn(TcpStream) -> std::io::Result<()>) -> Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    thread::spawn(move || {
        for stream in listener.incoming().map_while(std::result::Result::ok) {
            // A proxy may go away at any time.
            thread::spawn(move || drop(serve(stream)));
        }
    });
    Ok(address)
}

fn serve_http(mut stream: TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let of = |body: &[u8]| {
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
        [head.as_bytes(), body].concat()
    };
    let (small, big) = (of(SMALL), of(&vec![b'x'; BIG]));
    let medium = of(&vec![b'x'; MEDIUM]);
    let (mut buffer, mut filled) = ([0; 4_096], 0);
    loop {
        let came = stream.read(&mut buffer[filled..])?;
        if came == 0 {
            return Ok(());
        }
        filled += came;
        if buffer[..filled].ends_with(b"\r\n\r\n") {
            let is_of = |path: &str| buffer.starts_with(format!("GET {path} ").as_bytes());
            stream.write_all(match () {
                () if is_of("/big") => &big,
                () if is_of("/medium") => &medium,
                () => &small,
            })?;
            filled = 0;
        }
    }
}

fn serve_bytes(mut stream: TcpStream) -> std::io::Result<()> {
    let mut asked = [0];
    stream.read_exact(&mut asked)?;
    match &asked {
        b"b" => stream.write_all(&vec![b'x'; BIG]),
        _ => stream.write_all(SMALL),
    }
}

fn version(program: &str) -> Result<String> {
    let output = Command::new(program).arg("-v").output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok(text.lines().next().unwrap_or_default().to_owned())
}
