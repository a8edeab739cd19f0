//! The project's files, read once.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use walkdir::WalkDir;

use super::modules;
use super::tokens::Tokens;

/// Folders that hold no source: build products, version control, what a run of the lab writes.
const SKIPPED_FOLDERS: [&str; 2] = [".git", "target"];
const SKIPPED_PREFIX: &str = "lab-report";

/// One file, with the text of those that are text.
pub(super) struct File {
    pub(super) path: String,
    pub(super) size_bytes: u64,
    pub(super) text: Option<String>,
    /// For Rust files that can be read as tokens.
    pub(super) tokens: Option<Tokens>,
    /// Compiled for tests alone: an integration test, or a module declared under `cfg(test)`.
    pub(super) is_test: bool,
}

impl File {
    fn new(path: String, size_bytes: u64, text: Option<String>) -> Self {
        let is_rust = path.ends_with(".rs");
        let tokens = text.as_deref().filter(|_| is_rust).and_then(Tokens::parse);
        let is_test = path
            .split('/')
            .any(|part| part == "tests" || part == "benches");
        Self {
            path,
            size_bytes,
            text,
            tokens,
            is_test,
        }
    }

    /// The part of the name after the last dot, or nothing.
    pub(super) fn extension(&self) -> &str {
        let name = self.path.rsplit('/').next().unwrap_or_default();
        name.rsplit_once('.').map_or("", |(_, extension)| extension)
    }

    /// The lines with their numbers, counted from 1.
    pub(super) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text
            .iter()
            .flat_map(|text| text.split('\n').zip(1..).map(|(line, n)| (n, line)))
    }
}

/// All files, by path from the root with `/` between the parts.
pub(super) struct Tree {
    files: BTreeMap<String, File>,
}

impl Tree {
    /// Reads every file below `root` but for build products and version control.
    pub(super) fn read(root: &Path) -> Result<Self> {
        let wanted = |entry: &walkdir::DirEntry| {
            let name = entry.file_name().to_string_lossy();
            !SKIPPED_FOLDERS.contains(&name.as_ref()) && !name.starts_with(SKIPPED_PREFIX)
        };
        let mut files = Vec::new();
        for entry in WalkDir::new(root).into_iter().filter_entry(wanted) {
            let entry = entry.context("cannot list the tree")?;
            if !entry.file_type().is_file() {
                continue;
            }
            let path = entry.path();
            let bytes =
                std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
            let name = path
                .strip_prefix(root)
                .expect("the walk starts at the root");
            let name = name.to_string_lossy().replace('\\', "/");
            files.push(File::new(
                name,
                bytes.len() as u64,
                String::from_utf8(bytes).ok(),
            ));
        }
        Ok(Self::from_files(files))
    }

    /// A tree made of strings, for the rules' own tests.
    #[cfg(test)]
    pub(super) fn of(files: &[(&str, &str)]) -> Self {
        let file = |(path, text): &(&str, &str)| {
            File::new(
                (*path).to_owned(),
                text.len() as u64,
                Some((*text).to_owned()),
            )
        };
        Self::from_files(files.iter().map(file).collect())
    }

    fn from_files(files: Vec<File>) -> Self {
        let files = files
            .into_iter()
            .map(|file| (file.path.clone(), file))
            .collect();
        let mut tree = Self { files };
        let tests = modules::test_only(&tree);
        for path in tests {
            tree.files
                .get_mut(&path)
                .expect("only known files are named")
                .is_test = true;
        }
        tree
    }

    pub(super) fn files(&self) -> impl ExactSizeIterator<Item = &File> {
        self.files.values()
    }

    pub(super) fn get(&self, path: &str) -> Option<&File> {
        self.files.get(path)
    }

    /// The Rust files that could be read, with their tokens. (One that could not does not
    /// compile either.)
    pub(super) fn rust(&self) -> impl Iterator<Item = (&File, &Tokens)> {
        self.files()
            .filter_map(|file| Some((file, file.tokens.as_ref()?)))
    }
}

/// Is the path one of these, or below one of these that ends in `/`?
pub(super) fn is_listed(path: &str, list: &[&str]) -> bool {
    list.iter()
        .any(|place| path == *place || (place.ends_with('/') && path.starts_with(place)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_project_itself_is_read() {
        let tree = Tree::read(crate::cargo::root()).unwrap();
        assert!(tree.get("Cargo.toml").is_some());
        assert!(tree.get("xtask/src/tidy/tree.rs").unwrap().tokens.is_some());
        assert!(tree.files().all(|file| !file.path.starts_with("target/")));
    }

    #[test]
    fn a_list_names_files_and_folders() {
        let list = ["a/b.rs", "a/c/"];
        assert!(is_listed("a/b.rs", &list) && is_listed("a/c/d.rs", &list));
        assert!(!is_listed("a/c.rs", &list) && !is_listed("a/b.rs/d", &list));
    }

    #[test]
    fn tests_are_told_from_code() {
        let tree = Tree::of(&[
            ("c/src/lib.rs", "mod a;\n#[cfg(test)]\nmod models;"),
            ("c/src/a.rs", ""),
            ("c/src/models.rs", "mod deep;"),
            ("c/src/models/deep.rs", ""),
            ("c/tests/b.rs", ""),
        ]);
        let tests: Vec<&str> = tree
            .files()
            .filter(|file| file.is_test)
            .map(|file| file.path.as_str())
            .collect();
        assert_eq!(
            tests,
            ["c/src/models.rs", "c/src/models/deep.rs", "c/tests/b.rs"]
        );
    }
}
