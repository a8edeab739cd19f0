//! Segments that were cut at any byte.

use std::collections::BTreeMap;
use std::path::PathBuf;

use futures_util::FutureExt;

use super::*;
use crate::media::Gop;
use crate::mp4::Origin;
use crate::record::disk::memory::MemoryDisk;
use crate::record::gap::{Gap, Reason};
use crate::record::index::Line;
use crate::record::segment::{Beginning, Segment};
use crate::record::timeline::Cause;
use crate::testing::{moment, pictures, second};

/// The disk of a process that was killed after four groups, of which two had been synced, with a
/// gap in front of the third.
fn killed() -> BTreeMap<PathBuf, Vec<u8>> {
    let disk = MemoryDisk::new();
    let gops: Vec<_> = (0..4)
        .map(|number| second(number, moment(), &pictures()))
        .collect();
    let written = async {
        let origin = origin(&gops[0]);
        let beginning = Beginning {
            camera: Path::new("yard"),
            gop: &gops[0],
            origin,
            cause: Cause::First,
            boot_us: 0,
        };
        let mut segment = Segment::begin(&disk, beginning).await.unwrap();
        for (place, gop) in gops.iter().enumerate() {
            if place == 2 {
                segment.progress().set_synced(segment.progress().written());
            }
            let before = (place == 2).then(gap);
            segment.append(before, gop, origin).await.unwrap();
        }
    };
    written.now_or_never().unwrap();
    disk.files()
}

fn gap() -> Gap {
    Gap {
        reason: Reason::SlowDisk,
        gops: 1,
        bytes: 2,
        from_us: 3,
        until_us: 4,
    }
}

fn origin(gop: &Gop) -> Origin {
    Origin::by(&gop.tracks[0], &gop.samples[0], gop.start.wall)
}

fn path_of(files: &BTreeMap<PathBuf, Vec<u8>>, ending: &str) -> PathBuf {
    let is_it = |path: &&PathBuf| path.to_str().is_some_and(|path| path.ends_with(ending));
    files.keys().find(is_it).unwrap().clone()
}

fn lines(files: &BTreeMap<PathBuf, Vec<u8>>) -> Vec<Line> {
    let index = Index::read(&files[&path_of(files, ".idx")]).unwrap();
    index.fragments().copied().collect()
}

/// Recovers, and returns how many fragments are left, after looking at all that is.
fn recovered(files: &BTreeMap<PathBuf, Vec<u8>>) -> usize {
    let disk = MemoryDisk::with(files);
    let directory = path_of(files, ".idx").parent().unwrap().to_owned();
    let recovered = recover(&disk, &directory, |_| true).now_or_never();
    let recovered = recovered.unwrap().unwrap();
    assert!(recovered.failed.is_empty(), "{recovered:?}");
    let completed = recovered.completed;
    let after = disk.files();
    let Some(closed) = completed.first() else {
        assert!(after.is_empty(), "{after:?}");
        return 0;
    };
    let bytes = &after[&directory.join(closed.to_string())];
    assert_eq!(bytes.len() as u64, closed.bytes);
    let index = Index::read(&after[&path_of(&after, ".idx")]).unwrap();
    assert!(!index.has_rest);
    assert_eq!(index.gaps().count(), closed.gaps as usize);
    let left: Vec<_> = index.fragments().collect();
    assert_eq!(left.last().unwrap().end(), closed.bytes);
    for line in &left {
        let fragment = &bytes[usize::try_from(line.offset).unwrap()..][..line.len as usize];
        assert_eq!(crc32fast::hash(fragment), line.checksum);
    }
    assert_eq!(closed.length_ms, left.len() as u64 * 1000);
    left.len()
}

#[test]
fn a_segment_that_was_cut_anywhere_keeps_what_is_whole() {
    let files = killed();
    let media = path_of(&files, ".mp4");
    let ends: Vec<u64> = lines(&files).iter().map(Line::end).collect();
    assert_eq!(recovered(&files), 4);
    for cut in 0..files[&media].len() {
        let mut files = files.clone();
        files.get_mut(&media).unwrap().truncate(cut);
        let whole = ends.iter().filter(|&&end| end <= cut as u64).count();
        assert_eq!(recovered(&files), whole, "{cut}");
    }
}

