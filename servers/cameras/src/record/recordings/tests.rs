//! Recordings of cameras on disks that work, hang, are full, and refuse.

use std::path::Path;

use bytes::Bytes;
use evenkeel::runtime::Builder;

use super::*;
use crate::hub::{Limits, Publisher};
use crate::media::Sample;
use crate::record::clip::{Clip, ClipError, Purpose};
use crate::record::disk::memory::MemoryDisk;
use crate::record::gap::Reason;
use crate::record::index::Index;
use crate::record::listing::{Missing, Range, ranges};
use crate::record::names::Name;
use crate::testing::{PICTURE, sample, video};

/// How long something is waited for.
const LIMIT: Duration = Duration::from_secs(20);

/// Recordings on two disks, `a` and `b`, of the cameras `yard` and `door`.
struct Site {
    hub: Arc<Hub>,
    disks: [MemoryDisk; 2],
    recordings: Recordings<MemoryDisk>,
}

impl Site {
    fn new(budgets: Budgets) -> Self {
        Self::on([MemoryDisk::new(), MemoryDisk::new()], budgets)
    }

    fn on(disks: [MemoryDisk; 2], budgets: Budgets) -> Self {
        let hub = Hub::new(Limits::default());
        let settings = Settings {
            sync_every: Duration::from_millis(10),
            budgets,
            ..Settings::default()
        };
        let volumes = ["a", "b"]
            .iter()
            .zip(&disks)
            .map(|(name, disk)| ((*name).to_owned(), disk.clone(), VolumeLimits::default()));
        let recordings = Recordings::new(settings, volumes.collect(), CameraLimits::default());
        for (camera, volume) in [("yard", "a"), ("door", "b")] {
            hub.add(camera).unwrap();
            recordings
                .record(&hub, camera, volume, CameraLimits::default())
                .unwrap();
        }
        recordings.start();
        Self {
            hub,
            disks,
            recordings,
        }
    }

    fn status(&self, camera: &str) -> CameraStatus {
        self.recordings.status_of(camera).unwrap()
    }

    async fn until(&self, what: &str, mut done: impl FnMut(&Self) -> bool) {
        let waits = async {
            while !done(self) {
                evenkeel::time::sleep(Duration::from_millis(2)).await;
            }
        };
        let waited = evenkeel::time::timeout(LIMIT, waits).await;
        assert!(
            waited.is_ok(),
            "{what}: {:?}",
            self.recordings.cameras_status()
        );
    }

    async fn until_written(&self, camera: &str, gops: u64) {
        let written = |site: &Self| site.status(camera).reported.gops >= gops;
        self.until(&format!("{gops} groups of {camera} are written"), written)
            .await;
    }

    async fn listed(&self, camera: &str) -> (Vec<Range>, Vec<Missing>) {
        let volume = self.recordings.volume_of(camera).unwrap();
        ranges(&volume, camera, now_ms() - 3_600_000, now_ms() + 3_600_000)
            .await
            .unwrap()
    }
}

fn now_ms() -> u64 {
    u64::try_from(unix_us(SystemTime::now()) / 1000).unwrap()
}

/// Pictures of a group. A group is 520 ms, so that a few of them, which come at once, are not so
/// far ahead of the clock that the camera's times seem to have jumped.
const GROUP: i64 = 13;
const GROUP_MS: u64 = 520;

/// A camera that sends groups whenever it is told to.
struct Sender {
    publisher: Publisher,
    next: i64,
}

impl Sender {
    fn new(hub: &Hub, camera: &str) -> Self {
        Self {
            publisher: hub.publish(camera, vec![video(0)]).unwrap(),
            next: 0,
        }
    }

    /// Completes this many groups, the last one by the key frame of the one after it.
    fn send(&mut self, gops: u32) {
        for _ in 0..i64::from(gops) * GROUP {
            self.one();
        }
        if self.next % GROUP == 0 {
            self.one();
        }
    }

