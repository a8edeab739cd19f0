//! Which command was meant by one that there is not.

use std::env;

use crate::call;
use crate::config;

/// This program's own commands that cargo does not have.
const OURS: [&str; 2] = ["doctor", "suite"];

/// The command that is spelled most like this one, if one is, and if there is no such program
/// beside cargo.
pub(crate) fn meant(word: &str) -> Option<&'static str> {
    if is_program(word) {
        return None;
    }
    let all = call::builtins().chain(OURS);
    // Names of one letter are like any other.
    let distances = all
        .filter(|name| name.len() > 1)
        .map(|name| (strsim::osa_distance(word, name), name));
    let near = distances.filter(|(distance, _)| *distance <= (word.len() / 3).max(1));
    near.min().map(|(_, name)| name)
}

/// Whether cargo would find a program for this command.
fn is_program(word: &str) -> bool {
    let program = format!("cargo-{word}");
    let path = env::var_os("PATH").unwrap_or_default();
    let home = config::cargo_home().map(|home| home.join("bin"));
    env::split_paths(&path)
        .chain(home)
        .any(|folder| folder.join(&program).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_spelled_alike_was_meant() {
        for (word, command) in [
            ("biuld", Some("build")),
            ("docter", Some("doctor")),
            ("cippy", Some("clippy")),
            ("nextest", None),
            ("x", None),
        ] {
            assert_eq!(meant(word), command, "{word}");
        }
    }
}
