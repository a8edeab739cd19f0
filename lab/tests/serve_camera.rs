//! The camera service on each runtime: one suite, instantiated for both.

#[macro_use]
mod common;

use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::Stdio;

use common::{Server, eventually, get_json, lab, load};

const ANY: &str = "127.0.0.1:0";
const FRAME_LEN: usize = 1_460;

/// An empty directory for recordings, of that name.
fn directory(name: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    // There may be one of an earlier run.
    let _ = std::fs::remove_dir_all(&path);
    path
}

/// The bytes of frames of one camera, each filled with its number.
fn frames(camera: u32, numbers: &[u64]) -> Vec<u8> {
    let frame = |&number: &u64| {
        let mut frame = b"cam1".to_vec();
        frame.extend(camera.to_le_bytes());
        frame.extend(number.to_le_bytes());
        frame.extend(0_u64.to_le_bytes());
        frame.resize(FRAME_LEN, number as u8);
        frame
    };
    numbers.iter().flat_map(frame).collect()
}

fn every_frame_is_recorded_and_passed_on(runtime: &str) {
    let records = directory(&format!("recordings-{runtime}"));
    let path = records.to_string_lossy();
    let services = ["--camera", ANY, "--watch", ANY, "--api", ANY];
    let flags = ["--record", &path, "--work-us", "5"];
    let server = Server::start(runtime, &[&services[..], &flags].concat());
    let (camera, watch) = (server.address("camera"), server.address("watch"));
    let (camera, watch) = (camera.to_string(), watch.to_string());
    let args = ["cameras", &camera, "--watch", &watch, "--watched", "7"];
    let rate = ["--connections", "30", "--mbit", "20", "--burst", "3"];
    let sent = load(&[&args[..], &rate, &["--seconds", "0.5", "--drain", "20"]].concat());
    assert_eq!(
        (&sent["dropped"], &sent["missed"]),
        (&0.into(), &0.into()),
        "{sent}"
    );
    assert!(sent["watched"].as_u64().is_some_and(|n| n > 0), "{sent}");
    let api = server.address("api");
    eventually("every camera ends", || {
        get_json(api, "/camera")["cameras"] == 0
    });
    let seen = get_json(api, "/camera");
    assert_eq!(seen["frames"], sent["frames"], "{seen}");
    for nothing in ["lost", "broken", "unrecorded"] {
        assert_eq!(seen[nothing], 0, "{seen}");
    }
    assert_eq!(seen["recorded"], seen["bytes"], "{seen}");
    let delays = seen["delays"].as_array().expect("buckets");
    let counted: u64 = delays.iter().filter_map(|pair| pair[1].as_u64()).sum();
    let deliveries = seen["deliveries"].as_u64().expect("a number");
    assert!(0 < counted && counted <= deliveries, "{seen}");
    let lengths = std::fs::read_dir(&records).expect("recordings");
    let lengths = lengths.map(|entry| entry.and_then(|e| e.metadata()).map_or(0, |m| m.len()));
    // Recordings begin at different places of their first block.
    assert!(Some(lengths.sum::<u64>()) >= seen["bytes"].as_u64());
}

fn a_recording_is_what_was_sent_and_starts_over(runtime: &str) {
    let records = directory(&format!("ring-{runtime}"));
    let path = records.to_string_lossy();
    let flags = ["--camera", ANY, "--api", ANY, "--record", &path];
    let server = Server::start(runtime, &flags);
    let numbers: Vec<u64> = (0..1_000).collect();
    let sent = frames(3, &numbers);
    let mut stream = server.connect("camera");
    stream.write_all(&sent).expect("the server reads");
    drop(stream);
    let api = server.address("api");
    eventually("all is recorded", || {
        get_json(api, "/camera")["recorded"] == sent.len()
    });
    let recording = std::fs::read(records.join("camera-0")).expect("a recording");
    let ring = 1_048_576;
    assert_eq!(recording.len(), ring);
    // The beginning was overwritten by what came after a whole ring.
    let over = sent.len() - ring;
    assert!(recording[..over] == sent[ring..] && recording[over..] == sent[over..ring]);
}

fn a_viewer_is_sent_what_its_camera_sends(runtime: &str) {
    let server = Server::start(runtime, &["--camera", ANY, "--watch", ANY]);
    let mut camera = server.connect("camera");
    let sent = frames(9, &[0, 1, 2, 3]);
    let (before, after) = sent.split_at(FRAME_LEN + 500);
    camera.write_all(before).expect("the server reads");
    let mut viewer = server.connect("watch");
    viewer.write_all(&9_u32.to_le_bytes()).expect("it may ask");
    // One that comes later begins where its camera is; until it is there, nothing more is sent.
    std::thread::sleep(std::time::Duration::from_millis(300));
    camera.write_all(after).expect("the server reads");
    drop(camera);
    let mut seen = Vec::new();
    viewer.read_to_end(&mut seen).expect("all, then the end");
    assert!(sent.ends_with(&seen) && seen.len() >= after.len());
}

