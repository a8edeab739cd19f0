//! The camera service on each runtime: one suite, instantiated for both.

#[macro_use]
mod common;

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::process::Stdio;

use common::{
    Server, complaint, directory, eventually, get_json, hangs_up, has, lab, load, number, words,
};
use serde_json::Value;

const FRAME_LEN: usize = 1_460;

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

/// The accounts of all cameras, once they satisfy `condition`.
fn cameras(api: SocketAddr, what: &str, condition: impl Fn(&Value) -> bool) -> Value {
    let mut seen = Value::Null;
    eventually(what, || {
        seen = get_json(api, "/camera");
        condition(&seen)
    });
    seen
}

/// How many delays there are in these buckets.
fn counted(buckets: &Value) -> u64 {
    let buckets = buckets.as_array().expect("buckets");
    buckets.iter().map(|bucket| number(&bucket[1])).sum()
}

fn every_frame_is_recorded_and_passed_on(runtime: &str) {
    let records = directory(&format!("recordings-{runtime}")).join("new");
    let flags = "--camera ANY --watch ANY --api ANY --work-us 5";
    let record = ["--record", &records.to_string_lossy()];
    let server = Server::start_with(runtime, flags, &record);
    let (camera, watch) = (server.address("camera"), server.address("watch"));
    let rate = "--connections 30 --mbit 20 --burst 3 --seconds 0.5 --drain 20";
    let sent = load(&format!(
        "cameras {camera} --watch {watch} --watched 7 {rate}"
    ));
    has(&sent, [("dropped", 0), ("missed", 0)]);
    assert!(number(&sent["watched"]) > 0, "{sent}");
    let api = server.address("api");
    let seen = cameras(api, "every camera ends", |seen| seen["cameras"] == 0);
    has(&seen, [("lost", 0), ("broken", 0), ("unrecorded", 0)]);
    assert_eq!(seen["frames"], sent["frames"], "{seen}");
    assert_eq!(seen["recorded"], seen["bytes"], "{seen}");
    let delays = counted(&seen["delays"]);
    assert!(
        0 < delays && delays <= number(&seen["deliveries"]),
        "{seen}"
    );
    let lengths = std::fs::read_dir(&records).expect("recordings");
    let lengths = lengths.map(|entry| entry.and_then(|e| e.metadata()).map_or(0, |m| m.len()));
    // Recordings begin at different places of their first block.
    assert!(lengths.sum::<u64>() >= number(&seen["bytes"]));
}

fn a_recording_is_what_was_sent_and_starts_over(runtime: &str) {
    let records = directory(&format!("ring-{runtime}")).join("new");
    let record = ["--record", &records.to_string_lossy()];
    let server = Server::start_with(runtime, "--camera ANY --api ANY", &record);
    let numbers: Vec<u64> = (0..1_000).collect();
    let sent = frames(3, &numbers);
    let mut stream = server.connect("camera");
    stream.write_all(&sent).expect("the server reads");
    drop(stream);
    let api = server.address("api");
    cameras(api, "all is recorded", |seen| {
        seen["recorded"] == sent.len()
    });
    let recording = std::fs::read(records.join("camera-0")).expect("a recording");
    let ring = 1_048_576;
    assert_eq!(recording.len(), ring);
    // The beginning was overwritten by what came after a whole ring.
    let over = sent.len() - ring;
    assert!(recording[..over] == sent[ring..] && recording[over..] == sent[over..ring]);
}

fn a_viewer_is_sent_what_its_camera_sends(runtime: &str) {
    let server = Server::start(runtime, "--camera ANY --watch ANY");
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
    let server = Server::start(runtime, "--camera ANY --api ANY");
    let api = server.address("api");
    let send = |bytes: &[u8]| {
        let mut stream = server.connect("camera");
        stream.write_all(bytes).expect("it reads");
        stream
    };
    let _gaps = send(&frames(1, &[0, 3, 4]));
    cameras(api, "a gap is seen", |seen| seen["lost"] == 2);
    let mut noise = send(&[7; 100]);
    cameras(api, "noise is seen", |seen| seen["broken"] == 1);
    let _twice = send(&frames(1, &[0, 0]));
    let seen = cameras(api, "a frame that came before is seen", |seen| {
        seen["broken"] == 2
    });
    // Who sends no frames is hung up on.
    assert!(hangs_up(&mut noise));
    // Of a read that breaks, nothing counts.
    assert!((3..=4).contains(&number(&seen["frames"])), "{seen}");
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
        let flags = format!("--camera ANY --api ANY --delivery {delivery}");
        let server = Server::start("evenkeel", &flags);
        let (camera, api) = (server.address("camera"), server.address("api"));
        let rate = "--connections 20 --mbit 20 --seconds 0.5 --drain 20";
        let sent = load(&format!("cameras {camera} {rate}"));
        let seen = cameras(api, "every camera ends", |seen| seen["cameras"] == 0);
        has(&seen, [("frames", number(&sent["frames"])), ("lost", 0)]);
        let stats = get_json(api, "/stats");
        let bytes = number(&stats["delivery"]["bytes"]);
        assert!(bytes >= number(&seen["bytes"]), "{stats}");
    }
}

#[test]
fn cameras_go_on_until_they_are_told() {
    const SECONDS: u64 = 100;
    let server = Server::start("tokio", "--camera ANY --api ANY");
    let camera = server.address("camera");
    let rate = format!("--connections 5 --mbit 1.168 --seconds {SECONDS}");
    let mut load = lab();
    load.args(words(&format!(
        "load cameras {camera} {rate} --until-told --json"
    )));
    let load = load.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut load = load.expect("the lab starts");
    cameras(server.address("api"), "frames come", |seen| {
        seen["frames"] != 0
    });
    drop(load.stdin.take());
    let output = load.wait_with_output().expect("it ends");
    let sent: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert!(
        (1..SECONDS * 100).contains(&number(&sent["frames"])),
        "{sent}"
    );
}

#[test]
fn cameras_take_ways_of_delivery_in_turn() {
    let turns = "immediate/coalesce:65536:100/adaptive:16";
    let flags = format!("--camera ANY --api ANY --delivery {turns}");
    let server = Server::start("evenkeel", &flags);
    let api = server.address("api");
    // One after another, so that they are accepted in this order.
    for camera in 0..4_u64 {
        let mut stream = server.connect("camera");
        // Nothing is held back before a reader has waited once.
        for number in 0..2 {
            let sent = stream.write_all(&frames(1, &[number]));
            sent.expect("it reads");
            let so_far = 2 * camera + number + 1;
            cameras(api, "a frame comes", |seen| seen["frames"] == so_far);
        }
    }
    let delays = &get_json(api, "/camera")["delays_in_turn"];
    let turns = [0, 1, 2].map(|turn: usize| counted(&delays[turn]));
    assert_eq!(turns, [4, 2, 2], "{delays}");
    let longest = get_json(api, "/stats")["delivery"]["longest_us"].as_f64();
    assert!(longest > Some(50_000.0), "{longest:?}");
}

#[test]
fn what_cannot_be_delivered_is_said_clearly() {
    for (args, expected) in [
        (
            "tokio --camera ANY --delivery immediate",
            "tokio wakes a reader at whatever arrives",
        ),
        (
            "tokio --camera ANY --delivery later",
            "neither `immediate` nor",
        ),
        ("evenkeel --camera ANY --delivery coalesce:0:5", "BYTES `0`"),
        ("tokio --echo ANY --watch ANY", "--camera <ADDR>"),
    ] {
        let words = complaint(&format!("serve {args}"));
        assert!(words.contains(expected), "{args}: {words}");
    }
}