    fn one(&mut self) {
        let is_key = self.next % GROUP == 0;
        let sample: Sample = sample(0, self.next * PICTURE, is_key, 1_000);
        self.publisher.push(sample);
        self.next += 1;
    }
}

fn run(test: impl Future<Output = ()>) {
    let runtime = Builder::new().workers(2).build().unwrap();
    runtime.block_on(async {
        let ended = evenkeel::time::timeout(3 * LIMIT, test).await;
        assert!(ended.is_ok(), "the test takes too long");
    });
}

#[test]
fn what_came_is_listed_and_can_be_read_back() {
    run(async {
        let site = Site::new(Budgets::default());
        let mut camera = Sender::new(&site.hub, "yard");
        camera.send(5);
        site.until_written("yard", 5).await;
        let (ranges, missing) = site.listed("yard").await;
        assert_eq!((ranges.len(), missing.len()), (1, 0));
        assert_eq!(ranges[0].until_ms - ranges[0].from_ms, 5 * GROUP_MS);
        let volume = site.recordings.volume_of("yard").unwrap();
        let from = ranges[0].from_ms + 2 * GROUP_MS + 100;
        let mut clip = Clip::plan(&volume, "yard", from, from + GROUP_MS, Purpose::Keep)
            .await
            .unwrap();
        assert_eq!(clip.start_ms(), ranges[0].from_ms + 2 * GROUP_MS);
        let mut fragments = 0;
        while let Some(fragment) = clip.next().await.unwrap() {
            assert!(fragment.len() > 13_000);
            fragments += 1;
        }
        assert_eq!((fragments, clip.damaged()), (2, 0));
        let nothing = Clip::plan(&volume, "yard", 1, 2, Purpose::Keep).await;
        assert!(matches!(nothing, Err(ClipError::Nothing { .. })));
        drop(camera);
        assert_eq!(site.recordings.end(LIMIT).await, Vec::<String>::new());
        let names = site.disks[0].files();
        let is_closed = |path: &Path| {
            let name = path.file_name().and_then(|name| name.to_str());
            matches!(name.and_then(Name::parse), Some(Name::Closed(_)))
        };
        assert!(
            names.keys().any(|path| is_closed(path)),
            "{:?}",
            names.keys()
        );
    });
}

/// What is in the segments of a disk, which have to be complete.
fn fragments(disk: &MemoryDisk) -> Vec<Bytes> {
    let files = disk.files();
    let mut found = Vec::new();
    for (path, bytes) in &files {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap();
        let Some(Name::Closed(closed)) = Name::parse(name) else {
            continue;
        };
        let index = path.with_file_name(Name::Index(closed.start_ms).to_string());
        let index = Index::read(&files[&index]).unwrap();
        for line in index.fragments() {
            let begins = usize::try_from(line.offset).unwrap();
            let fragment = &bytes[begins..begins + line.len as usize];
            assert_eq!(crc32fast::hash(fragment), line.checksum);
            found.push(Bytes::copy_from_slice(fragment));
        }
    }
    found
}

#[test]
fn the_end_records_incomplete_groups_and_a_disk_that_hangs_takes_no_time_from_others() {
    run(async {
        let site = Site::new(Budgets::default());
        let mut cameras = ["yard", "door"].map(|camera| Sender::new(&site.hub, camera));
        for camera in &mut cameras {
            camera.send(1);
        }
        for camera in ["yard", "door"] {
            site.until_written(camera, 1).await;
        }
        // After the key frame.
        for camera in &mut cameras {
            (0..5).for_each(|_| camera.one());
        }
        site.disks[0].set_hangs(true);
        let late = site.recordings.end(Duration::from_secs(3)).await;
        assert_eq!(late, ["yard"]);
        assert!(fragments(&site.disks[0]).is_empty());
        let door = fragments(&site.disks[1]);
        assert_eq!(door.len(), 2);
        assert!(door[0].ends_with(&pictures(0, GROUP)));
        assert!(door[1].ends_with(&pictures(GROUP, 6)));
        let head = door[1].len() - 6 * 1_000;
        assert_eq!(&door[1][head - 4..head], b"mdat", "there is more in it");
    });
}

