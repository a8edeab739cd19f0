//! The rules, on every version of Tokio that is supported.

mod support;

use cargo_evenkeel::copy::Copy;
use cargo_evenkeel::{rules, upstream};
use std::fs;
use std::path::Path;
use support::{said, unlocked};

const RULES: &str = include_str!("../../overlay/rules.toml");

#[test]
fn every_rule_fits_each_version_that_it_is_for() {
    let target = tempfile::tempdir().unwrap();
    for upstream in upstream::supported() {
        upstream.fetch(target.path()).unwrap();
        let copy = Copy::prepare(&upstream, target.path());
        assert!(copy.is_ok(), "{}: {}", upstream.version, copy.unwrap_err());
        let folder = copy.unwrap().folder;
        // Whose code it is, wherever it is committed.
        for package in ["tokio", "tokio-traits"] {
            let license = fs::read_to_string(folder.join(package).join("LICENSE")).unwrap();
            assert!(license.contains("Tokio Contributors"), "{license}");
        }
    }
}

#[test]
fn every_rule_is_for_a_version_that_is_supported() {
    for rule in rules::parse(RULES).unwrap() {
        assert!(
            upstream::supported().any(|upstream| rule.is_for(&upstream.version)),
            "{}, {}",
            rule.file,
            rule.why
        );
    }
}

/// Uses what differs between versions: timers, pipes of a process, and events by the hundred.
const MAIN: &str = r#"
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time;

/// Longer than an event's tick has numbers in any version.
const ROUNDS: usize = 1000;

async fn exchange() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let to = listener.local_addr().unwrap();
    let echo = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let (mut from, mut to) = stream.split();
        tokio::io::copy(&mut from, &mut to).await.unwrap()
    });
    let mut stream = TcpStream::connect(to).await.unwrap();
    for _ in 0..ROUNDS {
        stream.write_all(b"x").await.unwrap();
        assert_eq!(stream.read_u8().await.unwrap(), b'x');
    }
    // Nothing comes, and the socket is not ready after a read has found nothing.
    assert!(time::timeout(Duration::from_millis(1), stream.read_u8()).await.is_err());
    assert!(time::timeout(Duration::from_millis(1), stream.readable()).await.is_err());
    drop(stream);
    assert_eq!(echo.await.unwrap(), ROUNDS as u64);
}

async fn wait() {
    let mut interval = time::interval(Duration::from_millis(1));
    let sleep = time::sleep(Duration::from_secs(3600));
    tokio::pin!(sleep);
    for _ in 0..3 {
        interval.tick().await;
        assert!(time::timeout(Duration::from_millis(1), sleep.as_mut()).await.is_err());
    }
    let deadline = time::Instant::now() + Duration::from_millis(1);
    sleep.as_mut().reset(deadline);
    assert_eq!(sleep.deadline(), deadline);
    sleep.as_mut().await;
    assert!(sleep.is_elapsed() && time::Instant::now() >= deadline);
}

#[tokio::main(worker_threads = 1)]
async fn main() {
    let exchange = tokio::spawn(exchange());
    let Ok(ended) = time::timeout(Duration::from_secs(30), exchange).await else {
        // A runtime whose task never returns does not end.
        println!("the exchange does not end");
        std::process::exit(1);
    };
    ended.unwrap();
    tokio::spawn(wait()).await.unwrap();
    let said = tokio::process::Command::new("echo").arg("said").output().await.unwrap();
    assert_eq!(said.stdout, b"said\n");
    let began = Instant::now();
    let hog = tokio::spawn(async move {
        while began.elapsed() < Duration::from_secs(1) {
            std::hint::spin_loop();
        }
    });
    tokio::spawn(time::sleep(Duration::from_millis(5))).await.unwrap();
    println!("beside the hog: {}", !hog.is_finished());
}
"#;

/// The newest is built, and run, by the tests of projects.
#[test]
fn a_project_runs_on_every_older_version() {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("versions");
    for upstream in upstream::supported().skip(1) {
        let tokio = format!("\"={}\", features = [\"full\"]", upstream.version);
        let mut project = unlocked(&format!("tokio = {{ version = {tokio} }}"));
        project.build_in(target.clone());
        project.write("src/main.rs", MAIN);
        let mut command = project.call();
        command
            .env_remove("CARGO_NET_OFFLINE")
            .args(["run", "--quiet"]);
        let output = command.output().unwrap();
        let out = String::from_utf8_lossy(&output.stdout);
        assert_eq!(
            out,
            "beside the hog: true\n",
            "{}: {}",
            upstream.version,
            said(&output)
        );
    }
}
