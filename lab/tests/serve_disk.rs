//! Disk work of `serve` on each runtime: one suite, instantiated for both.

#[macro_use]
mod common;

use std::io::Write;
use std::process::Command;

use common::{
    Server, complaint, directory, echoes, eventually, get_json, hangs_up, has, load, number,
};

fn writers_sync_beside_an_echo(runtime: &str) {
    let directory = directory(&format!("fsync-{runtime}"));
    let (written, asked) = (directory.join("written"), directory.join("asked"));
    std::fs::write(&asked, b"eleven byte").expect("it can be written");
    let (path, asked) = (written.to_string_lossy(), asked.to_string_lossy());
    let flags = "--echo ANY --api ANY --fsync-bytes 5000 --fsync-writers 3";
    let server = Server::start_with(runtime, flags, &["--fsync", &path, "--stat", &asked]);
    let api = server.address("api");
    eventually("syncs are counted", || {
        get_json(api, "/stat")["syncs"].as_u64() > Some(10)
    });
    assert!(echoes(&mut server.connect("echo"), b"beside the disk"));
    let stat = get_json(api, "/stat");
    has(&stat, [("length", 11), ("failed", 0)]);
    assert!(number(&stat["sync_us"]) > 0, "{stat}");
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
    let flags = "--echo ANY --hang-opens 20 --exit-with-parent";
    let server = Server::start_with(runtime, flags, &["--hang", &path]);
    assert!(echoes(&mut server.connect("echo"), b"while they hang"));
    // Nor do they keep the process.
    assert!(server.leave().0.success());
}

/// What appending to the log of `server` came to; no client is lost.
fn appended(server: &Server) -> (u64, serde_json::Value) {
    let log = server.address("log");
    let times = "--seconds 0.5 --warmup 0";
    let found = load(&format!("appends {log} --clients 20 --bytes 50 {times}"));
    has(&found, [("clients_lost", 0)]);
    (number(&found["appends"]), found)
}

fn a_log_acknowledges_what_it_has_synced(runtime: &str) {
    let path = directory(&format!("log-{runtime}")).join("log");
    let server = Server::start_with(
        runtime,
        "--log ANY",
        &["--log-path", &path.to_string_lossy()],
    );
    let (appends, found) = appended(&server);
    assert!(appends > 0, "{found}");
    let length = std::fs::metadata(&path).map_or(0, |file| file.len());
    assert!(length >= 50 * appends, "{length} bytes, {found}");
    // Who says what is no append is hung up on.
    let mut noise = server.connect("log");
    let said = noise.write_all(b"GET / HTTP/1.1\r\n\r\n");
    said.expect("it reads");
    assert!(hangs_up(&mut noise));
}

suite! {
    writers_sync_beside_an_echo,
    opens_that_hang_hold_up_no_echo,
    a_log_acknowledges_what_it_has_synced,
}

#[test]
fn txlog_takes_the_same_appends() {
    let path = directory("txlog").join("log");
    let more = ["--log-directory", &path.to_string_lossy()];
    let server = Server::start_with("evenkeel", "--log ANY", &more);
    let (appends, found) = appended(&server);
    assert!(appends > 0, "{found}");
}

#[test]
fn what_cannot_be_written_is_said_clearly() {
    for (flags, expected) in [
        ("--log ANY", "--log-path <PATH>"),
        (
            "--log ANY --log-path /nowhere/log",
            "cannot write /nowhere/log",
        ),
        ("--log ANY --log-directory x", "has no --log-directory"),
        ("--echo ANY --fsync-writers 2", "--fsync <PATH>"),
        ("--echo ANY --fsync x --fsync-writers 0", "from 1 to 10000"),
        (
            "--echo ANY --fsync x --fsync-bytes no",
            "from 1 to 67108864",
        ),
        ("--echo ANY --stat x", "--api <ADDR>"),
    ] {
        let words = complaint(&format!("serve tokio {flags}"));
        assert!(words.contains(expected), "{flags}: {words}");
    }
}
