//! A server with many logs, of which a few are open at a time: 300, or as many as `TXLOG_LOGS`
//! says. And its settings for single logs, which are read again while it serves.

mod support;

use std::collections::HashMap;
use std::fs;
use std::time::Duration;

use evenkeel::task::JoinSet;
use evenkeel::time::{sleep, timeout};
use support::program::{Server, run_command};
use support::{LIMIT, numbered, rounds, run};
use txlog_client::frame::Code;
use txlog_client::{Client, Connect};

/// How many logs are open at a time.
const OPEN: usize = 16;

/// How many clients are at work at a time. Each has a log.
const CLIENTS: u64 = 8;

/// Descriptors of an open log: its directory, twice, `LOCK`, `MARK` and a segment.
const OF_EACH: usize = 5;

/// Those of the runtime, the standard streams and the listener, and some to spare.
const OTHERS: usize = 60;

async fn connected(address: String, log: u64, create: bool) -> Client {
    let connect = Connect::new().log(format!("log-{log}")).create(create);
    loop {
        match connect.connect(address.as_str()).await {
            Ok(client) => return client,
            // All places are taken until another client is seen to have gone.
            Err(error) => assert_eq!(error.code(), Some(Code::TooMany), "{error}"),
        }
        sleep(Duration::from_millis(2)).await;
    }
}

#[cfg(target_os = "linux")]
fn descriptors(server: &Server) -> usize {
    let path = format!("/proc/{}/fd", server.id());
    std::fs::read_dir(path).unwrap().count()
}

#[cfg(not(target_os = "linux"))]
fn descriptors(_: &Server) -> usize {
    0
}

/// Does this with each log, some at a time, and returns the most descriptors that the server had.
async fn with_each<F: Future<Output = ()> + Send + 'static>(
    server: &Server,
    count: u64,
    work: impl Fn(u64) -> F,
) -> usize {
    let (mut tasks, mut most) = (JoinSet::new(), 0);
    for log in 0..count {
        if log >= CLIENTS {
            tasks.join_next().await.unwrap().unwrap();
        }
        tasks.spawn(work(log));
        most = most.max(descriptors(server));
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    most
}

#[test]
fn many_logs_are_served_by_few_descriptors_and_survive_a_kill() {
    let count = rounds("TXLOG_LOGS", 300);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_str().unwrap();
    let open = OPEN.to_string();
    let options = ["--logs", path, "--create-logs", "--open-logs-max", &open];
    let mut server = Server::start_with(&options);
    let address = server.address.to_string();
    run(async {
        let most = with_each(&server, count, |log| {
            let address = address.clone();
            async move {
                let client = connected(address, log, true).await;
                let number = client.append(format!("of {log}")).await.unwrap();
                assert_eq!(number, 1, "it is a log of its own");
            }
        })
        .await;
        assert!(most <= OPEN * OF_EACH + OTHERS, "{most} descriptors");
    });
    server.kill();
    let server = Server::start_with(&options);
    let address = server.address.to_string();
    run(async {
        let most = with_each(&server, count, |log| {
            let address = address.clone();
            async move {
                let client = connected(address, log, false).await;
                let (records, _) = client.read(0, Duration::ZERO).await.unwrap();
                assert_eq!(records.len(), 1);
                assert_eq!(records[0].payload, format!("of {log}"));
            }
        })
        .await;
        assert!(most <= OPEN * OF_EACH + OTHERS, "{most} descriptors");
    });
    // Any log will do to ask.
    let (listed, output, error) = run_command(&["logs", "--server", &address, "--log", "log-0"]);
    assert!(listed, "{error}");
    let lines = output.lines().map(|line| line.split_once('\t').unwrap());
    let known: HashMap<&str, &str> = lines.collect();
    assert_eq!(known.len() as u64, count);
    assert!(
        known.values().all(|rest| rest.ends_with("record 1")),
        "{output}"
    );
}

/// Waits until this is so.
async fn until(what: &str, is_so: impl AsyncFn() -> bool) {
    let wait = async {
        while !is_so().await {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(LIMIT / 2, wait).await.expect(what);
}

/// How many records a log has for a client that connects now, and the largest that it takes.
async fn held(address: &str, log: &str) -> (u64, usize) {
    let client = Connect::new().log(log).connect(address).await.unwrap();
    let info = client.info();
    (info.next - info.first, info.record_bytes_max)
}

#[test]
fn logs_that_are_open_go_by_settings_that_were_read_again() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_str().unwrap();
    let settings = directory.path().join("txlog.toml");
    let mut server = Server::start_with(&["--logs", path, "--create-logs"]);
    let address = server.address.to_string();
    let other = "[logs.other]\nkeep_records = 10";
    run(async {
        // These stay open, as they have a client.
        let mut clients = Vec::new();
        for log in ["orders", "other"] {
            let connect = Connect::new().log(log).create(true);
            let client = connect.connect(&*address).await.unwrap();
            for number in 1..=100 {
                client.append(numbered(number)).await.unwrap();
            }
            clients.push(client);
        }
        let orders = "[logs.orders]\nkeep_records = 20\nsegment_bytes = 300\nrecord_bytes_max = 99";
        fs::write(&settings, orders).unwrap();
        server.signal("HUP");
        // Its last file is followed by another one, as it is large now, and goes when there are
        // enough behind it.
        let has_few = async |client: &Client, log: &str, most: u64| {
            client.append(numbered(1)).await.unwrap();
            held(&address, log).await.0 <= most
        };
        let is_so = async || has_few(&clients[0], "orders", 25).await;
        until("records go", is_so).await;
        assert_eq!(held(&address, "other").await, (100, 1 << 20));
        assert_eq!(held(&address, "orders").await.1, 1 << 20, "it stays");
        clients[0].append("x".repeat(100)).await.unwrap();
        // A file that is wrong changes nothing, for no log.
        fs::write(
            &settings,
            format!("{other}\n[logs.orders]\nkeep_record = 1"),
        )
        .unwrap();
        server.signal("HUP");
        let loudly = "NOTHING HAS CHANGED";
        until("it is told", async || server.said().contains(loudly)).await;
        let is_so = async || has_few(&clients[0], "orders", 25).await;
        until("records go as before", is_so).await;
        fs::write(&settings, other).unwrap();
        server.signal("HUP");
        let is_so = async || has_few(&clients[1], "other", 13).await;
        until("records go", is_so).await;
        // Without a limit of its own it keeps all again.
        let (had, _) = held(&address, "orders").await;
        for number in 1..=50 {
            clients[0].append(numbered(number)).await.unwrap();
        }
        assert_eq!(held(&address, "orders").await.0, had + 50);
    });
    let said = server.end();
    for line in [
        "txlog: the log orders: keep_records is 20 now, and was 0\n",
        "txlog: the log orders: segment_bytes is 300 now, and was 67108864\n",
        "txlog: the log orders: record_bytes_max stays 1048576 as long as the log is open",
        "txlog: NOTHING HAS CHANGED, the earlier settings of single logs hold on: ",
        "txlog: the log other: keep_records is 10 now, and was 0\n",
        "txlog: the log orders: keep_records is 0 now, and was 20\n",
    ] {
        assert_eq!(said.matches(line).count(), 1, "{line}{said}");
    }
    assert!(said.contains("keep_record`"), "{said}");
}
