//! Disk work of `serve` on each runtime: one suite, instantiated for both.

#[macro_use]
mod common;

use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::Command;

use common::{Server, echoes, eventually, get_json, load};

const ANY: &str = "127.0.0.1:0";

/// An empty directory of that name.
fn directory(name: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    // There may be one of an earlier run.
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).expect("a directory can be made");
    path
}

fn writers_sync_beside_an_echo(runtime: &str) {
    let directory = directory(&format!("fsync-{runtime}"));
    let (written, asked) = (directory.join("written"), directory.join("asked"));
    std::fs::write(&asked, b"eleven byte").expect("it can be written");
    let (path, asked) = (written.to_string_lossy(), asked.to_string_lossy());
    let flags = ["--echo", ANY, "--api", ANY, "--stat", &asked];
    let work = [
        "--fsync",
        &path,
        "--fsync-bytes",
        "5000",
        "--fsync-writers",
        "3",
    ];
    let server = Server::start(runtime, &[&flags[..], &work].concat());
    let api = server.address("api");
    eventually("syncs are counted", || {
        get_json(api, "/stat")["syncs"].as_u64() > Some(10)
    });
    assert!(echoes(&mut server.connect("echo"), b"beside the disk"));
    let stat = get_json(api, "/stat");
    assert_eq!(
        (&stat["length"], &stat["failed"]),
        (&11.into(), &0.into()),
        "{stat}"
    );
    assert!(stat["sync_us"].as_u64() > Some(0), "{stat}");
    for writer in 0..3 {
        let path = directory.join(format!("written.{writer}"));
        assert_eq!(std::fs::metadata(path).map_or(0, |file| file.len()), 5_000);
    }
}

fn opens_that_hang_hold_up_no_echo(runtime: &str) {
    let directory = directory(&format!("hang-{runtime}"));
    let fifo = directory.join("fifo");
    let made = Command::new("mkfifo").arg(&fifo).status();
    assert!(made.is_ok_and(|status| status.success()));
    let path = fifo.to_string_lossy();
    let flags = ["--echo", ANY, "--hang", &path, "--hang-opens", "20"];
    let mut server = Server::start(runtime, &[&flags[..], &["--exit-with-parent"]].concat());
    assert!(echoes(&mut server.connect("echo"), b"while they hang"));
    // Nor do they keep the process.
    drop(server.stdin.take());
    assert!(server.wait().0.success());
}

/// What appending to `target` came to.
fn appended(server: &Server) -> serde_json::Value {
    let log = server.address("log").to_string();
    let args = ["appends", &log, "--clients", "20", "--bytes", "50"];
    load(&[&args[..], &["--seconds", "0.5", "--warmup", "0"]].concat())
}

fn a_log_acknowledges_what_it_has_synced(runtime: &str) {
    let directory = directory(&format!("log-{runtime}"));
    let path = directory.join("log");
    let flags = ["--log", ANY, "--log-path", &path.to_string_lossy()];
    let server = Server::start(runtime, &flags);
    let found = appended(&server);
    assert_eq!(found["clients_lost"], 0, "{found}");
    let appends = found["appends"].as_u64().expect("a number");
    assert!(appends > 0, "{found}");
    let length = std::fs::metadata(&path).map_or(0, |file| file.len());
    assert!(length >= 50 * appends, "{length} bytes, {found}");
    // Who says what is no append is hung up on.
    let mut noise = server.connect("log");
    noise
        .write_all(b"GET / HTTP/1.1\r\n\r\n")
        .expect("it reads");
    assert!(matches!(noise.read(&mut [0; 1]), Ok(0) | Err(_)));
}

suite! {
    writers_sync_beside_an_echo,
    opens_that_hang_hold_up_no_echo,
    a_log_acknowledges_what_it_has_synced,
}

#[test]
fn txlog_takes_the_same_appends() {
    let directory = directory("txlog");
    let path = directory.join("log");
    let flags = ["--log", ANY, "--log-directory", &path.to_string_lossy()];
    let server = Server::start("evenkeel", &flags);
    let found = appended(&server);
    assert_eq!(found["clients_lost"], 0, "{found}");
    assert!(found["appends"].as_u64() > Some(0), "{found}");
}

#[test]
fn what_cannot_be_written_is_said_clearly() {
    for (flags, complaint) in [
        (&["--log", ANY][..], "--log-path <PATH>"),
        (
            &["--log", ANY, "--log-path", "/nowhere/log"],
            "cannot write /nowhere/log",
        ),
        (
            &["--log", ANY, "--log-directory", "x"],
            "has no --log-directory",
        ),
        (&["--echo", ANY, "--fsync-writers", "2"], "--fsync <PATH>"),
        (
            &["--echo", ANY, "--fsync", "x", "--fsync-writers", "0"],
            "from 1 to 10000",
        ),
        (
            &["--echo", ANY, "--fsync", "x", "--fsync-bytes", "no"],
            "from 1 to 67108864",
        ),
        (&["--echo", ANY, "--stat", "x"], "--api <ADDR>"),
    ] {
        let mut lab = common::lab();
        let output = lab.args(["serve", "tokio"]).args(flags).output();
        let output = output.expect("the lab starts");
        let words = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{flags:?}");
        assert!(words.contains(complaint), "{flags:?}: {words}");
    }
}
