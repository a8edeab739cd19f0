//! Whether the accounts of routes add up to the processor time that the kernel charges the process.
//!
//! Each of many routes is in a class of its own. Clients ask all of them at once, some requests at
//! a time on each connection, so that the proxy has work at every moment: what it spends to fall
//! asleep and to wake up is in no account. The accounts go by the clock, so they count time in
//! which the kernel ran another program in the middle of a poll; the kernel says how long the
//! worker waited for a processor, and that counts on its side, too. The proxy has a processor of
//! its own where there are two. Prints what each route had, and fails if the sum is off by more
//! than the tolerance.

use std::error::Error;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use clap::Parser;
use evenkeel_measure::table::{Cell, Table};
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use serde_json::Value;

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// Compares the sum of the accounts of evenkeel-proxy with the processor time of its process.
#[derive(Parser)]
struct Arguments {
    /// Routes, each in a class of its own
    #[arg(long, default_value_t = 40, value_parser = clap::value_parser!(u16).range(1..=61))]
    routes: u16,
    /// How long the clients ask
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..=600))]
    seconds: u16,
    /// How much the sum may be off, in percent
    #[arg(long, default_value_t = 2.0)]
    tolerance: f64,
    /// Cargo passes it to every benchmark.
    #[arg(long, hide = true)]
    bench: bool,
}

/// So many connections, each with so many requests under way.
const CLIENTS: usize = 4;
const AT_A_TIME: usize = 16;
/// Before the accounts are first read, so that the process has begun.
const WARM_UP: Duration = Duration::from_millis(300);
/// Nothing takes longer.
const LIMIT: Duration = Duration::from_secs(20);
const BODY: &str = "hello";

