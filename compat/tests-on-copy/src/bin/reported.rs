//! A program that hogs, blocks, and uses what is left to Tokio; then it ends as its argument says.

use std::time::{Duration, Instant};
use tokio::signal::unix::{SignalKind, signal};

/// As in a library: what it spawns is known by the type of the future.
fn library_spawns<F: Future<Output = ()> + Send + 'static>(future: F) -> impl Future {
    tokio::spawn(future)
}

async fn parse_at_length() {
    let began = Instant::now();
    while began.elapsed() < Duration::from_millis(300) {
        std::hint::spin_loop();
    }
}

#[tokio::main(worker_threads = 2)]
async fn main() {
    _ = library_spawns(parse_at_length()).await;
    let blocks = tokio::spawn(async {
        tokio::task::block_in_place(|| std::thread::sleep(Duration::from_millis(300)));
    });
    _ = blocks.await;
    _ = signal(SignalKind::user_defined1());
    let inner = std::thread::spawn(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        runtime.map(|runtime| runtime.block_on(async {}))
    });
    _ = inner.join();
    if std::env::args().nth(1).as_deref() == Some("exit") {
        std::process::exit(0);
    }
}
