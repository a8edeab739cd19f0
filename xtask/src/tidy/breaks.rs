//! The breaks in `breaks/` fit the code: each can still be made, and its tests are there.

use super::Finding;
use super::tree::Tree;
use crate::breaks::{FOLDER, problems_of_file};

/// Every break applies, and every test that it names is written somewhere.
pub(super) fn apply(tree: &Tree, findings: &mut Vec<Finding>) {
    let rust = tree.files().filter(|file| file.extension() == "rs");
    let sources = rust
        .filter_map(|file| Some((file.path.clone(), file.text.clone()?)))
        .collect();
    let is_book = |path: &str| path.starts_with(FOLDER) && path.ends_with(".toml");
    for file in tree.files().filter(|file| is_book(&file.path)) {
        let text = file.text.as_deref().unwrap_or_default();
        for (line, message) in problems_of_file(&file.path, text, &sources) {
            findings.push(Finding::new(&file.path, line, message));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_break_that_does_not_fit_is_seen() {
        let book = "[[break]]\nwhat = 'w'\nfile = 'crates/a/src/lib.rs'\nold = 'one()'\n\
                    new = 'two()'\nseen_by = ['a lib sees_it']\n";
        let found = |code: &str| {
            let files = [("breaks/a.toml", book), ("crates/a/src/lib.rs", code)];
            let mut findings = Vec::new();
            apply(&Tree::of(&files), &mut findings);
            findings.len()
        };
        assert_eq!(found("fn f() { one() } fn sees_it() {}"), 0);
        assert_eq!(found("fn f() { three() } fn sees_it() {}"), 1);
        assert_eq!(found("fn f() { three() }"), 2);
    }
}