fn main() -> Result<ExitCode> {
    let arguments = Arguments::parse();
    let [of_proxy, of_others] = processors()?;
    let directory = tempfile::tempdir()?;
    // Threads inherit the processors of those that start them.
    pin(&of_others)?;
    let origin = origin()?;
    pin(&of_proxy)?;
    let proxy = Proxy::start(directory.path(), origin, arguments.routes)?;
    pin(&of_others)?;

    proxy.load(arguments.routes, WARM_UP)?;
    let before = proxy.reading()?;
    proxy.load(
        arguments.routes,
        Duration::from_secs(arguments.seconds.into()),
    )?;
    let after = proxy.reading()?;
    let off = show(&before, &after);
    let is_within = off.abs() <= arguments.tolerance;
    println!(
        "off by {off:+.2} %, {} the tolerance of {} %",
        if is_within { "within" } else { "beyond" },
        arguments.tolerance
    );
    Ok(if is_within {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// One for the proxy and one for all others, or both the same if there is only one.
fn processors() -> Result<[CpuSet; 2]> {
    let all = sched_getaffinity(Pid::from_raw(0))?;
    let mut there = (0..CpuSet::count()).filter(|&cpu| all.is_set(cpu).unwrap_or(false));
    let first = there.next().ok_or("this process may use no processor")?;
    let second = there.next().unwrap_or(first);
    let only = |cpu| -> Result<CpuSet> {
        let mut set = CpuSet::new();
        set.set(cpu)?;
        Ok(set)
    };
    Ok([only(first)?, only(second)?])
}

fn pin(set: &CpuSet) -> Result<()> {
    Ok(sched_setaffinity(Pid::from_raw(0), set)?)
}

/// The accounts and the kernel's figure at one moment, in milliseconds.
struct Reading {
    /// By class, and what belongs to none.
    rows: Vec<(String, f64)>,
    /// How long the process's threads ran, and how long its worker waited for a processor.
    kernel: [f64; 2],
}

/// Prints what was added between two readings. Returns by how much the sum is off, in percent.
fn show(before: &Reading, after: &Reading) -> f64 {
    let added: Vec<(&str, f64)> = (after.rows.iter().zip(&before.rows))
        .map(|((name, after), (_, before))| (name.as_str(), after - before))
        .collect();
    let sum: f64 = added.iter().map(|(_, ms)| ms).sum();
    let [ran, waited] = [0, 1].map(|at| after.kernel[at] - before.kernel[at]);
    let kernel = ran + waited;
    let ms = |ms: f64| Cell::number(ms, "ms", 3);
    let part = |ms: f64| Cell::number(ms / kernel * 100.0, "%", 2);
    let row = |name: &str, time: f64| vec![Cell::Text(name.to_owned()), ms(time), part(time)];
    let mut rows: Vec<_> = added.iter().map(|&(name, time)| row(name, time)).collect();
    rows.push(row("sum of the accounts", sum));
    rows.push(row("the process ran, by the kernel", ran));
    rows.push(row("its worker waited for a processor", waited));
    rows.push(row("both", kernel));
    let columns = ["account", "processor time", "of the process"];
    let columns = columns.map(str::to_owned).to_vec();
    println!("{}", Table::new("accounts of the proxy", columns, rows));
    (sum / kernel - 1.0) * 100.0
}

/// A proxy at work, which ends with this.
struct Proxy {
    child: Child,
    address: SocketAddr,
    socket: PathBuf,
}

impl Proxy {
    fn start(directory: &Path, origin: SocketAddr, routes: u16) -> Result<Self> {
        let (file, socket) = (directory.join("proxy.toml"), directory.join("admin"));
        let class = |number| format!("[class.r{number}]\nshare = 50\n");
        let route = |number| {
            format!(
                "[[listener.web.route]]\npath = \"/r{number}\"\npool = \"app\"\n\
                 class = \"r{number}\"\n"
            )
        };
        let parts = [
            format!("[process]\nworkers = 1\nconnections_max = 1000\nadmin_socket = {socket:?}\n"),
            (0..routes).map(class).collect(),
            "[listener.web]\nbind = \"127.0.0.1:0\"\nmode = \"http\"\npool = \"app\"\n".to_owned(),
            (0..routes).map(route).collect(),
            format!("[[pool.app.server]]\nname = \"s\"\naddress = \"{origin}\"\n"),
        ];
        std::fs::write(&file, parts.concat())?;
        let mut child = Command::new(env!("CARGO_BIN_EXE_evenkeel-proxy"))
            .arg("run")
            .arg(&file)
            .stdout(Stdio::piped())
            .spawn()?;
        let output = child.stdout.take().ok_or("it has no output")?;
        let mut address = None;
        for line in BufReader::new(output).lines() {
            let line = line?;
            address = address.or_else(|| line.strip_prefix("listening on web ")?.parse().ok());
            if line == "ready" {
                break;
            }
        }
        Ok(Self {
            child,
            address: address.ok_or("the proxy does not begin")?,
            socket,
        })
    }

    fn reading(&self) -> Result<Reading> {
        let mut stream = UnixStream::connect(&self.socket)?;
        stream.set_read_timeout(Some(LIMIT))?;
        stream.write_all(b"show cpu json\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let kernel = self.kernel()?;
        let rows: Vec<Value> = serde_json::from_str(&answer)?;
        let row = |row: &Value| {
            let name = row["class"].as_str().ok_or("a row has no name")?;
            let time = row["run_ms"].as_f64().ok_or("a row has no time")?;
            Ok((name.to_owned(), time))
        };
        let rows = rows.iter().map(row).collect::<Result<_>>()?;
        Ok(Reading { rows, kernel })
    }

    /// How long its threads have run so far, and its worker has waited for a processor, in
    /// milliseconds. The worker is the thread that has run for longest.
    fn kernel(&self) -> Result<[f64; 2]> {
        let mut threads = Vec::new();
        for thread in std::fs::read_dir(format!("/proc/{}/task", self.child.id()))? {
            let text = std::fs::read_to_string(thread?.path().join("schedstat"))?;
            let mut parts = text
                .split(' ')
                .map(|ns| ns.parse::<f64>().map(|ns| ns / 1e6));
            let mut next = || {
                parts
                    .next()
                    .ok_or("the kernel does not say how long threads run")
            };
            threads.push([next()??, next()??]);
        }
        let ran = threads.iter().map(|[ran, _]| ran).sum();
        let worker = threads
            .iter()
            .max_by(|one, other| one[0].total_cmp(&other[0]));
        Ok([ran, worker.map_or(0.0, |[_, waited]| *waited)])
    }

    /// Asks all routes, again and again.
    fn load(&self, routes: u16, length: Duration) -> Result<()> {
        let until = Instant::now() + length;
        thread::scope(|scope| {
            let ask = || self.ask(routes, until);
            let clients: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(ask)).collect();
            let done = clients.into_iter().map(|client| match client.join() {
                Ok(done) => done,
                Err(_) => Err("a client has panicked".into()),
            });
            done.collect()
        })
    }

    fn ask(&self, routes: u16, until: Instant) -> Result<()> {
        let mut stream = TcpStream::connect(self.address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(LIMIT))?;
        let mut numbers = (0..routes).cycle();
        let mut buffer = vec![0; 64 << 10];
        while Instant::now() < until {
            let asked = numbers.by_ref().take(AT_A_TIME);
            let requests =
                asked.map(|number| format!("GET /r{number} HTTP/1.1\r\nHost: a\r\n\r\n"));
            stream.write_all(requests.collect::<String>().as_bytes())?;
            answers(&mut stream, &mut buffer)?;
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

/// Reads as many answers as were asked for: each ends with the body, which is found nowhere else.
fn answers(stream: &mut TcpStream, buffer: &mut [u8]) -> Result<()> {
    let (mut filled, body) = (0, format!("\r\n\r\n{BODY}"));
    loop {
        let came = stream.read(&mut buffer[filled..])?;
        if came == 0 {
            return Err("a connection ended before all answers were there".into());
        }
        filled += came;
        let text = String::from_utf8_lossy(&buffer[..filled]);
        let mut parts = text.split("HTTP/1.1 ").filter(|answer| answer.len() >= 4);
        if let Some(bad) = parts.find(|answer| !answer.starts_with("200 ")) {
            return Err(format!("no good answer: {bad}").into());
        }
        if text.matches(&body).count() == AT_A_TIME {
            return Ok(());
        }
    }
}

/// A server behind the proxy, for as long as the process lasts.
fn origin() -> Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    thread::spawn(move || {
        for stream in listener.incoming().map_while(std::result::Result::ok) {
            // The proxy may go away at any time.
            thread::spawn(move || drop(serve(stream)));
        }
    });
    Ok(address)
}

fn serve(mut stream: TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let length = BODY.len();
    let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{BODY}");
    let (mut buffer, mut filled) = ([0; 4_096], 0);
    loop {
        let came = stream.read(&mut buffer[filled..])?;
        if came == 0 {
            return Ok(());
        }
        filled += came;
        if buffer[..filled].ends_with(b"\r\n\r\n") {
            stream.write_all(answer.as_bytes())?;
            filled = 0;
        }
    }
}