#[test]
fn a_disk_that_hangs_holds_up_its_own_cameras_alone_and_leaves_a_gap() {
    run(async {
        let budgets = Budgets {
            // Two groups of 13 000 bytes, and what they cost beside.
            camera_bytes: 2 * 17_000,
            all_bytes: 1 << 20,
        };
        let site = Site::new(budgets);
        let (mut yard, mut door) = (
            Sender::new(&site.hub, "yard"),
            Sender::new(&site.hub, "door"),
        );
        yard.send(1);
        door.send(1);
        site.until_written("yard", 1).await;
        site.disks[0].set_hangs(true);
        for gops in 2..=7 {
            yard.send(1);
            door.send(1);
            site.until_written("door", gops).await;
        }
        let hung = |site: &Site| site.status("yard").reported.lost_bytes > 0;
        site.until("the hung disk costs groups", hung).await;
        let status = site.status("yard");
        assert!(status.reported.busy_for.is_some());
        assert!(status.waiting.bytes <= budgets.camera_bytes, "{status:?}");
        assert_eq!(site.status("door").reported.lost_bytes, 0);
        site.disks[0].set_hangs(false);
        site.until("the rest is written", |site| {
            let reported = site.status("yard").reported;
            let lost: u64 = reported.lost.iter().map(|(_, count)| count).sum();
            reported.gops + lost == 7 && site.status("yard").waiting.gops == 0
        })
        .await;
        let lost = site.status("yard").reported.lost;
        let lost: u64 = lost.iter().map(|(_, count)| count).sum();
        let (ranges, missing) = site.listed("yard").await;
        assert_eq!(
            (ranges.len(), missing.len()),
            (2, 1),
            "{ranges:?} {missing:?}"
        );
        assert_eq!(
            (missing[0].reason, u64::from(missing[0].gops)),
            (Reason::SlowDisk, lost)
        );
        let lasts = missing[0].until_ms - missing[0].from_ms;
        assert!(lasts.abs_diff(lost * GROUP_MS) <= 1, "{missing:?}");
    });
}

#[test]
fn a_full_disk_loses_the_oldest_segments_and_no_new_ones() {
    run(async {
        let site = Site::new(Budgets::default());
        for session in 0..4 {
            let mut camera = Sender::new(&site.hub, "yard");
            camera.send(2);
            drop(camera);
            site.until_written("yard", 3 * (session + 1)).await;
        }
        site.until("segments are complete", |site| {
            site.status("yard").bytes > 70_000
        })
        .await;
        let oldest = site.status("yard").oldest_ms.unwrap();
        let used: usize = site.disks[0].files().values().map(Vec::len).sum();
        site.disks[0].set_capacity(used + 10_000);
        let mut camera = Sender::new(&site.hub, "yard");
        camera.send(2);
        site.until_written("yard", 14).await;
        let status = site.status("yard");
        assert_eq!(status.reported.lost_bytes, 0, "{status:?}");
        assert!(status.oldest_ms.unwrap() > oldest);
        let deleted = &site.recordings.volumes_status()[0].deleted;
        assert!(
            deleted
                .iter()
                .any(|(why, count)| *why == "reserve" && *count > 0)
        );
    });
}

#[test]
fn what_cannot_be_written_is_a_gap_with_its_reason() {
    run(async {
        let site = Site::new(Budgets::default());
        let mut camera = Sender::new(&site.hub, "yard");
        camera.send(2);
        site.until_written("yard", 2).await;
        site.disks[0].set_refuses(Some(std::io::ErrorKind::PermissionDenied));
        camera.send(3);
        let lost = |site: &Site| {
            let lost = site.status("yard").reported.lost;
            lost.contains(&(Reason::WriteFailed, 3))
        };
        site.until("three groups are lost", lost).await;
        assert!(
            site.status("yard")
                .reported
                .error
                .unwrap()
                .contains("cannot write")
        );
        site.disks[0].set_refuses(None);
        camera.send(2);
        site.until_written("yard", 4).await;
        assert_eq!(site.status("yard").reported.error, None);
        let (_, missing) = site.listed("yard").await;
        let told: Vec<_> = missing.iter().map(|it| (it.reason, it.gops)).collect();
        assert_eq!(told, [(Reason::WriteFailed, 3)]);
    });
}

