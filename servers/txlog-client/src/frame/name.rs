//! Names of logs and of cursors.

use super::NAME_BYTES_MAX;

/// Whether a log or a cursor may have this name: 1 to 64 letters and digits of ASCII, `.`, `_` and
/// `-`, not beginning with `.` or `-`. So it is also a name of a file, and no path or option.
pub fn is_name(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    (1..=NAME_BYTES_MAX).contains(&name.len())
        && !name.starts_with(['.', '-'])
        && name.bytes().all(allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_names_of_files_and_no_paths() {
        let longest = "x".repeat(NAME_BYTES_MAX);
        for name in ["a", "orders", "orders-2.eu_west", "7", &longest] {
            assert!(is_name(name), "{name:?}");
        }
        let too_long = "x".repeat(NAME_BYTES_MAX + 1);
        for name in [
            "",
            ".",
            "..",
            ".hidden",
            "-rf",
            "a/b",
            "../a",
            "a\\b",
            "a b",
            "a\0",
            "a\n",
            "ä",
            "a*",
            "a:b",
            "~",
            "lost+found",
            &too_long,
        ] {
            assert!(!is_name(name), "{name:?}");
        }
    }
}
