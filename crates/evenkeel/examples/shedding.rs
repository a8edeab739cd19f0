//! A server that refuses requests early when it could only answer them late: before a connection
//! gets a task, it asks how long that task would wait, and answers "503" at once if that is too
//! long.
//!
//! A server without such a limit answers later and later. In the end its clients have given up
//! before they are answered, and it still does all the work. Three things make the difference here:
//!
//! 1. The accept loop and the refusals are of class `urgent`, so that they are in time whatever the
//!    requests do.
//! 2. [`Handle::load`](evenkeel::runtime::Handle::load) says how long a task of the requests' class
//!    would wait.
//! 3. A refusal costs little: it reads no request, and is bounded in time and number.
//!
//! ```sh
//! cargo run --example shedding -- 127.0.0.1:7006 20
//! curl -i 127.0.0.1:7006/100                                  # 100 ms of work
//! seq 400 | xargs -P 400 -I_ curl -s -o /dev/null -w '%{http_code}\n' 127.0.0.1:7006/100 |
//!     sort | uniq -c
//! ```

mod cli;

use std::io;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use evenkeel::Class;
use evenkeel::net::{TcpListener, TcpStream};
use evenkeel::runtime::Handle;
use evenkeel::task::checkpoint;
use evenkeel::time::timeout;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Semaphore;

/// How long a client may take to send its request, or to read its answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// The longest request that is read.
const REQUEST_BYTES_MAX: usize = 8 * 1024;

/// The most work that a request may ask for.
const WORK_MS_MAX: u64 = 10_000;

/// When this many refusals are being sent, further connections are closed without an answer.
const REFUSALS_MAX: usize = 1_000;

const HELP: &str = "\
Computes for as many milliseconds as the path of a request says, and refuses a request with \"503\"
if it would have to wait too long.

Usage: shedding [ADDRESS [MILLISECONDS]]

  ADDRESS       where to listen; 127.0.0.1:7006 by default, port 0 for a free one
  MILLISECONDS  how long a request may wait; 20 by default
";

#[evenkeel::main]
async fn main() -> ExitCode {
    match cli::arguments(HELP, ["127.0.0.1:7006", "20"]) {
        Ok([address, wait]) => cli::end(run(&address, &wait).await),
        Err(end) => end,
    }
}

async fn run(address: &str, wait: &str) -> Result<(), String> {
    let no_limit = |_| format!("`{wait}` is no number of milliseconds; see `--help`");
    let limit = Duration::from_millis(wait.parse().map_err(no_limit)?);
    let cannot = |error| format!("cannot listen on {address}: {error}");
    let listener = TcpListener::bind(address).await.map_err(cannot)?;
    println!("listening on {}", listener.local_addr().map_err(cannot)?);
    let accepting = evenkeel::spawn_in(Class::URGENT, accept(listener, limit));
    accepting.await.map_err(|error| error.to_string())
}

/// Accepts connections, and serves or refuses them.
async fn accept(listener: TcpListener, limit: Duration) {
    let runtime = Handle::current();
    let refusals = Arc::new(Semaphore::new(REFUSALS_MAX));
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                eprintln!("cannot accept: {error}");
                continue;
            }
        };
        if runtime.load(Class::NORMAL).wait <= limit {
            // Errors of a connection concern only its client, which knows them already.
            drop(evenkeel::spawn_in(Class::NORMAL, async {
                timeout(PATIENCE, serve(stream)).await
            }));
        } else if let Ok(permit) = Arc::clone(&refusals).try_acquire_owned() {
            // In the class of this task.
            drop(evenkeel::spawn(async {
                let refused = timeout(PATIENCE, refuse(stream)).await;
                drop(permit);
                refused
            }));
        }
    }
}

/// Reads one request, does its work, and answers.
async fn serve(mut stream: TcpStream) -> io::Result<()> {
    let mut request = Vec::new();
    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
        if request.len() > REQUEST_BYTES_MAX || stream.read_buf(&mut request).await? == 0 {
            return Ok(());
        }
    }
    let Some(work_ms) = work_of(&request) else {
        let advice = format!("GET /MILLISECONDS, {WORK_MS_MAX} at most\n");
        return answer(stream, "400 Bad Request", &advice).await;
    };
    work(work_ms).await;
    answer(stream, "200 OK", &format!("{work_ms} ms of work done\n")).await
}

/// How many milliseconds of work a request asks for.
fn work_of(request: &[u8]) -> Option<u64> {
    let request = std::str::from_utf8(request).ok()?;
    let path = request.strip_prefix("GET /")?.split(' ').next()?;
    path.parse().ok().filter(|&work_ms| work_ms <= WORK_MS_MAX)
}

/// Computes in steps, and yields to other tasks between them.
async fn work(work_ms: u64) {
    for _ in 0..work_ms * 20 {
        let began = Instant::now();
        while began.elapsed() < Duration::from_micros(50) {
            std::hint::spin_loop();
        }
        checkpoint().await;
    }
}

/// Answers that the server is too busy.
async fn refuse(stream: TcpStream) -> io::Result<()> {
    answer(
        stream,
        "503 Service Unavailable\r\nretry-after: 1",
        "too busy, try again later\n",
    )
    .await
}

async fn answer(mut stream: TcpStream, status: &str, body: &str) -> io::Result<()> {
    let length = body.len();
    let head = format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {length}\r\n");
    stream
        .write_all(format!("{head}\r\n{body}").as_bytes())
        .await?;
    stream.shutdown().await?;
    // If it closed with unread data, the system would send a reset, which may overtake the answer.
    let mut rest = stream.take(REQUEST_BYTES_MAX as u64);
    while rest.read(&mut [0; 1024]).await? > 0 {}
    Ok(())
}
