//! A process with some work of all sorts, to look at its admin page.
//!
//! ```sh
//! cargo run --example demo -p evenkeel-admin -- 127.0.0.1:7070
//! # then open http://127.0.0.1:7070/
//! ```

use std::hint::spin_loop;
use std::time::{Duration, Instant};

use evenkeel::Class;
use evenkeel::net::UnixStream;
use evenkeel::time::sleep;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

#[evenkeel::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args()
        .nth(1)
        .unwrap_or("127.0.0.1:7070".to_owned());
    let admin = evenkeel_admin::listen(&address).await?;
    println!("admin page: http://{}/", admin.address());
    evenkeel::spawn_in(Class::BULK, chunks());
    evenkeel::spawn(hog());
    evenkeel::spawn(pause());
    for _ in 0..8 {
        evenkeel::spawn(talk());
    }
    std::future::pending::<()>().await;
    Ok(())
}

/// Computes in small steps, a tenth of the time.
async fn chunks() {
    loop {
        for _ in 0..20 {
            compute(Duration::from_micros(500));
            evenkeel::task::yield_now().await;
        }
        sleep(Duration::from_millis(90)).await;
    }
}

/// Computes for 50 ms in one poll, now and then.
async fn hog() {
    loop {
        sleep(Duration::from_millis(450)).await;
        compute(Duration::from_millis(50));
    }
}

/// Blocks a thread of the lane for blocking work.
async fn pause() {
    loop {
        let pause = evenkeel::spawn_blocking(|| std::thread::sleep(Duration::from_millis(5)));
        if pause.await.is_err() {
            return;
        }
        sleep(Duration::from_millis(20)).await;
    }
}

/// Two tasks send each other a byte a hundred times a second.
async fn talk() -> std::io::Result<()> {
    let (mut one, mut other) = UnixStream::pair()?;
    evenkeel::spawn(async move {
        while let Ok(byte) = other.read_u8().await {
            if other.write_u8(byte).await.is_err() {
                break;
            }
        }
    });
    loop {
        one.write_u8(1).await?;
        one.read_u8().await?;
        sleep(Duration::from_millis(10)).await;
    }
}

fn compute(length: Duration) {
    let began = Instant::now();
    while began.elapsed() < length {
        spin_loop();
    }
}
