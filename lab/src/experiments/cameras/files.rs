//! What is in the files that a server has recorded: each simulated picture has a number.

use std::path::{Path, PathBuf};

use cameras::simulator::stamps;
use serde::Serialize;

use crate::error::{Error, Result};

/// What was found of some cameras.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(super) struct Kept {
    /// Pictures.
    pub(super) pictures: u64,
    /// Numbers that are missing between them.
    pub(super) missing: u64,
    /// Times that numbers began anew: the camera was connected to again.
    pub(super) again: u64,
    /// Cameras of which nothing is there.
    pub(super) without: u64,
}

/// Reads all files of these cameras, each of which has a directory.
pub(super) fn kept(directory: &Path, cameras: impl Iterator<Item = u32>) -> Result<Kept> {
    let mut all = Kept::default();
    for camera in cameras {
        let mut files = Vec::new();
        let of_camera = directory.join(format!("cam{camera}"));
        if of_camera.is_dir() {
            find(&of_camera, &mut files)?;
        }
        // Names say when files begin.
        files.sort();
        let mut count = Count::default();
        for file in files {
            let bytes = std::fs::read(&file).map_err(read(&file))?;
            stamps(&bytes).for_each(|(_, stamp)| count.add(stamp.number));
        }
        all.pictures += count.kept.pictures;
        all.missing += count.kept.missing;
        all.again += count.kept.again;
        all.without += u64::from(count.kept.pictures == 0);
    }
    Ok(all)
}

fn find(directory: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    for entry in std::fs::read_dir(directory).map_err(read(directory))? {
        let path = entry.map_err(read(directory))?.path();
        if path.is_dir() {
            find(&path, files)?;
        } else {
            files.push(path);
        }
    }
    Ok(())
}

fn read(path: &Path) -> impl Fn(std::io::Error) -> Error {
    move |source| Error::new(format!("cannot read {}: {source}", path.display()))
}

/// The numbers of one camera, in their order.
#[derive(Default)]
struct Count {
    kept: Kept,
    next: Option<u32>,
}

impl Count {
    fn add(&mut self, number: u32) {
        self.kept.pictures += 1;
        match self.next {
            Some(next) if number >= next => self.kept.missing += u64::from(number - next),
            Some(_) => self.kept.again += 1,
            None => {}
        }
        self.next = Some(number.wrapping_add(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_are_missing_are_counted_and_a_new_beginning_is_none() {
        let mut count = Count::default();
        for number in [7, 8, 11, 12, 0, 1, 3] {
            count.add(number);
        }
        let expected = Kept {
            pictures: 7,
            missing: 3,
            again: 1,
            without: 0,
        };
        assert_eq!(count.kept, expected);
    }
}
