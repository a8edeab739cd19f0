//! Real disks that are full, or stand still. These need root, and are run by
//! `cargo test -p cameras --test watching -- --ignored disks`.

use std::path::Path;
use std::time::{Duration, Instant};

use cameras::record::gap::Reason;
use cameras::watch::Settings;
use serde_json::Value;

use crate::mounted::Mounted;
use crate::support::{Sender, Site, runtime, until};

#[test]
#[ignore = "needs root, to mount a file system"]
fn disks_that_are_full_keep_the_newest() {
    runtime().block_on(async {
        let disk = Mounted::tmpfs("4M");
        let site = Site::begin(Path::new(disk.at()), Settings::default()).await;
        // A group has some 650 kB: six of them fill the disk.
        for session in 1..=12 {
            let mut camera = Sender::new(&site.hub, "yard");
            camera.bytes = 50_000;
            camera.send(1);
            drop(camera);
            // The second one is the key frame that ended the first.
            site.until_written(2 * session).await;
            let recordings = site.recordings.as_ref().unwrap();
            let complete = || recordings.status_of("yard").unwrap().bytes > 600_000;
            until("a segment is complete", || session < 2 || complete()).await;
        }
        let recordings = site.recordings.as_ref().unwrap();
        let status = recordings.status_of("yard").unwrap();
        assert_eq!(status.reported.lost_bytes, 0, "{status:?}");
        let deleted = &recordings.volumes_status()[0].deleted;
        assert!(deleted.iter().any(|(_, count)| *count > 3), "{deleted:?}");
    });
}

#[test]
#[ignore = "needs root, to freeze a file system"]
fn disks_that_stand_still_hold_up_nobody_and_leave_a_gap_that_is_shown() {
    runtime().block_on(async {
        let image = tempfile::NamedTempFile::new().unwrap();
        let mut disk = Mounted::ext4(image.path(), 96);
        let site = Site::begin(Path::new(disk.at()), Settings::default()).await;
        let recordings = site.recordings.as_ref().unwrap();
        let mut camera = Sender::new(&site.hub, "yard");
        // A group has some 4 MB, and four of them may wait.
        camera.bytes = 330_000;
        camera.send(1);
        site.until_written(1).await;
        disk.freeze();
        for _ in 0..7 {
            camera.send(1);
            let sent = Instant::now();
            let seen = site.client().get("/api/cameras").await;
            assert_eq!(seen.status, 200);
            println!("the list of cameras took {:?} beside it", sent.elapsed());
            evenkeel::time::sleep(Duration::from_millis(50)).await;
        }
        let status = recordings.status_of("yard").unwrap();
        assert!(status.reported.busy_for.is_some(), "{status:?}");
        let lost = status.reported.lost;
        assert!(
            lost.iter()
                .any(|(why, count)| *why == Reason::SlowDisk && *count > 0)
        );
        disk.thaw();
        until("what waited is written", || {
            recordings.status_of("yard").unwrap().waiting.gops == 0
        })
        .await;
        camera.send(1);
        let now = u64::try_from(jiff::Timestamp::now().as_millisecond()).unwrap();
        let (from, until) = (now - 3_600_000, now + 3_600_000);
        let path = format!("/api/cameras/yard/recordings?from={from}&until={until}");
        let said: Value = site.client().get(&path).await.json();
        assert_eq!(said["gaps"].as_array().unwrap().len(), 1, "{said}");
        assert_eq!(said["gaps"][0]["reason"], "slow_disk");
        println!("the gap: {}", said["gaps"][0]);
        drop(camera);
        recordings.end(Duration::from_secs(10)).await;
    });
}
