//! Beside hogs, beside clients that are stuck, and while the runtime ends.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use evenkeel::net::{TcpSocket, TcpStream};
use evenkeel::time::sleep;
use evenkeel_admin::{Admin, CONNECTIONS_MAX, listen};
use support::{LIMIT, get, runtime};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

#[test]
fn a_scrape_is_answered_beside_hogs_that_never_return() {
    let runtime = runtime();
    let stop = Arc::new(AtomicBool::new(false));
    runtime.block_on(async {
        let admin = listen("127.0.0.1:0").await.unwrap();
        for _ in 0..8 {
            let stop = Arc::clone(&stop);
            evenkeel::spawn(async move {
                while !stop.load(SeqCst) {
                    std::hint::spin_loop();
                }
            });
        }
        for path in ["/metrics", "/stats", "/healthz"] {
            assert_eq!(get(&admin, path).await.status, 200, "{path}");
        }
        stop.store(true, SeqCst);
    });
    runtime.shutdown(LIMIT).unwrap();
}

/// All places are taken by such clients. Somebody else is answered when they are free again.
async fn hold_nothing_for_long(stuck: impl AsyncFn(&Admin) -> TcpStream) {
    let admin = listen("127.0.0.1:0").await.unwrap();
    let mut clients = Vec::new();
    for _ in 0..CONNECTIONS_MAX {
        clients.push(stuck(&admin).await);
    }
    assert_eq!(get(&admin, "/healthz").await.status, 200);
    drop(clients);
    admin.shutdown().await;
}

#[test]
fn clients_that_say_nothing_hold_nothing_for_long() {
    runtime().block_on(hold_nothing_for_long(async |admin| {
        TcpStream::connect(admin.address()).await.unwrap()
    }));
}

#[test]
fn clients_that_take_no_answer_hold_nothing_for_long() {
    let requests = "GET /metrics HTTP/1.1\r\nhost: localhost\r\n\r\n".repeat(1_000);
    runtime().block_on(hold_nothing_for_long(async |admin| {
        let socket = TcpSocket::new_v4().unwrap();
        // So that the answers do not fit.
        socket.set_recv_buffer_size(4096).unwrap();
        let address = admin.address().parse().unwrap();
        let mut stream = socket.connect(address).await.unwrap();
        let asks = stream.write_all(requests.as_bytes());
        // The server reads no more of them once it cannot write.
        let _ = evenkeel::time::timeout(Duration::from_millis(20), asks).await;
        stream
    }));
}

/// Such a client could answer pings for ever and take no data. It is told at once to go away,
/// however its first bytes come.
#[test]
fn clients_of_http_2_hold_nothing() {
    const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    runtime().block_on(async {
        let admin = listen("127.0.0.1:0").await.unwrap();
        for first in [1, 3, PREFACE.len()] {
            let mut stream = TcpStream::connect(admin.address()).await.unwrap();
            stream.set_nodelay(true).unwrap();
            let (begin, rest) = PREFACE.split_at(first);
            stream.write_all(begin).await.unwrap();
            sleep(Duration::from_millis(5)).await;
            let _ = stream.write_all(rest).await;
            let mut answer = Vec::new();
            // Or it is reset, as what it sent is not read.
            let _ = evenkeel::time::timeout(LIMIT, stream.read_to_end(&mut answer))
                .await
                .expect("it is cut off");
            assert!(answer.is_empty(), "{answer:?}");
        }
        // Requests that begin alike are none of it.
        let mut stream = TcpStream::connect(admin.address()).await.unwrap();
        for part in [
            "P",
            "UT /nowhere HTTP/1.1\r\nhost: localhost\r\n",
            "connection: close\r\n\r\n",
        ] {
            stream.write_all(part.as_bytes()).await.unwrap();
            sleep(Duration::from_millis(5)).await;
        }
        let mut answer = String::new();
        let read = stream.read_to_string(&mut answer);
        evenkeel::time::timeout(LIMIT, read).await.unwrap().unwrap();
        assert!(answer.starts_with("HTTP/1.1 4"), "{answer}");
    });
}

#[test]
fn a_body_that_does_not_come_is_not_waited_for() {
    runtime().block_on(async {
        let admin = listen("127.0.0.1:0").await.unwrap();
        let mut stream = TcpStream::connect(admin.address()).await.unwrap();
        let head = "PUT /settings/classes/bulk HTTP/1.1\r\nhost: localhost\r\n\
                    content-type: application/json\r\ncontent-length: 10\r\n\r\n{";
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = String::new();
        let read = stream.read_to_string(&mut answer);
        evenkeel::time::timeout(LIMIT, read).await.unwrap().unwrap();
        assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
    });
}

#[test]
fn scrapes_while_the_runtime_ends_are_answered_or_cut_off() {
    for round in 0..20 {
        let runtime = runtime();
        let admin = runtime.block_on(listen("127.0.0.1:0")).unwrap();
        let address = admin.address();
        let client = std::thread::spawn(move || {
            use std::io::{Read, Write};
            loop {
                let Ok(mut stream) = std::net::TcpStream::connect(&address) else {
                    return;
                };
                stream.set_read_timeout(Some(LIMIT)).unwrap();
                let request = "GET /metrics HTTP/1.0\r\nhost: localhost\r\n\r\n";
                let mut text = Vec::new();
                if stream.write_all(request.as_bytes()).is_err() {
                    return;
                }
                match stream.read_to_end(&mut text) {
                    Ok(_) if text.is_empty() => return,
                    Ok(_) => {}
                    Err(error) => {
                        assert_ne!(error.kind(), std::io::ErrorKind::WouldBlock, "it hangs");
                        return;
                    }
                }
            }
        });
        runtime.block_on(sleep(Duration::from_millis(round)));
        runtime.shutdown(LIMIT).unwrap();
        client.join().unwrap();
    }
}
