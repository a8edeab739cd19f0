//! `evenkeel-cameras demo`: all of it by one command, of which nothing is left.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use servers_common::testing;

use super::support::{LIMIT, until};

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_evenkeel-cameras"));
    command.arg("demo").args(arguments);
    command
}

fn get(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn cameras(address: &str) -> Vec<Value> {
    let answer = get(address, "/api/cameras");
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    let said: Value = serde_json::from_str(body).unwrap();
    said["cameras"].as_array().unwrap().clone()
}

/// Starts it, and waits until it says where the page is, and all that it says.
fn begun(command: &mut Command) -> (testing::Program, String) {
    let mut program = testing::Program::start(command);
    let line = program.line();
    let address = line.strip_prefix("watch at http://").unwrap();
    let address = address.trim_end_matches('/').to_owned();
    while !program.line().contains("ctrl-c ends it") {}
    (program, address)
}

fn entries(directory: &Path) -> usize {
    std::fs::read_dir(directory).unwrap().count()
}

#[test]
fn the_page_shows_cameras_that_are_recorded_and_nothing_is_left_of_them() {
    let temporary = tempfile::tempdir().unwrap();
    let mut command = command(&["--cameras", "3"]);
    let (mut program, address) = begun(command.env("TMPDIR", temporary.path()));
    assert!(get(&address, "/").contains("<!doctype html>"));
    until("all cameras are live, and recorded", || {
        let cameras = cameras(&address);
        let is_good = |camera: &Value| {
            camera["state"] == "live" && camera["recording"]["gops"].as_u64() > Some(0)
        };
        cameras.len() == 3 && cameras.iter().all(is_good)
    });
    assert_eq!(entries(temporary.path()), 1);
    program.signal("INT");
    assert_eq!(program.ended().code(), Some(0), "{}", program.said());
    assert_eq!(entries(temporary.path()), 0);
    // A terminal that is closed.
    let (mut program, _) = begun(&mut command);
    assert_eq!(entries(temporary.path()), 1);
    program.signal("HUP");
    assert_eq!(program.ended().code(), Some(0), "{}", program.said());
    assert_eq!(entries(temporary.path()), 0);
}

#[test]
fn a_directory_that_is_named_stays_with_what_was_recorded() {
    let around = tempfile::tempdir().unwrap();
    let kept = around.path().join("a \"quoted\" name");
    let (mut program, address) = begun(command(&["--cameras", "1", "--directory"]).arg(&kept));
    until("it is recorded", || {
        cameras(&address)[0]["recording"]["gops"].as_u64() > Some(0)
    });
    program.signal("TERM");
    assert_eq!(program.ended().code(), Some(0), "{}", program.said());
    assert!(entries(&kept.join("cam1")) > 0);
}

#[test]
fn what_cannot_be_is_refused_with_a_reason() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let path = file.path().to_str().unwrap();
    for (arguments, said) in [
        (["--cameras", "0"], "1..=64"),
        (["--cameras", "65"], "1..=64"),
        (["--directory", path], "name one that can be made"),
    ] {
        let (is_good, _, errors) = testing::Program::run(&mut command(&arguments));
        assert!(!is_good && errors.contains(said), "{arguments:?}: {errors}");
    }
}
