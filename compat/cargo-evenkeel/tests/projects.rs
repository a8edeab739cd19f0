//! `cargo evenkeel`, as its users run it.

mod support;

use support::{Project, fails, project, said, succeeds, unlocked};

const LOCK: &str = "Cargo.lock";
const ASIDE: &str = "Cargo.lock.yours";

const MAIN: &str = r#"
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// What Tokio promises of a handle, also if the output cannot be shared.
fn can_be_shared<T: Send + Sync + Unpin + std::panic::UnwindSafe>(_: &T) {}

/// Runtimes come and go, and take their threads, descriptors and memory with them.
fn come_and_go() {
    // Tokio keeps two descriptors for signals, from the first runtime on.
    drop(tokio::runtime::Runtime::new().unwrap());
    let count = |what: &str| std::fs::read_dir(format!("/proc/self/{what}")).unwrap().count();
    let before = (count("fd"), count("task"));
    let kept = std::sync::Arc::new(());
    for _ in 0..20 {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let held = kept.clone();
        runtime.spawn(async move {
            let _held = held;
            std::future::pending::<()>().await;
        });
        runtime.block_on(async { tokio::time::sleep(Duration::from_millis(1)).await });
    }
    let after = (count("fd"), count("task"));
    let held = std::sync::Arc::strong_count(&kept) - 1;
    println!("left: {} {} {held}", after.0 - before.0, after.1 - before.1);
}

fn main() {
    let lock = std::fs::read_to_string("Cargo.lock").unwrap();
    println!("lock of another graph: {}", lock.contains("evenkeel"));
    come_and_go();
    serve();
}

#[tokio::main(worker_threads = 2)]
async fn serve() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let to = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                let mut byte = [0];
                while stream.read_exact(&mut byte).await.is_ok() {
                    stream.write_all(&byte).await.unwrap();
                }
            });
        }
    });
    can_be_shared(&tokio::spawn(async { std::cell::Cell::new(0) }));
    // More than the workers, and for long.
    for _ in 0..4 {
        tokio::spawn(async {
            let began = Instant::now();
            while began.elapsed() < Duration::from_secs(2) {
                std::hint::spin_loop();
            }
        });
    }
    let began = Instant::now();
    tokio::time::sleep(Duration::from_millis(20)).await;
    let echo = tokio::spawn(async move {
        let mut stream = TcpStream::connect(to).await.unwrap();
        stream.write_all(b"x").await.unwrap();
        stream.read_u8().await.unwrap()
    });
    assert_eq!(echo.await.unwrap(), b'x');
    println!("answered {} s", began.elapsed().as_secs());
    std::process::exit(0);
}
"#;

/// Runs the project's program.
fn run(project: &Project, evenkeel: &str) -> String {
    let mut command = project.call();
    command.args(["run", "--quiet"]).env("EVENKEEL", evenkeel);
    said(&command.output().unwrap())
}

#[test]
fn a_project_runs_on_evenkeel_and_is_left_as_it_was() {
    let project = project();
    project.write("src/main.rs", MAIN);
    let before = project.everything();
    let on = run(&project, "on");
    // While the program runs, the project is as it was.
    for part in ["left: 0 0 0\n", "answered 0 s", "graph: false"] {
        assert!(on.contains(part), "no {part:?} in: {on}");
    }
    let off = run(&project, "off");
    assert!(
        off.contains("answered") && !off.contains("answered 0 s"),
        "{off}"
    );
    assert!(project.everything() == before, "something was changed");
}

#[test]
fn a_project_without_tokio_is_told_so() {
    let project = unlocked("");
    let told = "nothing in this project depends on `tokio`";
    fails(&project.evenkeel(&["build"]), &[told]);
}

#[test]
fn a_changed_checksum_is_refused() {
    let project = project();
    let lock = project.read(LOCK);
    let at = lock.find("name = \"tokio\"\n").unwrap();
    let at = at + lock[at..].find("checksum = \"").unwrap() + "checksum = \"".len();
    let changed = format!("{}{}{}", &lock[..at], "0".repeat(64), &lock[at + 64..]);
    project.write(LOCK, &changed);
    fails(&project.evenkeel(&["doctor"]), &["its checksum is"]);
    assert_eq!(project.read(LOCK), changed);
}

#[test]
fn a_lock_file_that_a_killed_build_left_aside_comes_back() {
    let project = project();
    let users = project.read(LOCK);
    project.write(ASIDE, &users);
    let ours = "[[package]]\nname = \"tokio-traits\"\nversion = \"1.54.1\"\n";
    project.write(LOCK, ours);
    let said = succeeds(&project.evenkeel(&["doctor"]));
    assert!(said.contains("your Cargo.lock is back"), "{said}");
    assert_eq!(project.read(LOCK), users);
    assert!(!project.has(ASIDE));
}

#[test]
fn a_lock_file_that_was_made_after_a_killed_build_stays() {
    let project = project();
    let lock = project.read(LOCK);
    project.write(ASIDE, "# older\n");
    succeeds(&project.evenkeel(&["doctor"]));
    assert_eq!(project.read(LOCK), lock);
    assert_eq!(project.read("Cargo.lock.before"), "# older\n");
}

#[test]
fn a_tokio_that_moved_in_a_lock_file_that_stays_is_told() {
    let project = project();
    let lock = project.read(LOCK);
    let tokio = |version| format!("[[package]]\nname = \"tokio\"\nversion = \"{version}\"\n");
    for (before, moved) in [("1.53.3", true), (support::VERSION, false)] {
        project.write(ASIDE, &tokio(before));
        let said = succeeds(&project.evenkeel(&["doctor"]));
        assert!(said.contains("was changed meanwhile, and stays"), "{said}");
        let advice = format!("run `cargo update -p tokio --precise {before}`");
        assert_eq!(said.contains(&advice), moved, "{said}");
        assert_eq!(project.read(LOCK), lock);
    }
}

#[test]
fn locked_is_what_it_says() {
    let project = unlocked("tokio = \"1\"");
    fails(&project.evenkeel(&["check", "--locked"]), &["--locked"]);
    assert!(!project.has(LOCK));
}
