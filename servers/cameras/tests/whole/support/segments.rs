//! What is in the files of recordings, compared with what the simulator has sent.

use std::path::{Path, PathBuf};

use cameras::record::index::Index;
use cameras::record::names::Name;
use cameras::simulator::{DIGITS, Stream, stamps};

/// The pictures of a stream as they have to be recorded, with zeros for the digits of their stamps.
pub(crate) struct Sent {
    pictures: Vec<Vec<u8>>,
}

impl Sent {
    pub(crate) fn of(stream: &Stream) -> Self {
        let sample = |payloads: &Vec<Vec<u8>>| {
            let mut units: Vec<Vec<u8>> = Vec::new();
            for payload in payloads {
                match (payload[0] & 0x1f, payload[1] & 0x80) {
                    (28, 0x80) => {
                        let head = payload[0] & 0xe0 | payload[1] & 0x1f;
                        units.push([&[head], &payload[2..]].concat());
                    }
                    (28, _) => units.last_mut().unwrap().extend(&payload[2..]),
                    _ => units.push(payload.clone()),
                }
            }
            // Parameter sets are in front of the file.
            units.retain(|unit| !matches!(unit[0] & 0x1f, 7 | 8));
            let length = |unit: &Vec<u8>| u32::try_from(unit.len()).unwrap().to_be_bytes();
            let with_length = |unit: &Vec<u8>| [&length(unit)[..], unit].concat();
            units.iter().flat_map(with_length).collect()
        };
        Self {
            pictures: stream.pictures.iter().map(sample).collect(),
        }
    }

    fn picture(&self, number: u32) -> &[u8] {
        &self.pictures[number as usize % self.pictures.len()]
    }
}

/// A complete segment.
#[derive(Debug)]
pub(crate) struct Segment {
    /// Which process has written it.
    pub(crate) boot_us: i64,
    /// When it begins.
    pub(crate) start_ms: u64,
    /// Groups.
    pub(crate) groups: usize,
    /// The pictures in it, each compared with the one that was sent.
    pub(crate) numbers: Vec<u32>,
    /// The gaps that it says it has.
    pub(crate) gaps: u32,
    pub(crate) path: PathBuf,
}

/// All complete segments of a camera, in their order.
pub(crate) fn segments(camera: &Path, sent: &Sent) -> Vec<Segment> {
    let mut found = Vec::new();
    for day in std::fs::read_dir(camera).unwrap() {
        for file in std::fs::read_dir(day.unwrap().path()).unwrap() {
            let path = file.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            if let Some(Name::Closed(closed)) = Name::parse(name) {
                let index = path.with_file_name(Name::Index(closed.start_ms).to_string());
                let index = Index::read(&std::fs::read(index).unwrap()).unwrap();
                let file = std::fs::read(&path).unwrap();
                assert_eq!(file.len() as u64, closed.bytes, "{path:?}");
                let mut numbers = Vec::new();
                for line in index.fragments() {
                    let begins = usize::try_from(line.offset).unwrap();
                    let fragment = &file[begins..begins + line.len as usize];
                    numbers.extend(pictures(fragment, sent, &path));
                }
                found.push(Segment {
                    boot_us: index.head.boot_us,
                    start_ms: closed.start_ms,
                    groups: index.fragments().count(),
                    numbers,
                    gaps: closed.gaps,
                    path,
                });
            }
        }
    }
    found.sort_by_key(|segment| segment.start_ms);
    found
}

/// The numbers of the pictures in a fragment, of which each has to be as it was sent.
fn pictures(fragment: &[u8], sent: &Sent, path: &Path) -> Vec<u32> {
    let head = u32::from_be_bytes(fragment[..4].try_into().unwrap()) as usize;
    assert_eq!(&fragment[head + 4..head + 8], b"mdat", "{path:?}");
    let mut media = fragment[head + 8..].to_vec();
    let found: Vec<_> = stamps(&media).collect();
    for (at, _) in &found {
        media[*at..at + DIGITS].fill(b'0');
    }
    let mut rest = &media[..];
    for (_, stamp) in &found {
        let picture = sent.picture(stamp.number);
        assert!(rest.starts_with(picture), "{stamp:?} in {path:?}");
        rest = &rest[picture.len()..];
    }
    assert!(rest.is_empty(), "{} bytes more in {path:?}", rest.len());
    found.iter().map(|(_, stamp)| stamp.number).collect()
}
