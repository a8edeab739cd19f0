//! Adding a token to a file, which is changed as a whole or not at all.

use std::fs::{self, File, Metadata, OpenOptions, Permissions, TryLockError};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use super::private::read_private;
use super::tokens::{FILE_BYTES_MAX, Token, TokensError, parse_all};

/// A new file is for its owner alone.
const FILE_MODE: u32 = 0o600;

/// How often a lock is tried, and the pause between: another command has it for a moment.
const TRIES: u32 = 100;
const PAUSE: Duration = Duration::from_millis(50);

/// Adds a token to a file, which is made if there is none. It blocks.
///
/// The file is read and checked together with the new line before anything is changed. Then a new
/// file with the owner and the mode of the old one takes its place.
///
/// # Errors
///
/// [`TokensError`]: the file is wrong, or would be with this token, or cannot be written. Then it
/// is as it was.
pub(super) fn add(path: &Path, token: &Token) -> Result<(), TokensError> {
    let error = |line, what| TokensError {
        path: path.to_owned(),
        line,
        what,
    };
    let said = |it: io::Error| error(None, format!("{it}; see whether path and user are right"));
    // A link stays, and what it leads to is replaced.
    let target = match fs::canonicalize(path) {
        Err(it) if it.kind() == ErrorKind::NotFound => path.to_owned(),
        found => found.map_err(said)?,
    };
    let directory = match target.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
        Some(parent) => parent,
        None => return Err(error(None, "it is no file".to_owned())),
    };
    let directory = File::open(directory).map_err(said)?;
    // Else of two commands one would undo what the other has done.
    lock(&directory).map_err(said)?;
    let (mut text, earlier) = match fs::metadata(&target) {
        Err(it) if it.kind() == ErrorKind::NotFound => (String::new(), None),
        found => {
            let metadata = found.map_err(said)?;
            let text = read_private(&target, FILE_BYTES_MAX);
            (text.map_err(|what| error(None, what))?, Some(metadata))
        }
    };
    parse_all(&text).map_err(|(line, what)| error(line, what))?;
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text.push_str(&format!("{token}\n"));
    if text.len() as u64 > FILE_BYTES_MAX {
        let what = format!("it would have more than {FILE_BYTES_MAX} bytes: remove old tokens");
        return Err(error(None, what));
    }
    parse_all(&text).map_err(|(line, what)| error(line, what))?;
    replace(&target, earlier.as_ref(), &text).map_err(said)?;
    directory.sync_all().map_err(said)
}

fn lock(directory: &File) -> io::Result<()> {
    for _ in 0..TRIES {
        match directory.try_lock() {
            Err(TryLockError::WouldBlock) => sleep(PAUSE),
            Err(TryLockError::Error(error)) => return Err(error),
            Ok(()) => return Ok(()),
        }
    }
    let what = "another command is changing files in its directory: try again when it has ended";
    Err(io::Error::new(ErrorKind::ResourceBusy, what))
}

/// Puts a new file with this text in the place of an earlier one, with the owner and mode of that.
fn replace(target: &Path, earlier: Option<&Metadata>, text: &str) -> io::Result<()> {
    let mut name = target.file_name().unwrap_or_default().to_owned();
    name.push(format!(".new-{}", std::process::id()));
    let draft = target.with_file_name(name);
    // Fails if there is such a file, also a link.
    let mut options = OpenOptions::new();
    let file = options
        .write(true)
        .create_new(true)
        .mode(FILE_MODE)
        .open(&draft)?;
    let replaced = write(file, earlier, text).and_then(|()| fs::rename(&draft, target));
    if replaced.is_err() {
        // What cannot be removed is in nobody's way.
        let _ = fs::remove_file(&draft);
    }
    replaced
}

fn write(mut file: File, earlier: Option<&Metadata>, text: &str) -> io::Result<()> {
    file.write_all(text.as_bytes())?;
    if let Some(earlier) = earlier {
        let own = file.metadata()?;
        if (own.uid(), own.gid()) != (earlier.uid(), earlier.gid()) {
            fchown(&file, Some(earlier.uid()), Some(earlier.gid())).map_err(|error| {
                let what = format!("its owner and group cannot be kept ({error}): be that user");
                io::Error::new(error.kind(), what)
            })?;
        }
        file.set_permissions(Permissions::from_mode(earlier.mode() & 0o7777))?;
    }
    file.sync_all()
}
