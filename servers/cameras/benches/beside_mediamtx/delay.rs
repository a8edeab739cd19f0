//! How late live pictures are: from the moment at which a camera has sent one, which it writes into
//! it, to the moment at which a client of the page's WebSocket has it.

use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use cameras::simulator::stamps;
use evenkeel_measure::latency::Latencies;
use tokio_tungstenite::tungstenite::{Message, client};

use super::Result;
use super::rows::Rows;
use super::servers::{LIMIT, Server};

/// How many cameras are looked at, each on a thread.
const VIEWERS: u32 = 8;
/// What was there before, and until the server has noticed that somebody watches.
const SETTLED: Duration = Duration::from_secs(4);
/// For how long.
const SAMPLE: Duration = Duration::from_secs(8);

/// Looks at some of the cameras at the same time.
pub(crate) fn live(server: &Server, cameras: u32, rows: &mut Rows) -> Result<()> {
    let address = server.http;
    let step = (cameras / VIEWERS).max(1) as usize;
    // The first one is watched by RTSP too.
    let chosen = (0..cameras).skip(1).step_by(step).take(VIEWERS as usize);
    let viewers: Vec<_> = chosen
        .map(|camera| {
            let url = format!("ws://{address}/api/cameras/cam{camera}/live");
            thread::spawn(move || {
                let stream = TcpStream::connect(address)?;
                stream.set_read_timeout(Some(LIMIT))?;
                view(stream, &url)
            })
        })
        .collect();
    let mut all = Latencies::new();
    let mut pictures = 0_u64;
    for viewer in viewers {
        for delay in viewer.join().map_err(|_| "a viewer panicked")?? {
            all.record(delay);
            pictures += 1;
        }
    }
    if pictures == 0 {
        return Err("no live picture came".into());
    }
    let ms = |percent| all.percentile(percent).as_secs_f64() * 1_000.0;
    rows.figure("delay of a live picture by WebSocket, median", "ms", ms(50));
    rows.at_most("delay of a live picture, 99 of 100", "ms", ms(99), 200.0);
    Ok(())
}

/// The delay of each picture.
fn view(stream: TcpStream, url: &str) -> Result<Vec<Duration>> {
    let (mut socket, _) = client(url, stream).map_err(|error| error.to_string())?;
    let began = Instant::now();
    let mut delays = Vec::new();
    while began.elapsed() < SETTLED + SAMPLE {
        let Message::Binary(part) = socket.read()? else {
            continue;
        };
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
        if began.elapsed() >= SETTLED {
            let delay = |sent_us| now.saturating_sub(Duration::from_micros(sent_us));
            delays.extend(stamps(&part).map(|(_, stamp)| delay(stamp.sent_us)));
        }
    }
    Ok(delays)
}
