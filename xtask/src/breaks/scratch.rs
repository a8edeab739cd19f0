//! The copy of the tree that is broken, and mended again.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use walkdir::WalkDir;

use super::book::Break;
use super::check::{self, Sources};

/// Folders that are not copied: build products, version control.
const SKIPPED: [&str; 2] = [".git", "target"];

/// Stands in the copy, for whoever finds it.
const NOTE: (&str, &str) = (
    "BROKEN-ON-PURPOSE",
    "A copy of the tree that `cargo xtask breaks` breaks on purpose. Change nothing here.\n",
);

/// See the module's documentation.
pub(super) struct Scratch {
    root: PathBuf,
    folder: PathBuf,
    /// Locked for as long as this one uses the folder.
    _lock: File,
}

impl Scratch {
    /// For a copy of `root` in `folder`, which nobody else uses meanwhile.
    pub(super) fn new(root: &Path, folder: &Path) -> Result<Self> {
        for part in ["tree", "logs"] {
            let part = folder.join(part);
            fs::create_dir_all(&part).with_context(|| format!("cannot make {}", part.display()))?;
        }
        let lock = File::create(folder.join("lock")).context("cannot make a lock")?;
        lock.try_lock().with_context(|| {
            format!(
                "another `cargo xtask breaks` is under way in {}",
                folder.display()
            )
        })?;
        Ok(Self {
            root: root.to_owned(),
            folder: folder.to_owned(),
            _lock: lock,
        })
    }

    pub(super) fn tree(&self) -> PathBuf {
        self.folder.join("tree")
    }

    pub(super) fn logs(&self) -> PathBuf {
        self.folder.join("logs")
    }

    /// Where what is built of the copy goes.
    pub(super) fn build(&self) -> PathBuf {
        self.folder.join("build")
    }

    /// Makes the copy equal to the tree. What is equal is left alone, so that cargo builds only
    /// what changed.
    pub(super) fn restore(&self) -> Result<()> {
        let (tree, wanted) = (self.tree(), files(&self.root)?);
        for path in files(&tree)?.difference(&wanted) {
            // A property that fails leaves the case beside its test, and begins with it next time.
            fs::remove_file(tree.join(path))
                .with_context(|| format!("cannot remove {}", path.display()))?;
        }
        for path in &wanted {
            let (from, to) = (self.root.join(path), tree.join(path));
            let bytes =
                fs::read(&from).with_context(|| format!("cannot read {}", from.display()))?;
            if fs::read(&to).is_ok_and(|there| there == bytes) {
                continue;
            }
            fs::create_dir_all(to.parent().context("a file has a folder")?)?;
            // Copied and not written, as some files are programs.
            fs::copy(&from, &to).with_context(|| format!("cannot write {}", to.display()))?;
        }
        fs::write(tree.join(NOTE.0), NOTE.1).context("cannot write to the copy")
    }

    /// Breaks the copy.
    pub(super) fn apply(&self, one: &Break) -> Result<()> {
        for edit in &one.edits {
            let path = self.tree().join(&edit.file);
            let text = fs::read_to_string(&path)
                .with_context(|| format!("cannot read {}", path.display()))?;
            let broken = check::apply(edit, &text).map_err(|why| anyhow!(why))?;
            fs::write(&path, broken).with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok(())
    }
}

/// The Rust files below a folder.
pub(super) fn sources(root: &Path) -> Result<Sources> {
    let mut sources = Sources::new();
    for path in files(root)? {
        if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(root.join(&path))
                .with_context(|| format!("cannot read {}", path.display()))?;
            sources.insert(path.to_string_lossy().replace('\\', "/"), text);
        }
    }
    Ok(sources)
}

/// All files below a folder but what is skipped, as paths from there.
fn files(root: &Path) -> Result<BTreeSet<PathBuf>> {
    let wanted = |entry: &walkdir::DirEntry| {
        entry.depth() == 0 || !SKIPPED.contains(&entry.file_name().to_string_lossy().as_ref())
    };
    let mut files = BTreeSet::new();
    for entry in WalkDir::new(root).into_iter().filter_entry(wanted) {
        let entry = entry.with_context(|| format!("cannot list {}", root.display()))?;
        if entry.file_type().is_file() {
            let path = entry.path().strip_prefix(root);
            files.insert(path.expect("the walk starts at the root").to_owned());
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::breaks::book;

    #[test]
    fn what_is_broken_is_mended_again() {
        let name = format!("xtask-breaks-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let root = folder.join("root");
        fs::create_dir_all(root.join("target")).unwrap();
        fs::write(root.join("a.rs"), "one(); two();").unwrap();
        fs::write(root.join("target/b"), "").unwrap();
        let scratch = Scratch::new(&root, &folder.join("copy")).unwrap();
        let again = Scratch::new(&root, &folder.join("copy"));
        assert!(again.is_err(), "two would break the same copy");

        let book = "[[break]]\nwhat = 'w'\nfile = 'a.rs'\nold = 'one()'\nnew = 'three()'\n\
                    seen_by = ['p lib t']\n[[break.also]]\nold = 'two()'\nnew = 'four()'\n";
        let breaks = book::parse("breaks/a.toml", book).unwrap();
        scratch.restore().unwrap();
        scratch.apply(&breaks[0]).unwrap();
        let copy = scratch.tree().join("a.rs");
        assert_eq!(fs::read_to_string(&copy).unwrap(), "three(); four();");
        let error = scratch.apply(&breaks[0]).expect_err("it is there no more");
        assert!(error.to_string().contains("any more"), "{error}");

        fs::write(scratch.tree().join("left-behind"), "").unwrap();
        scratch.restore().unwrap();
        assert_eq!(fs::read_to_string(&copy).unwrap(), "one(); two();");
        assert!(!scratch.tree().join("left-behind").exists());
        assert!(!scratch.tree().join("target").exists(), "it is not source");
        fs::remove_dir_all(folder).unwrap();
    }
}
