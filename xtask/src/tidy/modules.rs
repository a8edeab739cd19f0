//! Rules about files as modules: each is declared somewhere and says what it is for.

use std::collections::BTreeSet;

use super::Finding;
use super::tokens::Tokens;
use super::tree::{File, Tree};

/// Every Rust file opens with a `//!` comment.
pub(super) fn documented(tree: &Tree, findings: &mut Vec<Finding>) {
    for file in tree.files().filter(|file| file.extension() == "rs") {
        let skipped = |line: &str| line.is_empty() || line.starts_with("#!");
        let first = file.lines().find(|(_, line)| !skipped(line.trim()));
        if !first.is_some_and(|(_, line)| line.starts_with("//!")) {
            let advice = "open the file with a `//!` comment that says what it is for";
            findings.push(Finding::new(&file.path, 1, advice));
        }
    }
}

/// Every Rust file under a package's src/ is part of the package.
pub(super) fn reachable(tree: &Tree, findings: &mut Vec<Finding>) {
    let mut reached = BTreeSet::new();
    for root in tree.files().filter(|file| is_root(&file.path)) {
        walk(tree, root, root.is_test, &mut |path, _| {
            reached.insert(path.to_owned())
        });
    }
    for file in tree.files().filter(|file| file.extension() == "rs") {
        let in_source = file.path.starts_with("src/") || file.path.contains("/src/");
        if in_source && !reached.contains(&file.path) {
            let advice = "dead file: no `mod` leads to it; declare it or delete it";
            findings.push(Finding::new(&file.path, 0, advice));
        }
    }
}

/// The files that only `cfg(test)` modules lead to.
pub(super) fn test_only(tree: &Tree) -> BTreeSet<String> {
    let mut code = BTreeSet::new();
    let mut tests = BTreeSet::new();
    for root in tree.files().filter(|file| is_root(&file.path)) {
        walk(tree, root, root.is_test, &mut |path, in_test| {
            if in_test {
                tests.insert(path.to_owned())
            } else {
                code.insert(path.to_owned())
            }
        });
    }
    &tests - &code
}

/// Is the file compiled without a `mod` that names it?
fn is_root(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    let folder = path.strip_suffix(name).unwrap_or_default();
    let folder = folder.strip_suffix('/').unwrap_or(folder);
    let folder = folder.rsplit('/').next().unwrap_or_default();
    match folder {
        "src" => name == "lib.rs" || name == "main.rs",
        "bin" | "tests" | "examples" | "benches" => name.ends_with(".rs"),
        _ => name == "main.rs",
    }
}

/// Visits `file` and all files its modules lead to; `visit` says whether one was new.
fn walk(tree: &Tree, file: &File, in_test: bool, visit: &mut dyn FnMut(&str, bool) -> bool) {
    if !visit(&file.path, in_test) {
        return;
    }
    let Some(tokens) = &file.tokens else { return };
    for module in declared(&file.path, tokens) {
        for path in module.candidates {
            if let Some(next) = tree.get(&path) {
                walk(tree, next, in_test || module.in_test, visit);
            }
        }
    }
}

/// A `mod name;` and where its file can be.
struct Declared {
    candidates: Vec<String>,
    in_test: bool,
}

/// All `mod name;` of a file, those within inline modules included.
fn declared(path: &str, tokens: &Tokens) -> Vec<Declared> {
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    let stem = name.strip_suffix(".rs").unwrap_or(name);
    let base = if is_root(path) || stem == "mod" {
        folder.to_owned()
    } else {
        format!("{folder}/{stem}")
    };
    // The open braces, each with the inline module it belongs to, if it is one's.
    let mut open: Vec<Option<&str>> = Vec::new();
    let mut found = Vec::new();
    for (index, token) in tokens.all().iter().enumerate() {
        match token.text.as_str() {
            "{" => {
                let is_module = index >= 2 && tokens.text(index - 2) == "mod";
                open.push(is_module.then(|| tokens.text(index - 1)));
            }
            "}" => {
                open.pop();
            }
            "mod" if tokens.text(index + 2) == ";" => {
                let within: Vec<&str> = open.iter().copied().flatten().collect();
                let named = tokens.text(index + 1);
                let stem = [&[base.as_str()], within.as_slice(), &[named]]
                    .concat()
                    .join("/");
                let mut candidates = vec![format!("{stem}.rs"), format!("{stem}/mod.rs")];
                candidates.extend(path_attribute(tokens, index).map(|p| format!("{folder}/{p}")));
                found.push(Declared {
                    candidates,
                    in_test: token.in_test,
                });
            }
            _ => {}
        }
    }
    found
}

/// The text of a `#[path = "…"]` right before the `mod` at `index`.
fn path_attribute(tokens: &Tokens, index: usize) -> Option<&str> {
    let before = index.checked_sub(6)?;
    let shape = ["#", "[", "path", "="];
    let matches = (0..4).all(|at| tokens.text(before + at) == shape[at]);
    matches.then(|| tokens.text(before + 4).trim_matches('"'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(rule: super::super::Rule, files: &[(&str, &str)]) -> Vec<String> {
        let mut findings = Vec::new();
        rule(&Tree::of(files), &mut findings);
        findings.into_iter().map(|finding| finding.path).collect()
    }

    #[test]
    fn a_file_without_a_doc_is_seen() {
        let files = [
            ("a/src/lib.rs", "#![deny(x)]\n\n//! What it is for."),
            ("a/src/b.rs", "// A plain comment.\nfn f() {}"),
        ];
        assert_eq!(found(documented, &files), ["a/src/b.rs"]);
    }

    #[test]
    fn a_dead_file_is_seen() {
        let files = [
            (
                "a/src/lib.rs",
                "mod one;\nmod two { mod three; }\n#[path = \"odd.rs\"]\nmod four;",
            ),
            ("a/src/one.rs", "pub mod five;"),
            ("a/src/one/five.rs", ""),
            ("a/src/two/three/mod.rs", ""),
            ("a/src/odd.rs", ""),
            ("a/src/bin/tool.rs", ""),
            ("a/src/dead.rs", "// mod one;"),
            ("a/tests/apart.rs", ""),
        ];
        assert_eq!(found(reachable, &files), ["a/src/dead.rs"]);
    }

    #[test]
    fn a_macro_may_declare_modules() {
        let files = [
            ("a/src/lib.rs", "on_linux! { mod epoll; }"),
            ("a/src/epoll.rs", ""),
        ];
        assert!(found(reachable, &files).is_empty());
    }
}
