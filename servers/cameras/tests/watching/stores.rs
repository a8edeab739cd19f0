//! Segments are copied to a store, and read from there when their disk has them no longer.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use cameras::hub::{Hub, Limits};
use cameras::record::clip::{Clip, Purpose};
use cameras::record::disk::LocalDisk;
use cameras::record::listing::ranges;
use cameras::record::retention::{CameraLimits, VolumeLimits};
use cameras::record::tier::{self, Tier, TierStatus};
use cameras::record::{Recordings, Settings};

use crate::store::{Fault, Store};
use crate::support::{GROUP_MS, Sender, runtime, until};

/// Nothing is kept on the disk but what has to be.
const NOTHING: CameraLimits = CameraLimits {
    age_max: None,
    bytes_max: Some(1),
};

/// Records `yard` in segments of a group, which go to the store in parts of 64 KiB.
struct Copied {
    hub: Arc<Hub>,
    recordings: Recordings,
    tier: Arc<Tier>,
}

impl Copied {
    fn begin(directory: &Path, store: &Store) -> Self {
        Self::begin_with(directory, store, Duration::from_secs(20))
    }

    fn begin_with(directory: &Path, store: &Store, patience: Duration) -> Self {
        let credentials = directory.join("s3.toml");
        std::fs::write(&credentials, "access_key = \"a\"\nsecret_key = \"s\"\n").unwrap();
        let settings = tier::Settings {
            endpoint: format!("http://{}", store.address),
            bucket: "bucket".to_owned(),
            region: "here".to_owned(),
            prefix: "site one/".to_owned(),
            credentials: Some(credentials),
            memory: 256 << 10,
            part_bytes: 64 << 10,
            patience,
            retry_max: Duration::from_millis(20),
        };
        let tier = Arc::new(Tier::new("store", &settings).unwrap());
        let hub = Hub::new(Limits::default());
        hub.add("yard").unwrap();
        let settings = Settings {
            segment: Duration::from_millis(GROUP_MS - 20),
            sync_every: Duration::from_millis(10),
            ..Settings::default()
        };
        let disk = LocalDisk::new("disk", directory.join("disk")).unwrap();
        let volumes = vec![("disk".to_owned(), disk, VolumeLimits::default())];
        let recordings = Recordings::new(settings, volumes, CameraLimits::default());
        recordings.set_tier("disk", &tier).unwrap();
        let limits = CameraLimits::default();
        recordings.record(&hub, "yard", "disk", limits).unwrap();
        recordings.start();
        Self {
            hub,
            recordings,
            tier,
        }
    }

    /// A camera whose segments have five parts.
    fn sender(&self) -> Sender {
        let mut sender = Sender::new(&self.hub, "yard");
        sender.bytes = 20_000;
        sender
    }

    async fn until_status(&self, what: &str, is_so: impl Fn(&TierStatus) -> bool) {
        until(what, || is_so(&self.tier.status())).await;
    }

    async fn until_written(&self, gops: u64) {
        until("groups are written", || {
            self.recordings.status_of("yard").unwrap().reported.gops >= gops
        })
        .await;
    }

    /// The clip of a time, fragment by fragment.
    async fn clip(&self, from: u64, until: u64) -> Vec<bytes::Bytes> {
        let volume = self.recordings.volume_of("yard").unwrap();
        let planned = Clip::plan(&volume, "yard", from, until, Purpose::Keep).await;
        let mut clip = planned.unwrap();
        let mut fragments = vec![clip.init()];
        while let Some(fragment) = clip.next().await.unwrap() {
            fragments.push(fragment);
        }
        assert_eq!(clip.damaged(), 0);
        fragments
    }

    /// Deletes what may be deleted, and waits until so many bytes are left at most.
    async fn trim(&self, bytes: u64) {
        self.recordings.set_limits("yard", NOTHING);
        self.recordings.volume_of("yard").unwrap().trim_soon();
        until("old segments are deleted", || {
            self.recordings.status_of("yard").unwrap().bytes <= bytes
        })
        .await;
    }
}

fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    u64::try_from(now.as_millis()).unwrap()
}

#[test]
fn what_was_copied_is_played_when_the_disk_has_it_no_longer() {
    let (directory, store) = (tempfile::tempdir().unwrap(), Store::start());
    runtime().block_on(async {
        let copied = Copied::begin(directory.path(), &store);
        let mut camera = copied.sender();
        let from = now_ms() - 1_000;
        camera.send(4);
        copied
            .until_status("three are copied", |it| it.copied == 3)
            .await;
        let keys = store.keys();
        assert_eq!(keys.len(), 6, "{keys:?}");
        assert!(
            keys.iter().all(|key| key.starts_with("site one/yard/2")),
            "{keys:?}"
        );
        assert_eq!(
            (store.parts(5), store.uploads(), store.unsigned()),
            (0, 0, 0)
        );
        assert!(store.parts(4) >= 3);
        let volume = copied.recordings.volume_of("yard").unwrap();
        let until_ms = from + 60_000;
        let listed = ranges(&volume, "yard", from, until_ms).await.unwrap();
        let clip = copied.clip(from, until_ms).await;
        assert_eq!(copied.tier.status().read_bytes, 0);
        copied.trim(0).await;
        assert_eq!(
            ranges(&volume, "yard", from, until_ms).await.unwrap(),
            listed
        );
        assert_eq!(copied.clip(from, until_ms).await, clip);
        let status = copied.tier.status();
        assert!(status.read_bytes > 3 * 200_000, "{status:?}");
        assert_eq!((status.failures, status.missed), (0, 0), "{status:?}");
        copied.recordings.end(Duration::from_secs(5)).await;
    });
}