#[test]
fn a_disk_that_had_no_time_to_begin_is_asked_again() {
    run(async {
        let site = Site::new(Budgets::default());
        let mut camera = Sender::new(&site.hub, "yard");
        camera.send(1);
        site.until_written("yard", 1).await;
        site.disks[0].set_refuses(Some(std::io::ErrorKind::ResourceBusy));
        camera.send(2);
        let failed = |site: &Site| site.status("yard").reported.failures > 0;
        site.until("it is busy", failed).await;
        site.disks[0].set_refuses(None);
        site.until_written("yard", 3).await;
        assert_eq!(site.status("yard").reported.lost_bytes, 0);
        let (ranges, missing) = site.listed("yard").await;
        assert_eq!((ranges.len(), missing.len()), (1, 0));
    });
}

#[test]
fn a_segment_that_is_refused_its_name_gets_it_later() {
    run(async {
        let site = Site::new(Budgets::default());
        site.disks[0].set_refuses_names(Some(std::io::ErrorKind::StorageFull));
        // The second session ends the segment of the first one.
        for groups in [3, 6] {
            let mut camera = Sender::new(&site.hub, "yard");
            camera.send(2);
            drop(camera);
            site.until_written("yard", groups).await;
        }
        let is_refused = |site: &Site| {
            let error = site.recordings.volumes_status()[0].error.clone();
            error.is_some_and(|error| error.contains("cannot rename"))
        };
        site.until("it is refused", is_refused).await;
        // It can be read all the same.
        let (ranges, missing) = site.listed("yard").await;
        assert!(!ranges.is_empty() && missing.is_empty(), "{ranges:?}");
        assert_eq!(site.status("yard").bytes, 0);
        site.disks[0].set_refuses_names(None);
        site.until("it is complete", |site| site.status("yard").bytes > 0)
            .await;
    });
}

#[test]
fn what_an_earlier_process_left_is_completed() {
    run(async {
        let site = Site::new(Budgets::default());
        let mut camera = Sender::new(&site.hub, "yard");
        camera.send(3);
        site.until_written("yard", 3).await;
        // As after a kill: nothing is closed.
        let left = MemoryDisk::with(&site.disks[0].files());
        drop(camera);
        drop(site);
        let again = Site::on([left, MemoryDisk::new()], Budgets::default());
        again
            .until("it is counted", |site| site.status("yard").bytes > 0)
            .await;
        let (ranges, _) = again.listed("yard").await;
        assert_eq!(ranges.len(), 1);
        assert_eq!(ranges[0].until_ms - ranges[0].from_ms, 3 * GROUP_MS);
    });
}

/// The first pictures, as they stand in fragments one behind the other.
fn pictures(first: i64, count: i64) -> Vec<u8> {
    let of = |picture| sample(0, picture * PICTURE, false, 1_000).data.joined();
    (first..first + count).map(of).collect::<Vec<_>>().concat()
}

#[test]
fn what_came_of_a_group_is_recorded_when_the_camera_is_recorded_no_longer() {
    run(async {
        for is_removed in [false, true] {
            let site = Site::new(Budgets::default());
            let mut camera = Sender::new(&site.hub, "yard");
            camera.send(1);
            (0..5).for_each(|_| camera.one());
            if is_removed {
                site.hub.remove("yard");
            }
            assert!(site.recordings.forget("yard"));
            assert!(site.recordings.status_of("yard").is_none());
            let is_there = |site: &Site| fragments(&site.disks[0]).len() == 2;
            site.until("both groups are there", is_there).await;
            let yard = fragments(&site.disks[0]);
            assert!(yard[0].ends_with(&pictures(0, GROUP)), "{is_removed}");
            assert!(yard[1].ends_with(&pictures(GROUP, 6)), "{is_removed}");
        }
    });
}

