//! What the admin listener of a server says: metrics, and whether it is well.

use std::collections::{BTreeSet, HashMap};
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::support::certificates::{Authority, security};
use crate::support::memory::{MemoryDisk, append_that_fails};
use crate::support::program::Server as Program;
use crate::support::secured::{TokenFile, hello_with, secret};
use crate::support::served::{Raw, append};
use crate::support::{LIMIT, numbered, run, small};
use evenkeel::net::TcpStream;
use evenkeel::time::timeout;
use evenkeel_admin::{Admin, Builder};
use servers_common::testing::alerts;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::oneshot;
use txlog::access::Security;
use txlog::log::Log;
use txlog::server::{Server, ServerConfig, metrics_page};
use txlog_client::{Client, Connect, Cursor, Identity, Trim};

/// The status and the body of an answer.
async fn get(address: &str, path: &str) -> (u16, String) {
    let exchange = async {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request =
            format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        text
    };
    let text = timeout(LIMIT, exchange).await.expect("an answer");
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, body.to_owned())
}

/// The samples of a scrape.
async fn scrape(address: &str) -> HashMap<String, f64> {
    let (status, body) = get(address, "/metrics").await;
    assert_eq!(status, 200);
    let lines = body.lines().filter(|line| !line.starts_with('#'));
    let samples = lines.map(|line| line.rsplit_once(' ').unwrap());
    let read = samples.map(|(name, value)| (name.to_owned(), value.parse().unwrap()));
    read.collect()
}

/// Serves a log in memory with an admin listener while `test` runs.
fn serving(tokens: &TokenFile, test: impl AsyncFnOnce(SocketAddr, &str, &MemoryDisk)) {
    serving_with(ServerConfig::default(), tokens.security(), test);
}

fn serving_with(
    config: ServerConfig,
    security: Security,
    test: impl AsyncFnOnce(SocketAddr, &str, &MemoryDisk),
) {
    run(async {
        let disk = MemoryDisk::new(1);
        let (log, _) = Log::open(disk.clone(), small()).await.unwrap();
        let logs = (Some(log), None);
        let server = Server::bind_secured("127.0.0.1:0", logs, config, security);
        let server = server.await.unwrap();
        let address = server.local_addr().unwrap();
        let (of_metrics, of_health) = (server.observer(), server.observer());
        let admin: Admin = Builder::new()
            .metrics(move |families| of_metrics.metrics(families))
            .health(move || {
                let observer = of_health.clone();
                async move { observer.health(Duration::from_secs(30)).await }
            })
            .listen("127.0.0.1:0")
            .await
            .unwrap();
        let (end, ends) = oneshot::channel::<()>();
        let server = evenkeel::spawn(server.run(async {
            let _ = ends.await;
        }));
        test(address, &admin.address(), &disk).await;
        drop(end);
        // The log may have failed on purpose.
        let _ = server.await.unwrap();
        admin.shutdown().await;
    });
}

#[test]
fn what_happens_is_counted() {
    let tokens = TokenFile::new(&[("one", "append,read", &[]), ("reader", "read", &[])]);
    serving(&tokens, async |address, admin, _| {
        let connect = Connect::new().token(secret("one"));
        let client = connect.connect(address).await.unwrap();
        for _ in 0..5 {
            client.append("ten bytes.").await.unwrap();
        }
        let (records, _) = client.read(1, Duration::ZERO).await.unwrap();
        assert_eq!(records.len(), 5);
        let (mut reader, _) = Raw::logged_in(address, secret("reader")).await;
        reader.ask(&append(1, "not allowed")).await;
        reader.answer().await.unwrap();
        let stranger = Client::connect(address).await.unwrap();
        stranger.append("not allowed").await.unwrap_err();
        let mut wrong = Raw::connect(address).await;
        wrong.ask(&hello_with("", secret("nobody"))).await;
        wrong.answer().await.unwrap();
        let samples = scrape(admin).await;
        for (name, value) in [
            ("txlog_appended_records_total{log=\"\"}", 5.0),
            ("txlog_appended_bytes_total{log=\"\"}", 50.0),
            ("txlog_batches_total{log=\"\"}", 0.0),
            ("txlog_append_durable_seconds_count{log=\"\"}", 5.0),
            ("txlog_reads_total{log=\"\"}", 1.0),
            ("txlog_refusals_total{log=\"\",code=\"not_allowed\"}", 1.0),
            ("txlog_strangers_refused_total", 1.0),
            ("txlog_failed_logins_total", 1.0),
            ("txlog_log_first_record{log=\"\"}", 1.0),
            ("txlog_log_next_record{log=\"\"}", 6.0),
            ("txlog_log_failed{log=\"\"}", 0.0),
            ("txlog_connections{state=\"known\"}", 2.0),
            ("txlog_memory_held_bytes{part=\"appends\"}", 0.0),
            ("txlog_tls_handshakes_total{outcome=\"done\"}", 0.0),
        ] {
            assert_eq!(samples.get(name), Some(&value), "{name}");
        }
        let at_least = |name: &str, least: f64| {
            assert!(samples[name] >= least, "{name}: {}", samples[name]);
        };
        at_least("txlog_connections{state=\"strangers\"}", 1.0);
        at_least("txlog_log_sync_seconds_count{log=\"\"}", 1.0);
        at_least("txlog_log_segments{log=\"\"}", 1.0);
        at_least("txlog_log_size_bytes{log=\"\"}", 50.0);
        at_least("txlog_log_mark_timestamp_seconds{log=\"\"}", 1e9);
        at_least("txlog_read_bytes_total{log=\"\"}", 50.0);
        drop(stranger);
    });
}