#[test]
fn what_a_store_does_not_take_waits_on_the_disk() {
    let (directory, store) = (tempfile::tempdir().unwrap(), Store::start());
    runtime().block_on(async {
        let patience = Duration::from_millis(300);
        let copied = Copied::begin_with(directory.path(), &store, patience);
        let mut camera = copied.sender();
        let from = now_ms() - 1_000;
        let mut segments = 0;
        for fault in [Fault::Fails, Fault::Hangs] {
            store.set_fault(fault);
            camera.send(2);
            segments += 2;
            copied.until_written(segments).await;
            let failures = copied.tier.status().failures;
            copied
                .until_status("it is tried again", |it| it.failures > failures + 1)
                .await;
            let volume = copied.recordings.volume_of("yard").unwrap();
            let (listed, missing) = ranges(&volume, "yard", from, from + 60_000).await.unwrap();
            assert_eq!(
                (listed.len(), missing.len()),
                (1, 0),
                "{listed:?} {missing:?}"
            );
            assert_eq!(
                copied.clip(from, from + 60_000).await.len() as u64,
                segments + 1
            );
        }
        let held = copied.recordings.status_of("yard").unwrap().bytes;
        copied.recordings.set_limits("yard", NOTHING);
        let volume = copied.recordings.volume_of("yard").unwrap();
        volume.trim_soon();
        // A round that deletes comes to its end before another one.
        until("it was looked at", || volume.status().is_counted).await;
        assert!(copied.recordings.status_of("yard").unwrap().bytes >= held);
        store.set_fault(Fault::None);
        copied
            .until_status("all is copied", |it| it.copied == segments - 1)
            .await;
        // A round that ends well says so after its last copy.
        copied
            .until_status("it works again", |it| it.error.is_none())
            .await;
        copied.trim(0).await;
        assert_eq!(volume.status().deleted_bytes, held);
        copied.recordings.end(Duration::from_secs(5)).await;
    });
}

#[test]
fn an_object_that_was_begun_is_gone_on_with_by_the_next_process() {
    let (directory, store) = (tempfile::tempdir().unwrap(), Store::start());
    store.set_fault(Fault::FailsFromPart(3));
    runtime().block_on(async {
        let copied = Copied::begin(directory.path(), &store);
        let mut camera = copied.sender();
        camera.send(2);
        copied
            .until_status("a part fails", |it| it.failures > 0)
            .await;
        copied.recordings.end(Duration::from_secs(5)).await;
    });
    assert_eq!((store.parts(1), store.parts(2), store.parts(3)), (1, 1, 0));
    store.set_fault(Fault::None);
    runtime().block_on(async {
        let copied = Copied::begin(directory.path(), &store);
        copied
            .until_status("all are copied, with the group that was incomplete", |it| {
                it.copied == 3
            })
            .await;
        assert_eq!(copied.tier.status().resumed, 1);
        copied.recordings.end(Duration::from_secs(5)).await;
    });
    assert!(store.parts(3) >= 1);
    assert_eq!(store.uploads(), 0);
    // The first two parts of the first segment were sent once, and those of the other one.
    assert!(store.parts(1) <= 2, "{}", store.parts(1));
}

#[test]
fn a_segment_that_is_late_is_copied_too() {
    let (directory, store) = (tempfile::tempdir().unwrap(), Store::start());
    let disk = directory.path().join("disk/yard");
    runtime().block_on(async {
        let copied = Copied::begin(directory.path(), &store);
        let mut camera = copied.sender();
        camera.send(2);
        copied
            .until_status("one is copied", |it| it.copied == 1)
            .await;
        copied.recordings.end(Duration::from_secs(5)).await;
    });
    // A copy of the newest segment, an hour before, as of a time at which the clock was wrong.
    let day = std::fs::read_dir(&disk).unwrap();
    let day = day
        .map(|day| day.unwrap().path())
        .find(|day| day.is_dir())
        .unwrap();
    let names = std::fs::read_dir(&day).unwrap();
    let mut names: Vec<_> = names.map(|name| name.unwrap().file_name()).collect();
    names.sort();
    let name = names
        .iter()
        .rev()
        .find(|name| name.to_str().unwrap().ends_with(".mp4"));
    let name = name.unwrap().to_str().unwrap();
    let (start, rest) = name.split_once('-').unwrap();
    let earlier = start.parse::<u64>().unwrap() - 1_000;
    std::fs::copy(day.join(name), day.join(format!("{earlier}-{rest}"))).unwrap();
    let (index, other) = (format!("{start}.idx"), format!("{earlier}.idx"));
    std::fs::copy(day.join(index), day.join(other)).unwrap();
    runtime().block_on(async {
        let copied = Copied::begin(directory.path(), &store);
        until("it is there", || {
            store
                .keys()
                .iter()
                .any(|key| key.ends_with(&format!("{earlier}-{rest}")))
        })
        .await;
        copied.recordings.end(Duration::from_secs(5)).await;
    });
}
