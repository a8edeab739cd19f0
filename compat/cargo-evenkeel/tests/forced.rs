//! Current-thread runtimes on Evenkeel, with `EVENKEEL_FORCE=1`.

mod support;

use support::{Project, said, unlocked};

const TOKIO: &str = "tokio = { version = \"=1.54.1\", features = [\"full\", \"test-util\"] }";

const MAIN: &str = r#"
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, LocalOptions};
use tokio::time::sleep;

/// Whether a short sleep is over before a task that computes.
async fn sleeps_beside_a_hog() -> bool {
    let began = Instant::now();
    let hog = tokio::spawn(async move {
        while began.elapsed() < Duration::from_millis(500) {
            std::hint::spin_loop();
        }
    });
    tokio::task::yield_now().await;
    sleep(Duration::from_millis(1)).await;
    let is_early = !hog.is_finished();
    hog.await.unwrap();
    is_early
}

fn current_thread() -> Builder {
    let mut builder = Builder::new_current_thread();
    builder.enable_all();
    builder
}

fn main() {
    let mut builder = current_thread();
    for _ in 0..2 {
        let early = builder.build().unwrap().block_on(sleeps_beside_a_hog());
        println!("current thread: {early}");
    }

    // What need not be sent stays on the thread.
    let local = current_thread().build_local(LocalOptions::default()).unwrap();
    let one = std::rc::Rc::new(1);
    let one = local.block_on(async move { tokio::task::spawn_local(async { one }).await.unwrap() });
    assert_eq!(*one, 1);
    println!("local: {}", local.block_on(sleeps_beside_a_hog()));
    let set = tokio::task::LocalSet::new();
    let two = std::rc::Rc::new(2);
    let sent = set.block_on(&current_thread().build().unwrap(), async move {
        sleep(Duration::from_millis(1)).await;
        tokio::task::spawn_local(async move {
            sleep(Duration::from_millis(1)).await;
            *two + tokio::spawn(async { 1 }).await.unwrap()
        }).await.unwrap()
    });
    println!("set: {sent}");

    // An hour of a paused clock is over at once.
    let paused = current_thread().start_paused(true).build().unwrap();
    paused.block_on(async { sleep(Duration::from_secs(3600)).await });
    println!("paused");
    current_thread().build().unwrap().block_on(async { tokio::time::pause() });
}
"#;

/// What the program printed, and whether it ended as it should.
fn run(project: &Project, force: &str) -> (String, bool) {
    let mut command = project.call();
    let output = command
        .env_remove("CARGO_NET_OFFLINE")
        .env("EVENKEEL_FORCE", force)
        .args(["run", "--quiet"])
        .output()
        .unwrap();
    (said(&output), output.status.success())
}

#[test]
fn a_current_thread_runtime_can_be_forced_onto_evenkeel() {
    let project = unlocked(TOKIO);
    project.write("src/main.rs", MAIN);

    let same = "local: false\nset: 3\npaused\n";
    let (said, is_ok) = run(&project, "0");
    let twice = |early: bool| format!("current thread: {early}\n").repeat(2);
    assert!(
        is_ok && said.contains(&format!("{}{same}", twice(false))),
        "{said}"
    );

    let (said, is_ok) = run(&project, "1");
    assert!(said.contains(&format!("{}{same}", twice(true))), "{said}");
    assert!(
        !is_ok && said.contains("Build it with `start_paused(true)`"),
        "{said}"
    );
}
