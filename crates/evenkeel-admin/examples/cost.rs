//! What looking costs: the processor time of the process and of `evenkeel top` while it is looked
//! at once a second with 100 000 tasks alive, and how long a scrape takes beside 8 hogs that never
//! return.
//!
//! ```sh
//! cargo run --release --example cost -p evenkeel-admin
//! ```
//!
//! It has cargo build `evenkeel top`, and needs Linux for its part of the figures.

#[cfg(target_os = "linux")]
#[path = "cost/top.rs"]
mod top;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use evenkeel::runtime::{Builder, Runtime};
use evenkeel_admin::{Snapshot, listen};

const TASKS: usize = 100_000;
const HOGS: usize = 8;
const LOOKS: u32 = 10;
const SCRAPES: usize = 200;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let runtime = Builder::new().workers(2).build()?;
    let admin = runtime.block_on(listen("127.0.0.1:0"))?;
    let address = admin.address();
    for _ in 0..TASKS {
        runtime.spawn(std::future::pending::<()>());
    }
    std::thread::sleep(Duration::from_secs(2));

    println!("looked at once a second, {TASKS} tasks alive, per cent of a processor:");
    println!("  {:>11}  {:>8}", "", "server");
    for (name, path) in [
        ("nobody", None),
        ("page, top", Some("/stats")),
        // What both ask besides while they show tasks: all are looked at for it.
        ("page, tasks", Some("/tasks?limit=20&sort=run")),
        ("top, tasks", Some("/tasks?limit=1000")),
        ("scrape", Some("/metrics")),
    ] {
        let before = cpu(&address)?;
        for _ in 0..LOOKS {
            if let Some(path) = path {
                get(&address, path)?;
            }
            std::thread::sleep(Duration::from_secs(1));
        }
        // Less what it takes to read the figure itself, which "nobody" shows.
        let used = cpu(&address)?.saturating_sub(before) as f64 / 1e9;
        println!("  {name:>11}  {:>7.3} %", 100.0 * used / f64::from(LOOKS));
    }
    #[cfg(target_os = "linux")]
    measure_top(&address)?;

    hog(&runtime);
    std::thread::sleep(Duration::from_secs(1));
    let mut times = Vec::with_capacity(SCRAPES);
    for _ in 0..SCRAPES {
        let began = Instant::now();
        get(&address, "/metrics")?;
        times.push(began.elapsed());
        std::thread::sleep(Duration::from_millis(10));
    }
    times.sort_unstable();
    let at = |part: usize| times[(SCRAPES - 1) * part / 100];
    println!(
        "a scrape beside {HOGS} hogs: median {:.2?}, 99th percentile {:.2?}",
        at(50),
        at(99)
    );
    // The hogs never return, so an orderly end would wait for them.
    std::process::exit(0);
}

/// The same of who looks: `top` itself, on a screen and line by line.
#[cfg(target_os = "linux")]
fn measure_top(address: &str) -> Result<(), Box<dyn std::error::Error>> {
    let program = top::build()?;
    println!("  {:>11}  {:>8}  {:>8}", "", "server", "itself");
    for (name, plain, keys) in [
        ("top", false, ""),
        ("top, tasks", false, "t"),
        ("top --plain", true, ""),
    ] {
        let mut top = top::Top::start(&program, address, plain)?;
        top.press(keys)?;
        // It has started, and looked at least once.
        std::thread::sleep(Duration::from_secs(2));
        let before = (cpu(address)?, top.cpu()?);
        std::thread::sleep(LOOKS * Duration::from_secs(1));
        let now = (cpu(address)?, top.cpu()?);
        let percent = |used: u64| 100.0 * used as f64 / 1e9 / f64::from(LOOKS);
        let [server, itself] = [now.0 - before.0, now.1 - before.1].map(percent);
        println!("  {name:>11}  {server:>7.3} %  {itself:>7.3} %");
        top.end()?;
    }
    Ok(())
}

fn hog(runtime: &Runtime) {
    for _ in 0..HOGS {
        runtime.spawn(async {
            loop {
                std::hint::spin_loop();
            }
        });
    }
}

fn cpu(address: &str) -> Result<u64, Box<dyn std::error::Error>> {
    let snapshot: Snapshot = serde_json::from_str(&get(address, "/stats")?)?;
    Ok(snapshot.process.map_or(0, |process| process.cpu))
}

fn get(address: &str, path: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    let (_, body) = text.split_once("\r\n\r\n").unwrap_or_default();
    Ok(body.to_owned())
}
