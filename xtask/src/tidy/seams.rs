//! The runtime's seams: atomics, locks, threads and the clock are used through few files, which
//! is what lets a model or a simulation take their place.
//!
//! Clippy seals locks and the clock (`clippy.toml`). It looks at what a name means, by whatever
//! way one came to it, and in ordinary builds `crate::sync` passes on the standard library's own
//! atomics and threads. So for these it depends on the way, which only a look at paths can tell.

use super::Finding;
use super::tokens::Tokens;
use super::tree::{Tree, is_listed};

/// Where the rule applies.
const SCOPE: &str = "crates/evenkeel/src/";

/// The seams themselves, below [`SCOPE`]; a trailing `/` means the whole folder.
const SEAMS: [&str; 2] = ["sync/", "sys/"];

/// What only a seam may name.
const SEALED: [&str; 3] = ["std::sync::atomic", "core::sync::atomic", "std::thread"];

/// Modules whose import would let sealed names in under a shorter path.
const OPEN_DOORS: [&str; 4] = ["std::sync", "core::sync", "std::sync::*", "std::thread::*"];

/// Nothing outside the seams, but tests, names what is sealed.
pub(super) fn only_through_seams(tree: &Tree, findings: &mut Vec<Finding>) {
    for (file, tokens) in tree.rust() {
        let Some(below) = file.path.strip_prefix(SCOPE) else {
            continue;
        };
        if file.is_test || is_listed(below, &SEAMS) {
            continue;
        }
        for (line, path) in named(tokens) {
            if let Some(sealed) = SEALED.iter().find(|sealed| is_within(&path, sealed)) {
                let message = format!("`{sealed}` is for the seams; use `crate::sync`");
                findings.push(Finding::new(&file.path, line, message));
            } else if OPEN_DOORS.contains(&path.as_str()) {
                let message = format!("import what you need of `{path}` by name");
                findings.push(Finding::new(&file.path, line, message));
            }
        }
    }
}

fn is_within(path: &str, module: &str) -> bool {
    path.strip_prefix(module)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

/// Every path outside tests, written out: what is imported, and what is used through an import.
pub(super) fn named(tokens: &Tokens) -> Vec<(usize, String)> {
    let imports = tokens.imports();
    let mut named: Vec<(usize, String)> = imports
        .iter()
        .filter(|import| !import.in_test)
        .map(|import| (import.line, import.path.clone()))
        .collect();
    let import_ranges = tokens.import_ranges();
    for (index, token) in tokens.all().iter().enumerate() {
        let starts_path = tokens.text(index + 1) == "::" && is_word(&token.text);
        let goes_on =
            index >= 2 && tokens.text(index - 1) == "::" && is_word(tokens.text(index - 2));
        let in_import = import_ranges.iter().any(|range| range.contains(&index));
        if token.in_test || !starts_path || goes_on || in_import {
            continue;
        }
        let written = path_from(tokens, index);
        let (first, rest) = written.split_once("::").unwrap_or((&written, ""));
        let through = imports.iter().find(|import| import.name == first);
        let whole = through.map(|import| format!("{}::{rest}", import.path));
        named.push((token.line, whole.unwrap_or(written)));
    }
    named
}

/// The path that starts at an index, as text.
fn path_from(tokens: &Tokens, start: usize) -> String {
    let mut path = tokens.text(start).to_owned();
    let mut index = start + 1;
    while tokens.text(index) == "::" && !["<", "{", "(", "*"].contains(&tokens.text(index + 1)) {
        path.push_str("::");
        path.push_str(tokens.text(index + 1));
        index += 2;
    }
    path
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<usize> {
        let mut findings = Vec::new();
        only_through_seams(&Tree::of(&[(path, text)]), &mut findings);
        let mut lines: Vec<usize> = findings.into_iter().map(|finding| finding.line).collect();
        lines.dedup();
        lines
    }

    const CODE: &str = "crates/evenkeel/src/sched/worker.rs";

    #[test]
    fn each_sealed_name_is_seen() {
        for sealed in SEALED {
            assert_eq!(
                found(CODE, &format!("//! A.\nfn f() {{ {sealed}::x(); }}\n")),
                [2],
                "{sealed}"
            );
        }
    }

    #[test]
    fn detours_are_seen() {
        for text in [
            "use std::{fmt, sync::{Arc, atomic}};",
            "use std::sync::atomic::{AtomicU64, Ordering};",
            "use std::sync;",
            "use std::sync::*;",
            "use std::thread as t;",
            "use std::{self, fmt};\nfn f() { if true { std::thread::yield_now() } }",
            "m! { std::thread::yield_now() }",
        ] {
            assert_eq!(found(CODE, text).len(), 1, "{text}");
        }
    }

    #[test]
    fn what_is_allowed_is_not_seen() {
        for text in [
            "use std::sync::{Arc, Weak};\nuse crate::sync::{Mutex, atomic::AtomicU64, thread};",
            "#[cfg(test)]\nmod tests { use std::thread; fn f() { thread::yield_now() } }",
            "// std::thread\nconst A: &str = \"std::thread\";",
        ] {
            assert!(found(CODE, text).is_empty(), "{text}");
        }
    }

    #[test]
    fn the_seams_and_other_packages_are_free() {
        let text = "use std::sync::atomic::AtomicU8;\n";
        for path in [
            "crates/evenkeel/src/sync/mod.rs",
            "crates/evenkeel/src/sys/thread.rs",
            "lab/src/a.rs",
        ] {
            assert!(found(path, text).is_empty(), "{path}");
        }
    }
}