/// Puts a named cursor there.
async fn put(client: &Client, name: &str, sequence: u64) {
    let Identity { log, epoch } = client.info().identity.unwrap();
    let cursor = Cursor {
        log,
        epoch,
        sequence,
    };
    client.set_cursor(name, cursor).await.unwrap();
}

#[test]
fn it_is_shown_how_far_consumers_are_behind_and_how_many_are_not_shown() {
    let tokens = TokenFile::new(&[("all", "append,read,admin", &[])]);
    serving(&tokens, async |address, admin, _| {
        let client = Connect::new().token(secret("all"));
        let client = client.connect(address).await.unwrap();
        for number in 1..=30 {
            client.append(numbered(number)).await.unwrap();
        }
        put(&client, "billing", 25).await;
        put(&client, "ahead", 31).await;
        let samples = scrape(admin).await;
        let of = |name: &str, cursor: &str| {
            samples[&format!("txlog_log_cursor_{name}{{log=\"\",cursor=\"{cursor}\"}}")]
        };
        assert_eq!(
            (of("sequence", "billing"), of("lag_records", "billing")),
            (25.0, 6.0)
        );
        assert_eq!(
            (of("sequence", "ahead"), of("lag_records", "ahead")),
            (31.0, 0.0)
        );
        let all = async |names: [&str; 3]| {
            let samples = scrape(admin).await;
            names.map(|name| samples[&format!("txlog_log_{name}{{log=\"\"}}")])
        };
        let names = ["cursor_lag_max_records", "cursors_left_out", "cursors_lost"];
        assert_eq!(all(names).await, [6.0, 0.0, 0.0]);
        for number in 0..70 {
            put(&client, &format!("consumer-{number:02}"), 3).await;
        }
        client.trim(Trim::before(20).force(true)).await.unwrap();
        let oldest = scrape(admin).await["txlog_log_first_record{log=\"\"}"];
        assert_eq!(all(names).await, [31.0 - oldest, 8.0, 70.0]);
        let samples = scrape(admin).await;
        let shown = samples
            .keys()
            .filter(|name| name.contains("cursor="))
            .count();
        assert_eq!(shown, 2 * 64);
    });
}

/// A consumer that is gone is behind also when the server was started again.
#[test]
fn a_consumer_is_shown_though_nobody_has_asked_for_it() {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log");
    let socket = directory.path().join("admin");
    let admin = format!("unix:{}", socket.display());
    let start = || Program::start(&log, &["--admin", &admin]);
    let mut server = start();
    run(async {
        let client = Client::connect(server.address).await.unwrap();
        client.append("one").await.unwrap();
        put(&client, "billing", 1).await;
    });
    server.signal("TERM");
    assert!(server.ended().success());
    let _server = start();
    let sample = "txlog_log_cursor_lag_records{log=\"\",cursor=\"billing\"} 1";
    run(async {
        let shown = async {
            while !get_at(&socket, "/metrics").await.contains(sample) {
                evenkeel::time::sleep(Duration::from_millis(50)).await;
            }
        };
        timeout(LIMIT / 2, shown).await.expect("it is shown");
    });
}

/// Asks at a Unix socket: the whole answer.
async fn get_at(socket: &Path, path: &str) -> String {
    let mut stream = evenkeel::net::UnixStream::connect(socket).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    let answer = async {
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        text
    };
    timeout(LIMIT, answer).await.expect("an answer")
}

/// It has not said hello, so it leaves for a newcomer: at once, and not when its time is up.
#[test]
fn a_handshake_that_stands_still_is_cut_off_for_a_newcomer() {
    let authority = Authority::new("ours");
    let issued = authority.issue("server", &["127.0.0.1"]);
    let config = ServerConfig {
        connections_max: 1,
        reserve_max: 1,
        ..ServerConfig::default()
    };
    serving_with(
        config,
        security(&issued, None),
        async |address, admin, _| {
            let mut half = Vec::new();
            for _ in 0..3 {
                half.push(TcpStream::connect(address).await.unwrap());
            }
            let ended = async {
                loop {
                    let samples = scrape(admin).await;
                    let count = |outcome: &str| {
                        samples[&format!("txlog_tls_handshakes_total{{outcome=\"{outcome}\"}}")]
                    };
                    let (cut, too_slow) = (count("cut"), count("too_slow"));
                    if cut + too_slow > 0.0 {
                        break (cut, too_slow);
                    }
                }
            };
            assert_eq!(timeout(LIMIT / 2, ended).await.unwrap(), (1.0, 0.0));
            drop(half);
        },
    );
}

