//! What disks give, and operators.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use cameras::config::{self, Added, ConfigError};
use cameras::mp4::Origin;
use cameras::record::gap::{Gap, Reason};
use cameras::record::index::{Entry, Index, LINE};
use cameras::record::names::Name;
use cameras::record::recover::recover;
use cameras::record::segment::{Beginning, Segment};
use cameras::record::timeline::Cause;
use futures_util::FutureExt;
use servers_common::properties::Property;

use crate::disk::memory::MemoryDisk;
use crate::testing::{moment, pictures, second};

/// An index says what was written, up to what is damaged.
pub(crate) const INDEX: Property = Property::new("index", indexes, index);
/// What is recovered was written, and is whole; nothing is found the next time.
pub(crate) const RECOVERY: Property = Property::new("recovery", segments, recovery);
/// A configuration is taken, or every error has its line; a camera that is described, too.
pub(crate) const CONFIGURATION: Property =
    Property::new("configuration", configurations, configuration);

type Files = BTreeMap<PathBuf, Vec<u8>>;

/// What a process left that was killed after four groups, of which two had been synced, with a gap
/// in front of the third.
fn killed() -> &'static Files {
    static FILES: OnceLock<Files> = OnceLock::new();
    FILES.get_or_init(|| {
        let disk = MemoryDisk::new();
        let gops: Vec<_> = (0..4)
            .map(|number| second(number, moment(), &pictures()))
            .collect();
        let first = &gops[0];
        let origin = Origin::by(&first.tracks[0], &first.samples[0], first.start.wall);
        let written = async {
            let beginning = Beginning {
                camera: Path::new("yard"),
                gop: first,
                origin,
                cause: Cause::First,
                boot_us: 0,
            };
            let mut segment = Segment::begin(&disk, beginning).await?;
            for (place, gop) in gops.iter().enumerate() {
                if place == 2 {
                    segment.progress().set_synced(segment.progress().written());
                }
                let gap = Gap {
                    reason: Reason::SlowDisk,
                    gops: 1,
                    bytes: 2,
                    from_us: 3,
                    until_us: 4,
                };
                segment
                    .append((place == 2).then_some(gap), gop, origin)
                    .await?;
            }
            Ok::<_, cameras::record::segment::WriteError>(())
        };
        let written = written.now_or_never().expect("the disk does not wait");
        written.expect("the disk is not full");
        disk.files()
    })
}

fn file(ending: &str) -> (&'static Path, &'static [u8]) {
    let is_it = |(path, _): &(&PathBuf, &Vec<u8>)| path.to_string_lossy().ends_with(ending);
    let (path, bytes) = killed().iter().find(is_it).expect("it was written");
    (path, bytes)
}

/// Behind a byte that says whether what was changed has a good checksum again.
fn indexes() -> Vec<Vec<u8>> {
    let (_, bytes) = file(".idx");
    [0, 1].map(|first| [&[first], bytes].concat()).to_vec()
}

/// With the checksum of what is in front of it.
fn sealed(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for line in bytes.chunks_exact_mut(LINE) {
        let (said, checksum) = line.split_at_mut(LINE - 4);
        checksum.copy_from_slice(&crc32fast::hash(said).to_le_bytes());
    }
    bytes
}

fn index(bytes: &[u8]) -> bool {
    let Some((&first, bytes)) = bytes.split_first() else {
        return false;
    };
    let bytes = match first & 1 {
        0 => bytes.to_vec(),
        _ => sealed(bytes),
    };
    let Some(index) = Index::read(&bytes) else {
        return false;
    };
    let len = (index.entries.len() + 1) * LINE;
    assert!(len <= bytes.len());
    assert_eq!(index.has_rest, len < bytes.len(), "{bytes:?}");
    let mut written = index.head.write().to_vec();
    let mut end = u64::from(index.head.init_len);
    for entry in &index.entries {
        written.extend(entry.write());
        if let Entry::Fragment(line) = entry {
            assert!(line.offset >= end && line.end() >= line.offset, "{line:?}");
            assert!(line.end_us() >= line.start_us, "{line:?}");
            end = line.end();
        }
    }
    assert_eq!(
        Index::read(&written).map(|again| again.entries),
        Some(index.entries)
    );
    true
}

/// The length of the index in two bytes, the index, and the segment.
fn segments() -> Vec<Vec<u8>> {
    let ((_, index), (_, segment)) = (file(".idx"), file(".mp4"));
    let len = (index.len() as u16).to_be_bytes();
    let whole = [&len[..], index, segment].concat();
    let cut = whole[..whole.len() - 40].to_vec();
    vec![whole, cut]
}

