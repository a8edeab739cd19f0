//! Faults again and again, at random moments, with every picture of every file compared with what
//! was sent. They take minutes: `cargo test --release -p cameras --test whole -- --ignored soak`.
//! `EVENKEEL_CAMERAS_KILLS` says how often the server is killed, and `EVENKEEL_CAMERAS_FREEZES` how
//! often its disk stands still.

use std::collections::BTreeSet;
use std::io::Read;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use cameras::record::index::{Index, LINE};
use cameras::simulator::{Simulator, Stream};
use serde_json::Value;

use super::mounted::Mounted;
use super::recorded::json;
use super::support::{Program, Segment, Sent, segments, simulator, until};

const CAMERAS: usize = 6;

/// How often something is done.
fn times(name: &str, usual: usize) -> usize {
    let said = std::env::var(name).ok();
    said.map_or(usual, |said| said.parse().expect("a number"))
}

/// A number below `limit`, of a row that can be had again.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        let (factor, more) = (6_364_136_223_846_793_005, 1_442_695_040_888_963_407);
        self.0 = self.0.wrapping_mul(factor).wrapping_add(more);
        (self.0 >> 33) % limit
    }

    fn pause(&mut self, ms: u64) {
        std::thread::sleep(Duration::from_millis(self.below(ms)));
    }
}

fn start(simulator: &Simulator, disk: &Path, recording: &str) -> Program {
    let mut config = format!(
        "[recording]\n{recording}\n[volume.disk]\npath = {disk:?}\nreserve = \"1MiB\"\n\
         [watch]\nlisten = \"127.0.0.1:0\"\n"
    );
    for camera in 0..CAMERAS {
        let url = simulator.url(camera);
        config +=
            &format!("[camera.cam{camera}]\nurl = {url:?}\nrecord = {{ volume = \"disk\" }}\n");
    }
    Program::start(&config)
}

/// Groups of each camera that this process has written.
fn written(program: &Program) -> Vec<u64> {
    let said = json(program, "/api/cameras");
    let groups = |camera: &Value| camera["recording"]["gops"].as_u64().unwrap();
    said["cameras"]
        .as_array()
        .unwrap()
        .iter()
        .map(groups)
        .collect()
}

/// What was not recorded, of all cameras.
fn lost(program: &Program) -> Vec<Value> {
    let said = json(program, "/api/cameras");
    let cameras = said["cameras"].as_array().unwrap().iter();
    let lost = cameras.map(|camera| camera["recording"]["lost_gops"].clone());
    lost.filter(|lost| *lost != serde_json::json!({})).collect()
}

fn wait_for(program: &Program, groups: u64) {
    until("groups of all cameras are written", || {
        let written = written(program);
        written.len() == CAMERAS && written.iter().all(|it| *it >= groups)
    });
}

fn read(disk: &Path) -> Vec<Vec<Segment>> {
    let sent = Sent::of(&Stream::synthetic(10, 4_000));
    let of = |camera| segments(&disk.join(format!("cam{camera}")), &sent);
    (0..CAMERAS).map(of).collect()
}

/// Pictures follow each other. Another session begins in a file of its own, with picture 0. Where
/// `begins_late`, what was before the first file is gone.
fn follow(segments: &[Segment], begins_late: bool) {
    let mut before: Option<(i64, u32)> = None;
    for segment in segments {
        for (place, number) in segment.numbers.iter().enumerate() {
            let goes_on = before.is_some_and(|(boot_us, before)| {
                boot_us == segment.boot_us && *number == before + 1
            });
            let begins = place == 0 && *number == 0 || begins_late && before.is_none();
            let path = &segment.path;
            assert!(goes_on || begins, "{number} after {before:?} in {path:?}");
            before = Some((segment.boot_us, *number));
        }
    }
}

/// ffprobe decodes every picture of a file, and has nothing to complain of. Passes without looking
/// where it is not installed.
fn probe(segment: &Segment) {
    let probed = Command::new("ffprobe")
        .args(["-v", "error", "-count_frames", "-of", "csv=p=0"])
        .args(["-show_entries", "stream=nb_read_frames"])
        .arg(&segment.path)
        .output();
    let Ok(probed) = probed else {
        eprintln!("ffprobe cannot be started, so it looks at no file");
        return;
    };
    let said = String::from_utf8_lossy(&probed.stdout);
    let pictures = segment.numbers.len().to_string();
    assert_eq!(said.trim(), pictures, "{probed:?} of {:?}", segment.path);
    assert!(probed.stderr.is_empty(), "{probed:?} of {:?}", segment.path);
}

