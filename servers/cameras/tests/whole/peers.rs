//! Other people's programs, where they are installed.

use std::path::Path;
use std::process::{Command, Stdio};

use cameras::simulator::{Settings, Simulator, Stream};

use super::support::{Program, simulator};

fn is_there(program: &str) -> bool {
    let mut command = Command::new(program);
    command
        .arg("-version")
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let is_there = command.status().is_ok_and(|status| status.success());
    if !is_there {
        eprintln!("NOT CHECKED: {program} is not installed");
    }
    is_there
}

/// ffmpeg decodes what was received, without a complaint.
#[test]
fn ffmpeg_decodes_what_it_watches() {
    if !is_there("ffmpeg") {
        return;
    }
    let simulator = simulator();
    let config = format!(
        "[camera.gate]\nurl = {:?}\ndelivery = \"5ms\"\n",
        simulator.url(0)
    );
    let program = Program::start(&config);
    drop(program.watch("gate"));
    let output = Command::new("ffmpeg")
        .args([
            "-v",
            "warning",
            "-rtsp_transport",
            "tcp",
            "-i",
            &program.url("gate"),
        ])
        .args([
            "-frames:v",
            "40",
            "-fps_mode",
            "passthrough",
            "-f",
            "framemd5",
            "-",
        ])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let complaints = String::from_utf8_lossy(&output.stderr);
    let frames = said.lines().filter(|line| line.starts_with("0,")).count();
    assert_eq!(frames, 40, "{said}\n{complaints}");
    assert!(!complaints.contains("error"), "{complaints}");
    assert!(said.contains("#dimensions 0: 640x480"), "{said}");
}

/// Real H.264, with several slices and sets in each key frame, is published by ffmpeg and watched
/// by ffprobe.
#[test]
fn ffmpeg_publishes_and_ffprobe_watches() {
    publish_and_watch("tcp");
}

/// The same as datagrams, which ffmpeg sends.
#[test]
fn ffmpeg_publishes_datagrams_and_ffprobe_watches() {
    publish_and_watch("udp");
}

fn publish_and_watch(transport: &str) {
    if !is_there("ffmpeg") || !is_there("ffprobe") {
        return;
    }
    let program = Program::start_with("udp = true", "[camera.gate]\n");
    let mut publisher = Command::new("ffmpeg")
        .args([
            "-v",
            "error",
            "-re",
            "-f",
            "lavfi",
            "-i",
            "testsrc=size=320x240:rate=25",
        ])
        .args(["-f", "lavfi", "-i", "sine=frequency=440"])
        .args([
            "-c:v",
            "libx264",
            "-preset",
            "ultrafast",
            "-tune",
            "zerolatency",
            "-g",
            "10",
        ])
        .args([
            "-c:a",
            "aac",
            "-f",
            "rtsp",
            "-rtsp_transport",
            transport,
            &program.url("gate"),
        ])
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    drop(program.watch("gate"));
    let output = Command::new("ffprobe")
        .args([
            "-v",
            "error",
            "-rtsp_transport",
            "tcp",
            "-i",
            &program.url("gate"),
        ])
        .args([
            "-show_entries",
            "stream=codec_name,width,height,sample_rate",
            "-of",
            "compact",
        ])
        .stdin(Stdio::null())
        .output();
    let _ = publisher.kill();
    let _ = publisher.wait();
    let output = output.unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        said.contains("codec_name=h264|width=320|height=240"),
        "{said}"
    );
    assert!(said.contains("codec_name=aac|sample_rate=44100"), "{said}");
}

/// Makes a file of real H.264, with a key frame at the beginning and one in the middle.
fn make(file: &Path) {
    let made = Command::new("ffmpeg")
        .args([
            "-v",
            "error",
            "-f",
            "lavfi",
            "-i",
            "testsrc2=size=320x240:rate=25",
        ])
        .args([
            "-frames:v",
            "50",
            "-c:v",
            "libx264",
            "-preset",
            "veryfast",
            "-bf",
            "0",
        ])
        .args(["-g", "25", "-bsf:v", "h264_mp4toannexb", "-f", "h264"])
        .arg(file)
        .stdin(Stdio::null())
        .status();
    assert!(made.unwrap().success());
}

/// What a decoder makes of the first pictures, each as a hash.
fn decoded(input: &[&str], frames: &str) -> Vec<String> {
    let output = Command::new("ffmpeg")
        .args(["-v", "error"])
        .args(input)
        .args([
            "-frames:v",
            frames,
            "-fps_mode",
            "passthrough",
            "-f",
            "framemd5",
            "-",
        ])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let of_frames = said.lines().filter(|line| line.starts_with("0,"));
    let hash = |line: &str| line.rsplit(',').next().unwrap().trim().to_owned();
    of_frames.map(hash).collect()
}

/// Real H.264 from a file, by the simulator, through the server, to a decoder.
#[test]
fn real_pictures_survive_the_way_through_the_server() {
    if !is_there("ffmpeg") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("real.h264");
    make(&file);
    let original = decoded(&["-i", file.to_str().unwrap()], "50");
    assert_eq!(original.len(), 50);
    let settings = Settings {
        stream: Stream::of_file(&std::fs::read(&file).unwrap()).unwrap(),
        rate: 50,
        credentials: None,
    };
    let simulator = Simulator::start("127.0.0.1:0".parse().unwrap(), settings).unwrap();
    let url = simulator.url(0);
    let program = Program::start(&format!(
        "[camera.gate]\nurl = {url:?}\ndelivery = \"5ms\"\n"
    ));
    drop(program.watch("gate"));
    let url = program.url("gate");
    let seen = decoded(&["-rtsp_transport", "tcp", "-i", &url], "25");
    // It begins with either key frame, and goes on with the pictures behind that.
    assert!(
        seen == original[..25] || seen == original[25..],
        "{seen:?}\n{original:?}"
    );
}
