//! Recorded snapshots: a file with one in each line, as JSON.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::Path;

use evenkeel_admin::Snapshot;

use crate::error::TopError;

/// A file that snapshots are appended to.
#[derive(Debug)]
pub(crate) struct Recorder {
    file: File,
    path: std::path::PathBuf,
}

impl Recorder {
    /// Never writes over what is there. A last line that was cut off is ended.
    pub(crate) fn create(path: &Path) -> Result<Self, TopError> {
        let file = File::options().append(true).create(true).open(path);
        let mut file = file.map_err(failed("write to", path))?;
        if is_cut_off(path) {
            file.write_all(b"\n").map_err(failed("write to", path))?;
        }
        Ok(Self {
            file,
            path: path.to_owned(),
        })
    }

    pub(crate) fn add(&mut self, snapshot: &Snapshot) -> Result<(), TopError> {
        // In one piece: who quits may end the process in the middle.
        let written = serde_json::to_string(snapshot)
            .map_err(std::io::Error::from)
            .and_then(|line| self.file.write_all((line + "\n").as_bytes()));
        written.map_err(failed("write to", &self.path))
    }
}

/// Whether a file's last line has no end.
fn is_cut_off(path: &Path) -> bool {
    let last = || {
        // Of a pipe nothing may be read.
        let mut file = path.is_file().then(|| File::open(path).ok()).flatten()?;
        let mut last = [0];
        file.seek(SeekFrom::End(-1)).ok()?;
        file.read_exact(&mut last).ok()?;
        Some(last[0])
    };
    last().is_some_and(|last| last != b'\n')
}

/// Reads all snapshots of a file. Lines that were cut off, as by the end of a recorder, are left
/// out.
pub(crate) fn read(path: &Path) -> Result<Vec<Snapshot>, TopError> {
    let file = File::open(path).map_err(failed("read", path))?;
    let mut snapshots = Vec::new();
    // As bytes: a letter may be cut off as well.
    for (index, line) in BufReader::new(file).split(b'\n').enumerate() {
        let line = line.map_err(failed("read", path))?;
        match serde_json::from_slice(&line) {
            Ok(snapshot) => snapshots.push(snapshot),
            Err(error) if error.is_eof() => {}
            Err(source) => {
                return Err(TopError::Line {
                    path: path.to_owned(),
                    line: index + 1,
                    source,
                });
            }
        }
    }
    if snapshots.len() < 2 {
        return Err(TopError::Short(path.to_owned()));
    }
    Ok(snapshots)
}

fn failed(what: &'static str, path: &Path) -> impl Fn(std::io::Error) -> TopError {
    move |source| TopError::File {
        what,
        path: path.to_owned(),
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_recorded_is_read_and_what_is_damaged_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("snapshots");
        let mut snapshot = Snapshot::default();
        for at in 1..=3 {
            snapshot.taken_at_ms = at;
            // Each time anew: nothing is written over.
            Recorder::create(&path).unwrap().add(&snapshot).unwrap();
        }
        let times = |path: &Path| -> Vec<u64> {
            read(path)
                .unwrap()
                .iter()
                .map(|it| it.taken_at_ms)
                .collect()
        };
        assert_eq!(times(&path), [1, 2, 3]);
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, &text[..text.len() - 20]).unwrap();
        assert_eq!(times(&path), [1, 2], "the last was cut off");
        // Whoever records more begins a line of their own.
        Recorder::create(&path).unwrap().add(&snapshot).unwrap();
        assert_eq!(times(&path), [1, 2, 3]);
        std::fs::write(&path, text.trim_end()).unwrap();
        Recorder::create(&path).unwrap().add(&snapshot).unwrap();
        assert_eq!(times(&path), [1, 2, 3, 3], "it had no end, and is whole");
        std::fs::write(&path, format!("{text}[]\n{text}")).unwrap();
        assert!(matches!(read(&path), Err(TopError::Line { line: 4, .. })));
        std::fs::write(&path, "").unwrap();
        assert!(matches!(read(&path), Err(TopError::Short(_))));
    }
}