/// Cuts a file that was being written, or changes a byte of it, behind what its index says is on
/// the disk.
fn harm(camera: &Path, random: &mut Random) {
    for day in std::fs::read_dir(camera).unwrap() {
        for file in std::fs::read_dir(day.unwrap().path()).unwrap() {
            let path = file.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            let Some(start) = name.strip_suffix(".mp4").filter(|it| !it.contains('-')) else {
                continue;
            };
            let index = std::fs::read(path.with_file_name(format!("{start}.idx"))).unwrap();
            // One that was killed before it had a head has nothing to lose.
            let Some(index) = Index::read(&index).filter(|_| index.len() > LINE) else {
                continue;
            };
            let lines: Vec<_> = index.fragments().collect();
            let synced = lines.last().map_or(0, |line| line.synced) as usize;
            let safe = match synced {
                0 => u64::from(index.head.init_len),
                synced => lines[synced - 1].end(),
            };
            let mut bytes = std::fs::read(&path).unwrap();
            let unsafe_bytes = (bytes.len() as u64).saturating_sub(safe);
            if unsafe_bytes == 0 {
                continue;
            }
            let at = usize::try_from(safe + random.below(unsafe_bytes)).unwrap();
            if random.below(2) == 0 {
                bytes.truncate(at);
            } else {
                bytes[at] ^= 1 << random.below(8);
            }
            std::fs::write(&path, bytes).unwrap();
        }
    }
}

#[test]
#[ignore = "takes minutes"]
fn kills_cost_the_group_that_was_being_written_and_no_other() {
    let disk = tempfile::tempdir().unwrap();
    let simulator = simulator();
    let mut random = Random(1);
    let kills = times("EVENKEEL_CAMERAS_KILLS", 50);
    // What was surely written in each run. The first camera's files are harmed too.
    let mut floors = Vec::new();
    for kill in 0..kills {
        let began = Instant::now();
        let program = start(&simulator, disk.path(), "");
        wait_for(&program, 1);
        if kill % 5 == 4 {
            // All cameras are gone at once, and come back at once.
            simulator.cut();
            let before = written(&program).into_iter().max().unwrap();
            wait_for(&program, before + 2);
        }
        random.pause(800);
        floors.push(written(&program));
        drop(program);
        println!("kill {kill} after {:?}", began.elapsed());
        if kill % 3 == 2 {
            harm(&disk.path().join("cam0"), &mut random);
        }
    }
    let mut program = start(&simulator, disk.path(), "");
    wait_for(&program, 1);
    program.terminate();
    let all = read(disk.path());
    let boots: BTreeSet<i64> = all.iter().flatten().map(|it| it.boot_us).collect();
    assert_eq!(boots.len(), kills + 1);
    let (mut files, mut pictures) = (0, 0);
    for (camera, segments) in all.iter().enumerate() {
        follow(segments, false);
        for (boot_us, floor) in boots.iter().zip(&floors) {
            let of_run = segments.iter().filter(|it| it.boot_us == *boot_us);
            let groups: usize = of_run.map(|it| it.groups).sum();
            let is_harmed = camera == 0;
            assert!(
                is_harmed || groups as u64 >= floor[camera],
                "cam{camera}: {groups}"
            );
        }
        for segment in segments {
            probe(segment);
            files += 1;
            pictures += segment.numbers.len();
        }
    }
    println!("{kills} kills, {files} files, {pictures} pictures compared");
}

#[test]
#[ignore = "takes minutes, and needs root, to freeze a file system"]
fn freezes_lose_nothing_while_a_viewer_takes_a_byte_a_second() {
    let image = tempfile::NamedTempFile::new().unwrap();
    let mut disk = Mounted::ext4(image.path(), 1_024);
    let simulator = simulator();
    let mut program = start(&simulator, Path::new(disk.at()), "");
    wait_for(&program, 1);
    let mut viewer = program.watch("cam1");
    std::thread::spawn(move || {
        // Until the server has had enough of it, or has ended.
        while let Ok(1) = viewer.stream.read(&mut [0]) {
            std::thread::sleep(Duration::from_secs(1));
        }
    });
    let mut random = Random(2);
    let freezes = times("EVENKEEL_CAMERAS_FREEZES", 20);
    for _ in 0..freezes {
        random.pause(1_000);
        disk.freeze();
        random.pause(3_000);
        disk.thaw();
    }
    let before = written(&program).into_iter().max().unwrap();
    wait_for(&program, before + 2);
    assert_eq!(lost(&program), Vec::<Value>::new());
    program.terminate();
    let all = read(Path::new(disk.at()));
    let mut pictures = 0;
    for segment in all.iter().inspect(|it| follow(it, false)).flatten() {
        probe(segment);
        assert_eq!(segment.gaps, 0, "{:?}", segment.path);
        pictures += segment.numbers.len();
    }
    // One process and one session: no picture is missing, as each follows the one before it.
    assert!(all.iter().all(|it| it[0].numbers[0] == 0));
    println!("{freezes} freezes, {pictures} pictures compared");
}

