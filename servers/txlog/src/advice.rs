//! Advice for errors of the system.

use std::io::{self, ErrorKind};
use std::path::Path;

use nix::errno::Errno;

use crate::log::LogError;

/// For a directory, or a file in it: the error, and what to do.
pub fn of_files(error: &io::Error) -> String {
    let advice = match error.kind() {
        _ if is_out_of_descriptors(error) => "allow more open files, as by `ulimit -n`",
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => "make room on that disk",
        ErrorKind::PermissionDenied => "let this user write there, or take another directory",
        ErrorKind::ReadOnlyFilesystem => "mount it writable, or take another directory",
        ErrorKind::NotADirectory | ErrorKind::AlreadyExists => {
            "a file is where a directory has to be: take another path"
        }
        ErrorKind::NotFound => "see whether the path is right",
        // Our own say what to do.
        _ if error.raw_os_error().is_none() => return error.to_string(),
        _ if error.raw_os_error() == Some(Errno::EIO as i32) => {
            "see what the system's messages say of that disk, and replace it if it is broken"
        }
        _ => "see whether that disk and its file system are sound",
    };
    format!("{error}; {advice}")
}

/// For the log in a directory: the error, and what to do. The log's own errors name only files.
pub fn of_log(directory: &Path, error: &LogError) -> String {
    let shown = directory.display();
    match error {
        LogError::Io { what, name, source } => {
            format!(
                "the log in {shown}: cannot {what} {name}: {}",
                of_files(source)
            )
        }
        error => format!("the log in {shown}: {error}"),
    }
}

/// For an address to listen on: the error, and what to do.
pub fn of_listening(error: &io::Error) -> String {
    let advice = match error.kind() {
        ErrorKind::AddrInUse => {
            "a program listens there already, perhaps another `txlog serve`: end it, or take \
             another port (0 is any that is free)"
        }
        ErrorKind::AddrNotAvailable => {
            "this machine has no such address: take one of its own, or 0.0.0.0 for all of them"
        }
        ErrorKind::PermissionDenied => "this user may not use that port: take one from 1024 on",
        ErrorKind::InvalidInput => "give host and port, as in 127.0.0.1:7010",
        _ => return error.to_string(),
    };
    format!("{error}; {advice}")
}

/// For a connection that could not be accepted: the error, and what to do.
pub fn of_accepting(error: &io::Error) -> String {
    match is_out_of_descriptors(error) {
        true => format!(
            "{error}; allow more open files (`ulimit -n`), or fewer connections by \
             --connections-max"
        ),
        false => error.to_string(),
    }
}

/// Whether this process, or the system, has as many files open as it may.
pub fn is_out_of_descriptors(error: &io::Error) -> bool {
    // The standard library has no `ErrorKind` for these.
    let codes = [Errno::EMFILE, Errno::ENFILE];
    (error.raw_os_error()).is_some_and(|code| codes.contains(&Errno::from_raw(code)))
}

/// How advice begins.
#[cfg(test)]
const VERBS: [&str; 19] = [
    "accept", "begin", "bring", "empty", "give", "go", "let", "make", "mount", "move", "open",
    "read", "remove", "restore", "see", "send", "start", "take", "use",
];

/// Whether a clause says what to do, or the text asks what is to be looked at.
#[cfg(test)]
pub(crate) fn gives_advice(text: &str) -> bool {
    let clauses = text.split([':', ';']).skip(1).map(str::trim_start);
    let mut verbs = clauses.filter_map(|clause| clause.split([' ', ',']).next());
    text.ends_with('?') || verbs.any(|verb| VERBS.contains(&verb))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_is_told_from_what_happened() {
        assert!(gives_advice("it is full; make room"));
        assert!(gives_advice("it ends there: is it the right one?"));
        assert!(!gives_advice("make it: it is full"));
        assert!(!gives_advice("a batch of 9 bytes; 8 are allowed"));
    }

    #[test]
    fn advice_is_for_what_happened() {
        let error = |code| io::Error::from_raw_os_error(code);
        for (said, advice) in [
            (of_files(&error(28)), "make room"),
            (of_files(&error(13)), "let this user write"),
            (of_files(&error(20)), "a file is where"),
            (of_files(&error(5)), "system's messages"),
            (of_files(&error(27)), "see whether that disk"),
            (of_listening(&error(98)), "another port"),
            (of_listening(&error(13)), "from 1024 on"),
            (of_accepting(&error(24)), "ulimit"),
        ] {
            if cfg!(target_os = "linux") {
                assert!(said.contains(advice), "{said}");
            }
        }
        let plain = io::Error::other("no reason that anybody knows");
        for said in [of_files(&plain), of_listening(&plain), of_accepting(&plain)] {
            assert_eq!(said, plain.to_string());
        }
    }
}
