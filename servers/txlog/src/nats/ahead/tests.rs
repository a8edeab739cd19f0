//! Reads from a server that counts its requests.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use evenkeel::net::{TcpListener, TcpStream};
use evenkeel::task::JoinSet;
use evenkeel::time::timeout;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};

use super::*;
use crate::nats::{NatsConfig, NatsStore};
use crate::store::Store;

/// The largest message that the server accepts.
const MESSAGE_BYTES_MAX: usize = 1 << 20;

/// A stream of records of two sizes, whose server answers when no more requests come.
#[derive(Debug, Default)]
struct Stream {
    /// Records up to this one are small.
    small: u64,
    small_bytes: usize,
    large_bytes: usize,
    /// How many records were requested.
    asked: AtomicUsize,
    /// The most at a time.
    most: AtomicUsize,
}

impl Stream {
    async fn serve(self: Arc<Self>, listener: TcpListener) {
        let (stream, _) = listener.accept().await.unwrap();
        let mut stream = BufReader::new(stream);
        let hello = format!(
            "INFO {{\"headers\":true,\"version\":\"2.9.0\",\
             \"max_payload\":{MESSAGE_BYTES_MAX}}}\r\n"
        );
        stream.write_all(hello.as_bytes()).await.unwrap();
        let mut gets: Vec<(String, u64)> = Vec::new();
        // The part of a line that has arrived is kept until more arrives.
        let mut line = Vec::new();
        loop {
            let quiet = Duration::from_millis(50);
            match timeout(quiet, stream.read_until(b'\n', &mut line)).await {
                Err(_) => {
                    for (reply, number) in gets.drain(..) {
                        let answer = self.answer_to(&reply, number);
                        stream.write_all(&answer).await.unwrap();
                    }
                    continue;
                }
                Ok(Ok(0) | Err(_)) => return,
                Ok(_) => {}
            }
            self.heed(&String::from_utf8_lossy(&line), &mut stream, &mut gets)
                .await;
            self.most.fetch_max(gets.len(), Ordering::SeqCst);
            line.clear();
        }
    }

    async fn heed(
        &self,
        line: &str,
        stream: &mut BufReader<TcpStream>,
        gets: &mut Vec<(String, u64)>,
    ) {
        let words: Vec<_> = line.split_ascii_whitespace().collect();
        match words[..] {
            ["PING"] => stream.write_all(b"PONG\r\n").await.unwrap(),
            ["PUB", subject, reply, length] => {
                let mut payload = vec![0; length.parse::<usize>().unwrap() + 2];
                stream.read_exact(&mut payload).await.unwrap();
                if !subject.starts_with("$JS.API.DIRECT.GET.") {
                    let info = br#"{"config":{"subjects":["txlog.txlog"],"allow_direct":true,
                        "storage":"file","retention":"limits","discard":"old",
                        "duplicate_window":120000000000},
                        "created":"2026-11-21T18:48:21Z",
                        "state":{"first_seq":1,"last_seq":100000}}"#;
                    stream.write_all(&message(reply, info)).await.unwrap();
                    return;
                }
                let request: serde_json::Value = serde_json::from_slice(&payload).unwrap();
                gets.push((reply.to_owned(), request["seq"].as_u64().unwrap()));
                self.asked.fetch_add(1, Ordering::SeqCst);
            }
            _ => {}
        }
    }

    fn answer_to(&self, reply: &str, number: u64) -> Vec<u8> {
        let bytes = if number <= self.small {
            self.small_bytes
        } else {
            self.large_bytes
        };
        message(reply, &vec![b'x'; bytes])
    }

    /// Starts the server, and a store that reads from it.
    async fn start(self: &Arc<Self>) -> NatsStore {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        drop(evenkeel::spawn(Arc::clone(self).serve(listener)));
        let config = NatsConfig {
            address,
            ..NatsConfig::default()
        };
        NatsStore::connect(config).await.unwrap()
    }

    fn take_asked(&self) -> usize {
        self.asked.swap(0, Ordering::SeqCst)
    }
}

fn message(subject: &str, payload: &[u8]) -> Vec<u8> {
    let mut message = format!("MSG {subject} 1 {}\r\n", payload.len()).into_bytes();
    message.extend_from_slice(payload);
    message.extend_from_slice(b"\r\n");
    message
}

fn run(test: impl Future<Output = ()>) {
    let mut builder = evenkeel::runtime::Builder::new();
    let runtime = builder.tokio_context(true).build().unwrap();
    runtime
        .block_on(timeout(Duration::from_secs(60), test))
        .unwrap();
}

/// The first read cannot know; the next one uses what it learned.
#[test]
fn no_more_is_asked_for_than_the_read_may_have() {
    run(async {
        let stream = Arc::new(Stream {
            large_bytes: 100_000,
            ..Stream::default()
        });
        let store = stream.start().await;
        let limits = ReadLimits {
            records_max: 1_000,
            bytes_max: 350_000,
        };
        for round in 0..3 {
            let found = store.read(1, limits).await.unwrap();
            assert_eq!(found.records.len(), 3);
            // One more may find that there is no room for it.
            let asked = stream.take_asked();
            assert!(asked <= 4, "{round}: {asked} of 100 kB, of which 3 fit");
        }
        let limits = ReadLimits {
            records_max: 2,
            ..limits
        };
        assert_eq!(store.read(1, limits).await.unwrap().records.len(), 2);
        assert_eq!(stream.take_asked(), 2, "as many as there may be");
    });
}

#[test]
fn small_messages_are_asked_for_many_at_a_time() {
    run(async {
        let stream = Arc::new(Stream {
            large_bytes: 100,
            ..Stream::default()
        });
        let store = stream.start().await;
        let limits = ReadLimits {
            records_max: 200,
            ..ReadLimits::default()
        };
        assert_eq!(store.read(1, limits).await.unwrap().records.len(), 200);
        assert_eq!(stream.most.load(Ordering::SeqCst), MESSAGES_MAX);
        assert_eq!(stream.take_asked(), 200);
    });
}

/// If small messages were the rule, this many large ones would be requested at a time.
#[test]
fn whatever_comes_is_bounded_for_all_reads_together() {
    run(async {
        let stream = Arc::new(Stream {
            small: 100,
            small_bytes: 100,
            large_bytes: 1_000,
            ..Stream::default()
        });
        let store = stream.start().await;
        store
            .read(
                1,
                ReadLimits {
                    records_max: 50,
                    ..ReadLimits::default()
                },
            )
            .await
            .unwrap();
        let mut reads = JoinSet::new();
        for from in 0..100 {
            let store = store.clone();
            reads.spawn(async move {
                let limits = ReadLimits {
                    records_max: 40,
                    ..ReadLimits::default()
                };
                let found = store.read(200 + 40 * from, limits).await.unwrap();
                assert_eq!(found.records.len(), 40);
            });
        }
        while let Some(read) = reads.join_next().await {
            read.unwrap();
        }
        let most = stream.most.load(Ordering::SeqCst);
        assert!(
            most <= (ANSWERS_KIB << 10) / MESSAGE_BYTES_MAX,
            "{most} at a time"
        );
        assert!(most > MESSAGES_MAX, "{most}: one read at a time");
    });
}
