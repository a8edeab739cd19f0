//! Files with secrets: read only if nobody else can read or change them.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The bits of a file's mode by which its group may change it, or others may do anything.
const NOT_PRIVATE: u32 = 0o027;

/// Reads a file of at most so many bytes which others cannot read, and the group cannot change. The
/// group may read it, as where a secret is mounted for a container's group. It blocks.
///
/// # Errors
///
/// Why not, with what to do.
pub fn read_private(path: &Path, bytes_max: u64) -> Result<String, String> {
    let file = File::open(path).map_err(|error| said(&error))?;
    let metadata = file.metadata().map_err(|error| said(&error))?;
    let mode = metadata.mode() & 0o777;
    if mode & NOT_PRIVATE != 0 {
        return Err(format!(
            "others can read or change it (its mode is {mode:03o}): `chmod 600` it; if somebody \
             may have read it, make new secrets"
        ));
    }
    text(file, bytes_max)
}

/// As [`read_private`], of a file that everybody may read.
pub(super) fn read_file(path: &Path, bytes_max: u64) -> Result<String, String> {
    let file = File::open(path).map_err(|error| said(&error))?;
    text(file, bytes_max)
}

fn said(error: &io::Error) -> String {
    format!("{error}; see whether the path and the user are right")
}

fn text(file: File, bytes_max: u64) -> Result<String, String> {
    if !file.metadata().is_ok_and(|metadata| metadata.is_file()) {
        return Err("it is no file".to_owned());
    }
    let mut text = String::new();
    let read = file.take(bytes_max + 1).read_to_string(&mut text);
    read.map_err(|error| said(&error))?;
    if text.len() as u64 > bytes_max {
        return Err(format!("it has more than {bytes_max} bytes"));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn what_others_can_read_or_change_is_not_read() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), "hidden").unwrap();
        for (mode, is_read) in [
            (0o600, true),
            (0o400, true),
            (0o640, true),
            (0o660, false),
            (0o644, false),
            (0o602, false),
            (0o601, false),
        ] {
            fs::set_permissions(file.path(), Permissions::from_mode(mode)).unwrap();
            let read = read_private(file.path(), 6);
            assert_eq!(read.is_ok(), is_read, "{mode:o}: {read:?}");
            if let Err(error) = read {
                assert!(
                    error.contains("chmod") && !error.contains("hidden"),
                    "{error}"
                );
            }
        }
        fs::set_permissions(file.path(), Permissions::from_mode(0o600)).unwrap();
        assert!(
            read_private(file.path(), 5)
                .unwrap_err()
                .contains("more than 5")
        );
        assert!(read_private(Path::new("/"), 5).is_err());
        assert!(read_private(Path::new("/nowhere/at/all"), 5).is_err());
    }
}
