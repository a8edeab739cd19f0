//! The program records a camera, shows it over HTTP, and ends in good order.

use std::path::Path;

use cameras::simulator::Stream;
use serde_json::{Value, json};

use super::support::{Program, Sent, segments, simulator, simulator_of_stream, until};

fn get(program: &Program, path: &str) -> (String, Vec<u8>) {
    program.http("GET", path, "", "")
}

pub(crate) fn json(program: &Program, path: &str) -> Value {
    let (head, body) = get(program, path);
    serde_json::from_slice(&body).unwrap_or_else(|error| panic!("{error}: {head}"))
}

/// The names of all files below a directory.
fn files(directory: &Path) -> Vec<String> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_dir() {
            names.extend(files(&entry.path()));
        } else {
            names.push(entry.file_name().into_string().unwrap());
        }
    }
    names
}

/// A directory is none, as long as no disk is mounted there.
#[test]
fn nothing_is_recorded_beneath_a_disk_that_is_not_mounted() {
    let simulator = simulator();
    let url = simulator.url(0);
    let start = |path: &Path| {
        Program::start(&format!(
            "[volume.disk]\npath = {path:?}\nmounted = true\nreserve = \"1MiB\"\n\
             [watch]\nlisten = \"127.0.0.1:0\"\n\
             [camera.gate]\nurl = {url:?}\ndelivery = \"5ms\"\n\
             record = {{ volume = \"disk\" }}\n"
        ))
    };
    let beneath = tempfile::tempdir().unwrap();
    let mut program = start(beneath.path());
    until("it is said", || {
        let camera = json(&program, "/api/cameras/gate");
        camera["recording"]
            .to_string()
            .contains("nothing is mounted")
    });
    program.terminate();
    assert!(files(beneath.path()).is_empty());
}

#[test]
fn a_camera_is_recorded_and_shown_and_its_files_are_complete_at_the_end() {
    let disk = tempfile::tempdir().unwrap();
    let simulator = simulator();
    let url = simulator.url(0);
    let config = format!(
        "[volume.disk]\npath = {:?}\nreserve = \"1MiB\"\n[watch]\nlisten = \"127.0.0.1:0\"\n\
         [camera.gate]\nurl = {url:?}\ndelivery = \"5ms\"\nrecord = {{ volume = \"disk\" }}\n",
        disk.path()
    );
    let mut program = Program::start(&config);
    until("groups are written", || {
        let camera = json(&program, "/api/cameras/gate");
        camera["state"] == "live" && camera["recording"]["gops"].as_u64() > Some(2)
    });
    let now = json(&program, "/api/cameras")["now_ms"].as_u64().unwrap();
    let around = format!("from={}&until={}", now - 60_000, now + 60_000);
    let listed = json(&program, &format!("/api/cameras/gate/recordings?{around}"));
    assert_eq!(listed["ranges"].as_array().unwrap().len(), 1, "{listed}");
    let (head, clip) = get(&program, &format!("/api/cameras/gate/clip.mp4?{around}"));
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    assert!(clip.windows(4).filter(|four| four == b"moof").count() > 2);
    let (head, page) = get(&program, "/");
    assert!(head.starts_with("HTTP/1.1 200") && page.starts_with(b"<!doctype html>"));
    program.terminate();
    let sent = Sent::of(&Stream::synthetic(10, 4_000));
    let read = segments(&disk.path().join("gate"), &sent);
    let numbers: Vec<u32> = read.iter().flat_map(|it| it.numbers.clone()).collect();
    assert!(numbers.len() > 100 && numbers.iter().copied().eq(0..numbers.len() as u32));
    let names = files(disk.path());
    let is_complete = |name: &&String| name.ends_with(".mp4") && name.contains('-');
    assert_eq!(names.len(), 2, "{names:?}");
    assert_eq!(names.iter().filter(is_complete).count(), 1, "{names:?}");
}

/// A group that no key frame has completed is recorded as far as it has come: at the end, and when
/// its camera is removed.
#[test]
fn what_came_of_a_group_is_recorded_at_the_end_and_when_its_camera_is_removed() {
    for is_removed in [false, true] {
        ends_in_mid_group(is_removed);
    }
}

fn ends_in_mid_group(is_removed: bool) {
    let disk = tempfile::tempdir().unwrap();
    // Its second group would begin after half a minute.
    let stream = || Stream::synthetic(3_000, 500);
    let simulator = simulator_of_stream(stream());
    let url = simulator.url(0);
    let mut program = Program::start(&format!(
        "[volume.disk]\npath = {:?}\nreserve = \"1MiB\"\n[watch]\nlisten = \"127.0.0.1:0\"\n",
        disk.path()
    ));
    let described = json!({ "url": url, "delivery": "5ms", "record": { "volume": "disk" } });
    let path = "/api/cameras/gate";
    assert_eq!(program.api("PUT", path, &described).0, 200);
    let mut came = 0;
    until("pictures come", || {
        let camera = json(&program, "/api/cameras/gate");
        assert_ne!(camera["recording"]["gops"].as_u64(), Some(1), "{camera}");
        came = camera["samples"].as_u64().unwrap_or(0);
        came > 30
    });
    if is_removed {
        assert_eq!(program.api("DELETE", path, &Value::Null).0, 200);
    }
    program.terminate();
    let read = segments(&disk.path().join("gate"), &Sent::of(&stream()));
    let [segment] = &read[..] else {
        panic!("{read:?}");
    };
    assert_eq!(segment.groups, 1);
    let numbers = &segment.numbers;
    assert!(numbers.len() as u64 >= came, "{came} came, {numbers:?}");
    assert!(
        numbers.iter().copied().eq(0..numbers.len() as u32),
        "{numbers:?}"
    );
}

#[test]
fn a_volume_is_recorded_into_by_one_process_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("disk of the yard");
    let volume = format!("[volume.yard]\npath = {path:?}\n");
    let mut first = Program::start(&volume);
    let said = Program::refused(&volume);
    let named = format!(
        "volume yard: another process records into {}",
        path.display()
    );
    assert!(said.contains(&named), "{said}");
    first.terminate();
    Program::start(&volume);
}