/// The new writer leaves alone what the one before has not yet completed.
#[test]
fn a_camera_that_is_added_again_at_once_is_recorded_after_what_it_left() {
    run(async {
        let site = Site::new(Budgets::default());
        let mut camera = Sender::new(&site.hub, "yard");
        camera.send(2);
        site.until_written("yard", 2).await;
        site.disks[0].set_hangs(true);
        for round in 1..=3 {
            camera.send(1);
            assert!(site.recordings.forget("yard"));
            assert!(site.hub.remove("yard"));
            site.hub.add("yard").unwrap();
            let limits = CameraLimits::default();
            let again = site.recordings.record(&site.hub, "yard", "a", limits);
            again.unwrap();
            camera = Sender::new(&site.hub, "yard");
            camera.next = 10 * round * GROUP;
        }
        camera.send(1);
        site.disks[0].set_hangs(false);
        site.until_written("yard", 1).await;
        drop(camera);
        assert_eq!(site.recordings.end(LIMIT).await, Vec::<String>::new());
        let written = fragments(&site.disks[0]);
        let wholes = [0, 1, 2, 10, 20, 30].map(|group| (group, GROUP));
        let begun = [3, 11, 21, 31].map(|group| (group, 1));
        for (group, count) in wholes.into_iter().chain(begun) {
            let wanted = pictures(group * GROUP, count);
            let is_it = |it: &&Bytes| it.ends_with(&wanted);
            assert_eq!(written.iter().filter(is_it).count(), 1, "{group}");
        }
        assert_eq!(written.len(), 10);
    });
}

/// Of the one before there are files that have nothing in them yet, and seem to be left.
#[test]
fn a_new_writer_waits_for_the_one_before_on_its_volume() {
    run(async {
        let site = Site::new(Budgets::default());
        site.disks[0].set_hangs_writes(true);
        let mut camera = Sender::new(&site.hub, "yard");
        camera.send(1);
        let has_files = |site: &Site| site.disks[0].files().len() == 2;
        site.until("files are made", has_files).await;
        assert!(site.recordings.forget("yard"));
        assert!(site.hub.remove("yard"));
        site.hub.add("yard").unwrap();
        let limits = CameraLimits::default();
        let again = site.recordings.record(&site.hub, "yard", "a", limits);
        again.unwrap();
        // Long enough for one that does not wait to look at them.
        evenkeel::time::sleep(Duration::from_millis(50)).await;
        site.disks[0].set_hangs_writes(false);
        assert_eq!(site.recordings.end(LIMIT).await, Vec::<String>::new());
        let written = fragments(&site.disks[0]);
        assert!(written[0].ends_with(&pictures(0, GROUP)));
    });
}

#[test]
fn the_end_waits_for_cameras_that_are_recorded_no_longer() {
    run(async {
        let site = Site::new(Budgets::default());
        let mut camera = Sender::new(&site.hub, "yard");
        camera.send(1);
        site.until_written("yard", 1).await;
        site.disks[0].set_hangs(true);
        camera.send(1);
        assert!(site.recordings.forget("yard"));
        let late = site.recordings.end(Duration::from_millis(200)).await;
        assert_eq!(late, ["yard"]);
    });
}

#[test]
fn a_segment_that_could_not_be_ended_is_completed_when_the_disk_works_again() {
    run(async {
        let site = Site::new(Budgets::default());
        let mut camera = Sender::new(&site.hub, "yard");
        camera.send(2);
        site.until_written("yard", 2).await;
        let refused = Some(std::io::ErrorKind::PermissionDenied);
        site.disks[0].set_refuses(refused);
        site.disks[0].set_refuses_cuts(refused);
        camera.send(1);
        let lost = |site: &Site| {
            let lost = site.status("yard").reported.lost;
            lost.contains(&(Reason::WriteFailed, 1))
        };
        site.until("a group is lost", lost).await;
        // What was written before can be seen meanwhile.
        assert_eq!(site.listed("yard").await.0.len(), 1);
        assert_eq!(site.status("yard").bytes, 0);
        site.disks[0].set_refuses(None);
        site.disks[0].set_refuses_cuts(None);
        site.until("it is complete", |site| site.status("yard").bytes > 0)
            .await;
        assert_eq!(fragments(&site.disks[0]).len(), 2);
        camera.send(1);
        site.until_written("yard", 3).await;
        let (ranges, missing) = site.listed("yard").await;
        assert_eq!((ranges.len(), missing.len()), (2, 1));
    });
}