fn what_is_lost_or_broken_is_counted(runtime: &str) {
    let server = Server::start(runtime, &["--camera", ANY, "--api", ANY]);
    let api = server.address("api");
    let mut gaps = server.connect("camera");
    gaps.write_all(&frames(1, &[0, 3, 4])).expect("it reads");
    eventually("a gap is seen", || get_json(api, "/camera")["lost"] == 2);
    let mut noise = server.connect("camera");
    noise.write_all(&[7; 100]).expect("it reads");
    eventually("noise is seen", || get_json(api, "/camera")["broken"] == 1);
    let mut twice = server.connect("camera");
    twice.write_all(&frames(1, &[0, 0])).expect("it reads");
    eventually("a frame that came before is seen", || {
        get_json(api, "/camera")["broken"] == 2
    });
    // Who sends no frames is hung up on.
    assert!(matches!(noise.read(&mut [0; 1]), Ok(0) | Err(_)));
    // Of a read that breaks, nothing counts.
    let frames = get_json(api, "/camera")["frames"].as_u64();
    assert!(frames.is_some_and(|n| (3..=4).contains(&n)));
}

suite! {
    every_frame_is_recorded_and_passed_on,
    a_recording_is_what_was_sent_and_starts_over,
    a_viewer_is_sent_what_its_camera_sends,
    what_is_lost_or_broken_is_counted,
}

#[test]
fn evenkeel_delivers_every_frame_in_every_way() {
    for delivery in ["immediate", "coalesce:8192:20", "adaptive:16"] {
        let flags = ["--camera", ANY, "--api", ANY, "--delivery", delivery];
        let server = Server::start("evenkeel", &flags);
        let camera = server.address("camera").to_string();
        let args = ["cameras", &camera, "--connections", "20", "--mbit", "20"];
        let sent = load(&[&args[..], &["--seconds", "0.5", "--drain", "20"]].concat());
        let api = server.address("api");
        eventually("every camera ends", || {
            get_json(api, "/camera")["cameras"] == 0
        });
        let seen = get_json(api, "/camera");
        assert_eq!(
            (&seen["frames"], &seen["lost"]),
            (&sent["frames"], &0.into()),
            "{seen}"
        );
        let stats = get_json(api, "/stats");
        let bytes = stats["delivery"]["bytes"].as_u64();
        assert!(
            bytes.is_some_and(|n| Some(n) >= seen["bytes"].as_u64()),
            "{stats}"
        );
    }
}

#[test]
fn cameras_go_on_until_they_are_told() {
    const SECONDS: u64 = 100;
    let server = Server::start("tokio", &["--camera", ANY, "--api", ANY]);
    let camera = server.address("camera").to_string();
    let args = ["load", "cameras", &camera, "--connections", "5"];
    let rate = ["--mbit", "1.168", "--seconds", &SECONDS.to_string()];
    let mut cameras = lab()
        .args([&args[..], &rate, &["--until-told", "--json"]].concat())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the lab starts");
    eventually("frames come", || {
        get_json(server.address("api"), "/camera")["frames"] != 0
    });
    drop(cameras.stdin.take());
    let output = cameras.wait_with_output().expect("it ends");
    let sent: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let frames = sent["frames"].as_u64().expect("a number");
    assert!((1..SECONDS * 100).contains(&frames), "{sent}");
}

#[test]
fn cameras_take_ways_of_delivery_in_turn() {
    let turns = "immediate/coalesce:65536:100/adaptive:16";
    let flags = ["--camera", ANY, "--api", ANY, "--delivery", turns];
    let server = Server::start("evenkeel", &flags);
    let api = server.address("api");
    // One after another, so that they are accepted in this order.
    for camera in 0..4_u64 {
        let mut stream = server.connect("camera");
        // Nothing is held back before a reader has waited once.
        stream.write_all(&frames(1, &[0])).expect("it reads");
        eventually("a frame comes", || {
            get_json(api, "/camera")["frames"] == 2 * camera + 1
        });
        stream.write_all(&frames(1, &[1])).expect("it reads");
        eventually("another comes", || {
            get_json(api, "/camera")["frames"] == 2 * camera + 2
        });
    }
    let delays = &get_json(api, "/camera")["delays_in_turn"];
    let counted = |turn: usize| -> u64 {
        let buckets = delays[turn].as_array().expect("buckets");
        buckets.iter().filter_map(|pair| pair[1].as_u64()).sum()
    };
    assert_eq!([counted(0), counted(1), counted(2)], [4, 2, 2], "{delays}");
    let longest = get_json(api, "/stats")["delivery"]["longest_us"].as_f64();
    assert!(longest.is_some_and(|us| us > 50_000.0), "{longest:?}");
}

#[test]
fn what_cannot_be_delivered_is_said_clearly() {
    for (runtime, delivery, complaint) in [
        (
            "tokio",
            "immediate",
            "tokio wakes a reader at whatever arrives",
        ),
        ("tokio", "later", "neither `immediate` nor"),
        ("evenkeel", "coalesce:0:5", "BYTES `0`"),
    ] {
        let mut lab = common::lab();
        lab.args(["serve", runtime, "--camera", ANY, "--delivery", delivery]);
        let output = lab.output().expect("the lab starts");
        let words = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{runtime} {delivery}");
        assert!(words.contains(complaint), "{runtime} {delivery}: {words}");
    }
    let mut lab = common::lab();
    let output = lab
        .args(["serve", "tokio", "--echo", ANY, "--watch", ANY])
        .output();
    let words = output.expect("the lab starts").stderr;
    assert!(String::from_utf8_lossy(&words).contains("--camera <ADDR>"));
}