#[test]
fn every_metric_of_the_page_is_scraped_and_no_other() {
    let tokens = TokenFile::new(&[("one", "append,read", &[]), ("reader", "read", &[])]);
    serving(&tokens, async |address, admin, _| {
        let (mut reader, _) = Raw::logged_in(address, secret("reader")).await;
        reader.ask(&append(1, "for a refusal to be counted")).await;
        reader.answer().await.unwrap();
        let client = Connect::new().token(secret("one"));
        let client = client.connect(address).await.unwrap();
        put(&client, "billing", 1).await;
        let page = metrics_page();
        let names = page.lines().filter_map(|line| line.strip_prefix("| `"));
        let mut documented: BTreeSet<_> = names
            .map(|line| line.split('`').next().unwrap().to_owned())
            .collect();
        assert!(documented.remove("txlog_nats_connected"), "only with NATS");
        let base = |sample: &String| {
            let name = sample.split('{').next().unwrap();
            let of_histogram = ["_bucket", "_sum", "_count"];
            let ends = of_histogram.iter().find_map(|end| name.strip_suffix(end));
            ends.unwrap_or(name).to_owned()
        };
        let samples = scrape(admin).await;
        let own = samples.keys().filter(|name| name.starts_with("txlog_"));
        let scraped: BTreeSet<_> = own.map(base).collect();
        assert_eq!(scraped, documented);
    });
}

#[test]
fn the_page_of_the_docs_is_what_the_code_says() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/METRICS.md");
    let file = std::fs::read_to_string(path).unwrap();
    let table = file.find("| name |").map_or("", |at| &file[at..]);
    assert_eq!(table, metrics_page(), "put the right side into {path}");
}

#[test]
fn the_alerts_are_about_metrics_that_there_are_and_fire_as_their_tests_say() {
    let deploy = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy");
    alerts::hold(&deploy, &metrics_page(), "txlog_");
}

#[test]
fn a_server_whose_log_takes_no_records_is_unhealthy() {
    let tokens = TokenFile::new(&[("one", "append", &[])]);
    serving(&tokens, async |address, admin, disk| {
        let client = Connect::new()
            .token(secret("one"))
            .connect(address)
            .await
            .unwrap();
        client.append("durable").await.unwrap();
        assert_eq!(get(admin, "/healthz").await, (200, "ok\n".to_owned()));
        append_that_fails(&client, disk, 28).await;
        let (status, body) = get(admin, "/healthz").await;
        assert_eq!(status, 503);
        assert!(body.contains("the log without a name"), "{body}");
        let samples = scrape(admin).await;
        assert_eq!(samples["txlog_log_failed{log=\"\"}"], 1.0);
        assert_eq!(
            samples["txlog_refusals_total{log=\"\",code=\"log_failed\"}"],
            1.0
        );
    });
}

#[test]
#[cfg(target_os = "linux")]
fn whoever_looks_after_a_server_gets_a_descriptor_however_many_clients_there_are() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("admin");
    let admin = format!("unix:{}", socket.display());
    let log = directory.path().join("log");
    let server = Program::start_with_files("-n 300", &log, &["--admin", &admin]);
    run(async {
        let mut clients = Vec::new();
        for id in 0..400 {
            // Some are refused, as there is no place; none as there is no descriptor.
            let mut stream = TcpStream::connect(server.address).await.unwrap();
            let mut buffer = bytes::BytesMut::new();
            crate::support::served::hello().encode(&mut buffer);
            append(id, "work").encode(&mut buffer);
            let _ = stream.write_all(&buffer).await;
            clients.push(stream);
        }
        // Refused only as long as many who have lost their places have not left yet.
        let began = Instant::now();
        let client = loop {
            match Client::connect(server.address).await {
                Ok(client) => break client,
                Err(error) => assert!(began.elapsed() < crate::support::LIMIT, "{error}"),
            }
            evenkeel::time::sleep(Duration::from_millis(20)).await;
        };
        client.ping().await.unwrap();
        for _ in 0..20 {
            let text = get_at(&socket, "/healthz").await;
            assert!(text.starts_with("HTTP/1.1 200"), "{text}");
        }
    });
    let mut server = server;
    let complaints = server.end();
    assert!(complaints.contains("allows 300 open files"), "{complaints}");
    assert!(!complaints.contains("cannot accept"), "{complaints}");
}