/// The files of a camera that was recorded a long time ago, and is not any more.
fn of_another(disk: &MemoryDisk, camera: &str) {
    let start_ms = 1_000_000;
    let closed = crate::record::names::Closed {
        start_ms,
        length_ms: 1_000,
        bytes: 1_000,
        gaps: 0,
    };
    let day = Path::new(camera).join("1970-01-01");
    disk.put(&day.join(closed.to_string()), vec![0; 1_000]);
    disk.put(&day.join(Name::Index(start_ms).to_string()), vec![0; 64]);
}

#[test]
fn what_cannot_be_listed_or_deleted_holds_up_no_other_deletion() {
    run(async {
        for sealed in ["left", "left/1970-01-01/0000001000000-1000-1000-0.mp4"] {
            let disk = MemoryDisk::new();
            of_another(&disk, "left");
            of_another(&disk, "other");
            disk.set_sealed(Some(Path::new(sealed)));
            let limits = VolumeLimits {
                bytes_max: Some(1),
                ..VolumeLimits::default()
            };
            let volumes = vec![("a".to_owned(), disk.clone(), limits)];
            let recordings = Recordings::new(Settings::default(), volumes, CameraLimits::default());
            recordings.start();
            let waits = async {
                let is_left = || disk.files().keys().any(|path| path.starts_with("other"));
                while is_left() {
                    evenkeel::time::sleep(Duration::from_millis(2)).await;
                }
            };
            let waited = evenkeel::time::timeout(LIMIT, waits).await;
            assert!(
                waited.is_ok(),
                "{sealed}: {:?}",
                recordings.volumes_status()
            );
            assert!(disk.files().keys().any(|path| path.starts_with("left")));
            let said = || recordings.volumes_status()[0].error.clone();
            let waits = async {
                while said().is_none() {
                    evenkeel::time::sleep(Duration::from_millis(2)).await;
                }
            };
            let waited = evenkeel::time::timeout(LIMIT, waits).await;
            assert!(waited.is_ok(), "{sealed}: it is said");
        }
    });
}

#[test]
fn what_a_process_left_of_a_camera_that_is_recorded_no_longer_is_completed() {
    run(async {
        let site = Site::new(Budgets::default());
        let mut camera = Sender::new(&site.hub, "yard");
        camera.send(3);
        site.until_written("yard", 3).await;
        let left = MemoryDisk::with(&site.disks[0].files());
        drop((camera, site));
        let volumes = vec![("a".to_owned(), left.clone(), VolumeLimits::default())];
        let recordings = Recordings::new(Settings::default(), volumes, CameraLimits::default());
        recordings.start();
        let waits = async {
            while recordings.volumes_status()[0].bytes == 0 {
                evenkeel::time::sleep(Duration::from_millis(2)).await;
            }
        };
        let waited = evenkeel::time::timeout(LIMIT, waits).await;
        assert!(waited.is_ok(), "{:?}", left.files().keys());
        assert_eq!(fragments(&left).len(), 3);
    });
}

#[test]
fn times_at_the_end_of_all_time_are_listed() {
    run(async {
        let site = Site::new(Budgets::default());
        let volume = site.recordings.volume_of("yard").unwrap();
        let listed = ranges(&volume, "yard", u64::MAX - 1, u64::MAX)
            .await
            .unwrap();
        assert!(listed.0.is_empty() && listed.1.is_empty());
    });
}
