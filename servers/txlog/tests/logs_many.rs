//! A server with many logs, of which a few are open at a time: 300, or as many as `TXLOG_LOGS`
//! says.

mod support;

use std::collections::HashMap;
use std::time::Duration;

use evenkeel::task::JoinSet;
use evenkeel::time::sleep;
use support::program::{Server, run_command};
use support::{rounds, run};
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