#[test]
fn an_index_that_was_cut_anywhere_keeps_what_it_names() {
    let files = killed();
    let index = path_of(&files, ".idx");
    for cut in 0..files[&index].len() {
        let mut files = files.clone();
        files.get_mut(&index).unwrap().truncate(cut);
        // The fourth line is the gap's.
        let whole = match cut / LINE {
            0 | 1 => 0,
            lines @ 2..=3 => lines - 1,
            4 => 2,
            lines => lines - 2,
        };
        assert_eq!(recovered(&files), whole, "{cut}");
    }
}

#[test]
fn fragments_that_were_not_synced_are_compared_and_others_are_not() {
    let files = killed();
    let media = path_of(&files, ".mp4");
    for (place, line) in lines(&files).iter().enumerate() {
        let mut files = files.clone();
        let at = usize::try_from(line.end()).unwrap() - 1;
        files.get_mut(&media).unwrap()[at] ^= 1;
        let disk = MemoryDisk::with(&files);
        let directory = media.parent().unwrap();
        let recovered = recover(&disk, directory, |_| true).now_or_never();
        let completed = recovered.unwrap().unwrap().completed;
        let expected = if place < 2 { 4 } else { place as u64 };
        assert_eq!(completed[0].length_ms, expected * 1000, "{place}");
    }
}

#[test]
fn bytes_without_a_line_are_cut_off_and_indexes_without_a_segment_go() {
    let mut files = killed();
    let media = path_of(&files, ".mp4");
    files.get_mut(&media).unwrap().extend([7; 1000]);
    assert_eq!(recovered(&files), 4);
    files.remove(&media);
    let directory = path_of(&files, ".idx").parent().unwrap().to_owned();
    files.insert(directory.join("notes.txt"), b"somebody else's".to_vec());
    let disk = MemoryDisk::with(&files);
    recover(&disk, &directory, |_| true)
        .now_or_never()
        .unwrap()
        .unwrap();
    assert_eq!(
        disk.files().keys().collect::<Vec<_>>(),
        [&directory.join("notes.txt")]
    );
}

#[test]
fn a_segment_that_is_being_written_is_left_alone() {
    let files = killed();
    let disk = MemoryDisk::with(&files);
    let media = path_of(&files, ".mp4");
    let Some(Name::Open(start_ms)) = Name::parse(media.file_name().unwrap().to_str().unwrap())
    else {
        panic!("{media:?} is open");
    };
    let recovered = recover(&disk, media.parent().unwrap(), |start| start != start_ms);
    assert_eq!(recovered.now_or_never().unwrap().unwrap().completed, []);
    assert_eq!(disk.files(), files);
}

/// A segment that cannot be read is left alone, and the others of its day are completed.
#[test]
fn a_segment_that_cannot_be_read_costs_no_other_one() {
    let mut files = killed();
    let (media, index) = (path_of(&files, ".mp4"), path_of(&files, ".idx"));
    let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
    let Some(Name::Open(start_ms)) = Name::parse(&name(&media)) else {
        panic!("{media:?} is open");
    };
    // It comes first in its day.
    let sealed = media.with_file_name(Name::Open(start_ms - 1).to_string());
    let beside = index.with_file_name(Name::Index(start_ms - 1).to_string());
    files.insert(sealed.clone(), files[&media].clone());
    files.insert(beside.clone(), files[&index].clone());
    let disk = MemoryDisk::with(&files);
    disk.set_sealed(Some(&sealed));
    let directory = media.parent().unwrap();
    let recovered = recover(&disk, directory, |_| true).now_or_never();
    let recovered = recovered.unwrap().unwrap();
    assert_eq!(recovered.completed.len(), 1, "{recovered:?}");
    assert_eq!(recovered.completed[0].start_ms, start_ms);
    assert_eq!(recovered.failed, [start_ms - 1]);
    assert!(recovered.error.is_some());
    let left = disk.files();
    assert_eq!(left[&sealed], files[&sealed]);
    assert_eq!(left[&beside], files[&beside]);
}
