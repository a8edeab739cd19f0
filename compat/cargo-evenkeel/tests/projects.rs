//! `cargo evenkeel`, as its users run it.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

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

/// A project with a program that uses this version of Tokio.
fn project(tokio: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let manifest = format!(
        "[package]\nname = \"project\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[workspace]\n\n\
         [dependencies]\ntokio = {{ version = \"{tokio}\", features = [\"full\"] }}\n"
    );
    fs::write(folder.path().join("Cargo.toml"), manifest).unwrap();
    fs::create_dir(folder.path().join("src")).unwrap();
    fs::write(folder.path().join("src/main.rs"), MAIN).unwrap();
    folder
}

fn cargo(folder: &Path, program: &str, arguments: &[&str], off: bool) -> Output {
    let mut command = Command::new(program);
    // The dependencies are built once for all tests here.
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("projects");
    command
        .args(arguments)
        .current_dir(folder)
        .env("CARGO_TARGET_DIR", target);
    if off {
        command.env("EVENKEEL", "off");
    }
    command.output().unwrap()
}

fn evenkeel(folder: &Path, arguments: &[&str], off: bool) -> Output {
    let arguments = [&["evenkeel"], arguments].concat();
    cargo(
        folder,
        env!("CARGO_BIN_EXE_cargo-evenkeel"),
        &arguments,
        off,
    )
}

fn said(output: &Output) -> String {
    let [out, err] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    format!("{out}{err}")
}

#[test]
fn a_project_runs_on_evenkeel_and_is_left_as_it_was() {
    let project = project("=1.54.1");
    let folder = project.path();
    assert!(
        cargo(folder, "cargo", &["generate-lockfile"], false)
            .status
            .success()
    );
    let lock = fs::read(folder.join("Cargo.lock")).unwrap();

    let on = evenkeel(folder, &["run", "--quiet"], false);
    assert!(said(&on).contains("left: 0 0 0\n"), "{}", said(&on));
    assert!(said(&on).contains("answered 0 s"), "{}", said(&on));
    // While the program runs, the project is as it was.
    assert!(said(&on).contains("graph: false"), "{}", said(&on));
    let off = evenkeel(folder, &["run", "--quiet"], true);
    assert!(!said(&off).contains("answered 0 s"), "{}", said(&off));
    assert!(said(&off).contains("answered"), "{}", said(&off));
    assert_eq!(fs::read(folder.join("Cargo.lock")).unwrap(), lock);
    let names: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(names.len(), 3, "{names:?}");
}

#[test]
fn a_project_without_tokio_is_told_so() {
    let project = project("=1.54.1");
    let manifest = project.path().join("Cargo.toml");
    let text = fs::read_to_string(&manifest).unwrap();
    fs::write(&manifest, text.split("[dependencies]").next().unwrap()).unwrap();
    let output = evenkeel(project.path(), &["build"], false);
    assert!(!output.status.success());
    assert!(
        said(&output).contains("nothing in this project depends on `tokio`"),
        "{}",
        said(&output)
    );
}

#[test]
fn a_changed_checksum_is_refused() {
    let project = project("=1.54.1");
    let folder = project.path();
    assert!(
        cargo(folder, "cargo", &["generate-lockfile"], false)
            .status
            .success()
    );
    let path = folder.join("Cargo.lock");
    let lock = fs::read_to_string(&path).unwrap();
    let at = lock.find("name = \"tokio\"\n").unwrap();
    let at = at + lock[at..].find("checksum = \"").unwrap() + "checksum = \"".len();
    let changed = format!("{}{}{}", &lock[..at], "0".repeat(64), &lock[at + 64..]);
    fs::write(&path, &changed).unwrap();
    let output = evenkeel(folder, &["doctor"], false);
    assert!(!output.status.success());
    assert!(
        said(&output).contains("its checksum is"),
        "{}",
        said(&output)
    );
    assert_eq!(fs::read_to_string(&path).unwrap(), changed);
}

#[test]
fn a_lock_file_that_a_killed_build_left_aside_comes_back() {
    let project = project("=1.54.1");
    let folder = project.path();
    assert!(
        cargo(folder, "cargo", &["generate-lockfile"], false)
            .status
            .success()
    );
    let (lock, aside) = (folder.join("Cargo.lock"), folder.join("Cargo.lock.yours"));
    let users = fs::read(&lock).unwrap();
    fs::rename(&lock, &aside).unwrap();
    fs::write(
        &lock,
        "[[package]]\nname = \"tokio-traits\"\nversion = \"1.54.1\"\n",
    )
    .unwrap();
    let output = evenkeel(folder, &["doctor"], false);
    assert!(
        said(&output).contains("your Cargo.lock is back"),
        "{}",
        said(&output)
    );
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(fs::read(&lock).unwrap(), users);
    assert!(!aside.exists());
}

#[test]
fn a_lock_file_that_was_made_after_a_killed_build_stays() {
    let project = project("=1.54.1");
    let folder = project.path();
    assert!(
        cargo(folder, "cargo", &["generate-lockfile"], false)
            .status
            .success()
    );
    let lock = fs::read(folder.join("Cargo.lock")).unwrap();
    fs::write(folder.join("Cargo.lock.yours"), "# older\n").unwrap();
    let output = evenkeel(folder, &["doctor"], false);
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(fs::read(folder.join("Cargo.lock")).unwrap(), lock);
    assert_eq!(
        fs::read(folder.join("Cargo.lock.before")).unwrap(),
        b"# older\n"
    );
}

#[test]
fn locked_is_what_it_says() {
    let project = project("=1.54.1");
    let output = evenkeel(project.path(), &["check", "--locked"], false);
    assert!(!output.status.success(), "{}", said(&output));
    assert!(!project.path().join("Cargo.lock").exists());
}