#[test]
#[ignore = "takes a minute, and needs root, to mount a file system"]
fn full_disks_keep_the_newest_without_a_hole() {
    let image = tempfile::NamedTempFile::new().unwrap();
    let disk = Mounted::ext4(image.path(), 64);
    let simulator = simulator();
    let mut program = start(
        &simulator,
        Path::new(disk.at()),
        "segment = \"2s\"\nsync = \"1s\"",
    );
    let began = Instant::now();
    // Some 2.4 MB a second: the disk is full after less than half of it.
    while began.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_secs(1));
        assert_eq!(lost(&program), Vec::<Value>::new());
    }
    let volumes = json(&program, "/api/volumes");
    println!("{volumes}");
    program.terminate();
    for segments in read(Path::new(disk.at())) {
        follow(&segments, true);
        let first = segments[0].numbers[0];
        assert!(first > 0, "the oldest recordings were deleted");
        segments.iter().for_each(probe);
    }
}

/// Half of the cameras record on a disk that takes 80 % of what they send, with what a file system
/// writes about files, half on another one.
#[test]
#[ignore = "takes half a minute, and needs root, to limit a disk"]
fn a_disk_that_takes_too_little_costs_its_cameras_whole_groups_and_others_nothing() {
    let (image, good) = (
        tempfile::NamedTempFile::new().unwrap(),
        tempfile::tempdir().unwrap(),
    );
    // A hundred pictures of 4 000 bytes a second, of three cameras.
    let slow = Mounted::slow(image.path(), 512, 3 * 400_000 * 8 / 10);
    let simulator = simulator();
    let mut config = format!(
        "[recording]\nmemory = \"16MiB\"\ncamera_memory = \"1MiB\"\n[watch]\n\
         listen = \"127.0.0.1:0\"\n[volume.slow]\npath = {:?}\nreserve = \"1MiB\"\n\
         [volume.good]\npath = {:?}\nreserve = \"1MiB\"\n",
        slow.at(),
        good.path()
    );
    for camera in 0..CAMERAS {
        let (url, volume) = (simulator.url(camera), ["slow", "good"][camera % 2]);
        config +=
            &format!("[camera.cam{camera}]\nurl = {url:?}\nrecord = {{ volume = {volume:?} }}\n");
    }
    let mut program = Program::start(&config);
    // Who watches a camera of the slow disk misses nothing.
    let mut viewer = program.watch("cam0");
    let mut before = viewer.media().sequence();
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(25) {
        let now = viewer.media().sequence();
        assert_eq!(now, before.wrapping_add(1));
        before = now;
    }
    drop(viewer);
    drop(simulator);
    until("what waited is written", || {
        json(&program, "/api/volumes")["waiting_bytes"] == 0
    });
    let said = json(&program, "/api/cameras");
    let lost: Vec<Value> = said["cameras"]
        .as_array()
        .unwrap()
        .iter()
        .map(|camera| camera["recording"]["lost_gops"].clone())
        .collect();
    program.terminate();
    for (camera, lost) in lost.iter().enumerate() {
        let disk = [Path::new(slow.at()), good.path()][camera % 2];
        let (missing, gaps) = missing(&disk.join(format!("cam{camera}")));
        println!("cam{camera}: groups missing {missing}, gaps {gaps}, {lost}");
        if camera % 2 == 1 {
            assert_eq!((missing, gaps, lost), (0, 0, &serde_json::json!({})));
            continue;
        }
        assert_eq!(
            *lost,
            serde_json::json!({ "slow_disk": missing }),
            "cam{camera}"
        );
        assert!(missing > 0 && gaps > 0, "the disk took all of it");
    }
}

/// How many groups are missing between the pictures of a camera's files, and how many gaps these
/// say they have. Each file is decoded.
fn missing(camera: &Path) -> (u64, u32) {
    let read = segments(camera, &Sent::of(&Stream::synthetic(10, 4_000)));
    let numbers: Vec<u32> = read.iter().flat_map(|it| it.numbers.clone()).collect();
    let mut missing = 0;
    for pair in numbers.windows(2).filter(|pair| pair[1] != pair[0] + 1) {
        // Key frames within half a second of a group's begin no other one.
        let is_whole = pair[1] > pair[0] && pair[0] % 50 == 49 && pair[1].is_multiple_of(50);
        assert!(is_whole, "{pair:?} in {camera:?}");
        missing += u64::from(pair[1] - pair[0] - 1) / 50;
    }
    read.iter().for_each(probe);
    (missing, read.iter().map(|it| it.gaps).sum())
}