fn recovery(bytes: &[u8]) -> bool {
    let Some((len, bytes)) = bytes.split_first_chunk::<2>() else {
        return false;
    };
    let len = usize::from(u16::from_be_bytes(*len)).min(bytes.len());
    let (index, segment) = bytes.split_at(len);
    let ((index_path, good), (path, _)) = (file(".idx"), file(".mp4"));
    let files = BTreeMap::from([
        (index_path.to_owned(), index.to_vec()),
        (path.to_owned(), segment.to_vec()),
    ]);
    let disk = MemoryDisk::with(&files);
    let directory = path.parent().expect("it is of a day");
    let recovered = || {
        let done = recover(&disk, directory, |_| true).now_or_never();
        let done = done.expect("the disk does not wait");
        done.expect("the disk is good").completed
    };
    let completed = recovered();
    let after = disk.files();
    let Some(closed) = completed.first() else {
        assert!(after.is_empty(), "{after:?}");
        return false;
    };
    let kept = &after[&directory.join(closed.to_string())];
    assert_eq!(kept.len() as u64, closed.bytes);
    assert!(segment.starts_with(kept), "the segment is another one");
    assert!(
        index.starts_with(&after[index_path]),
        "the index is another one"
    );
    let (left, good) = (Index::read(&after[index_path]), Index::read(good));
    let (left, good) = left.zip(good).expect("they have heads");
    assert!(!left.has_rest);
    assert_eq!(left.gaps().count(), closed.gaps as usize);
    // Those that were surely on the disk, as lines say that may be cut off now.
    let said = Index::read(index).into_iter();
    let synced = said.flat_map(|index| index.fragments().map(|line| line.synced).max());
    let synced = synced.max().unwrap_or(0);
    for line in left.fragments() {
        assert!(good.fragments().any(|written| written == line), "{line:?}");
        let fragment = kept.get(line.offset as usize..line.end() as usize);
        let fragment = fragment.expect("it is in the segment");
        let is_whole = crc32fast::hash(fragment) == line.checksum;
        assert!(is_whole || line.number <= synced, "{line:?}");
    }
    assert_eq!(
        left.fragments().last().map(|line| line.end()),
        Some(closed.bytes)
    );
    assert_eq!(
        Name::parse(&closed.to_string()),
        Some(Name::Closed(*closed))
    );
    assert_eq!(recovered(), []);
    assert_eq!(disk.files(), after);
    true
}

const CAMERA: &str = r#"{"url": "rtsp://192.0.2.1/live", "user": "u", "password": "p",
    "transport": "udp", "delivery": "50ms", "record": {"volume": "disk", "keep": "7d"}}"#;

fn configurations() -> Vec<Vec<u8>> {
    let whole = "[process]\nworkers = 2\nreal_time = true\nwatch = \"1s\"\n\
        [limits]\nmemory = \"1GiB\"\ncamera_memory = \"32MiB\"\nlag = \"10s\"\n\
        [rtsp]\nlisten = \"127.0.0.1:8554\"\nudp = true\n\
        [watch]\nlisten = \"127.0.0.1:8080\"\n\
        [volume.disk]\npath = \"/srv/recordings\"\nmounted = true\nreserve = \"1GiB\"\n\
        size = \"2TiB\"\nkeep = \"30d\"\n\
        [camera.gate]\nurl = \"rtsp://192.0.2.1/live\"\ndelivery = \"50ms\"\n\
        record = { volume = \"disk\" }\n\
        [camera.yard]\n";
    let tables: Vec<Vec<u8>> = vec![
        b"[rtsp]\nlisten = \"127.0.0.1:0\"\n[camera.yard]\n".to_vec(),
        b"[limits]\nviewers_max = 10\n[camera.a]\nurl = \"rtsps://[::1]/x?y=1\"\n".to_vec(),
        CAMERA.as_bytes().to_vec(),
    ];
    [tables, vec![whole.as_bytes().to_vec()]].concat()
}

fn configuration(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    if let Ok(described) = serde_json::from_str(&text) {
        return match Added::read(described) {
            Ok(_) => true,
            Err(error) => {
                assert!(
                    !error.is_empty() && error.len() <= 1_000 + 2 * text.len(),
                    "{error}"
                );
                false
            }
        };
    }
    match config::parse("made-up.toml", &text) {
        Ok(_) => true,
        Err(ConfigError::Wrong { problems }) => {
            assert!(!problems.is_empty());
            for problem in problems {
                let is_there = (1..=text.lines().count() + 1).contains(&problem.line);
                assert!(is_there, "{text}: {problem:?}");
            }
            false
        }
        Err(_) => false,
    }
}
