//! Readers that are held back, while tasks hog the workers.

#[path = "support/hogs.rs"]
mod hogs;
mod support;

use std::time::{Duration, Instant};

use evenkeel::net::{Delivery, TcpListener, TcpStream};
use evenkeel::runtime::Builder;
use hogs::{Gate, Hold};
use support::within;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const DELAY: Duration = Duration::from_millis(50);

async fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let client = within(TcpStream::connect(address)).await.unwrap();
    let (server, _) = within(listener.accept()).await.unwrap();
    (client, server)
}

/// Reads pieces that arrive separately, each a tail.
async fn echo(mut server: TcpStream) {
    let mut buf = [0; 64];
    loop {
        match server.read(&mut buf).await {
            Ok(0) | Err(_) => return,
            Ok(len) => server.write_all(&buf[..len]).await.unwrap(),
        }
    }
}

/// As many hogs as workers, which stay until the end: the worker of each descriptor loses its seat,
/// with entries in its sweep.
fn tails_come_beside(hold: Hold, workers: usize) {
    let runtime = Builder::new().workers(workers).build().unwrap();
    let handle = runtime.handle().clone();
    let mut gate = Gate::closed();
    runtime.block_on(async {
        let mut clients = Vec::new();
        for _ in 0..16 {
            let (client, server) = pair().await;
            let mode = Delivery::Coalesce {
                bytes: 100_000,
                delay: DELAY,
            };
            server.set_delivery(mode).unwrap();
            handle.spawn(echo(server));
            clients.push(client);
        }
        let mut hogs = Vec::new();
        for round in 0..20 {
            for client in &mut clients {
                client.write_all(b"tail").await.unwrap();
            }
            if round == 3 {
                for _ in 0..workers {
                    let entrance = gate.entrance();
                    hogs.push(handle.spawn(async move { entrance.wait(hold) }));
                }
            }
            let began = Instant::now();
            for client in &mut clients {
                let mut heard = [0; 4];
                within(client.read_exact(&mut heard)).await.unwrap();
            }
            assert!(began.elapsed() < Duration::from_secs(20));
        }
        assert!(gate.arrived() > 0, "there were hogs");
        gate.open();
        for hog in hogs {
            within(hog).await.unwrap();
        }
    });
}

#[test]
fn tails_come_beside_tasks_that_compute() {
    tails_come_beside(Hold::Spins, 2);
}

#[test]
fn tails_come_beside_tasks_that_block() {
    tails_come_beside(Hold::Sleeps, 2);
    tails_come_beside(Hold::Locks, 1);
}
