//! Whether the breaks still fit the code, from its text alone: each text that a break replaces
//! stands once in its file, and the tests that it names are written somewhere in their packages.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};

use super::book::{self, Break, Edit, Target, Test};

/// The texts of files by their paths from the root.
pub(crate) type Sources = BTreeMap<String, String>;

/// Where packages lie.
const PACKAGES: [&str; 3] = ["crates", "servers", "compat"];

/// What is wrong with the breaks of one file: a line and what to do there.
pub(crate) fn problems_of_file(path: &str, text: &str, sources: &Sources) -> Vec<(usize, String)> {
    match book::parse(path, text) {
        Ok(breaks) => (breaks.iter())
            .flat_map(|one| (problems(one, sources).into_iter()).map(|why| (one.place.1, why)))
            .collect(),
        Err(error) => vec![(0, format!("{error:#}"))],
    }
}

/// An error that names all breaks which do not fit the code.
pub(super) fn all(breaks: &[Break], sources: &Sources) -> Result<()> {
    let mut found = Vec::new();
    for one in breaks {
        let problems = problems(one, sources).into_iter();
        found.extend(problems.map(|why| format!("{}: {why}", one.title())));
    }
    ensure!(found.is_empty(), "{}", found.join("\n"));
    Ok(())
}

fn problems(one: &Break, sources: &Sources) -> Vec<String> {
    let mut found = Vec::new();
    let mut broken = Sources::new();
    for edit in &one.edits {
        match broken.get(&edit.file).or_else(|| sources.get(&edit.file)) {
            Some(text) => match apply(edit, text) {
                Ok(text) => drop(broken.insert(edit.file.clone(), text)),
                Err(why) => found.push(why),
            },
            None => found.push(format!("there is no file {}; name the new one", edit.file)),
        }
    }
    let gone = (one.seen_by.iter()).filter(|test| !exists(test, sources));
    found.extend(gone.map(|test| {
        format!("there is no test `{test}`; name what has taken its place, or write one")
    }));
    found
}

/// The text of a file after the edit, or why it does not apply.
pub(super) fn apply(edit: &Edit, text: &str) -> Result<String, String> {
    let first = edit.old.lines().find(|line| !line.trim().is_empty());
    let first = first.unwrap_or_default().trim();
    match text.matches(edit.old.as_str()).count() {
        1 => Ok(text.replacen(&edit.old, &edit.new, 1)),
        0 => Err(format!(
            "{} does not have the text that begins with `{first}` any more; write the same break \
             for what stands there now, or delete it if nothing can break so",
            edit.file
        )),
        count => Err(format!(
            "{} has the text that begins with `{first}` {count} times; add lines around it to \
             `old` and `new` until it is there once",
            edit.file
        )),
    }
}

/// Whether a test of this name is written in its package.
fn exists(test: &Test, sources: &Sources) -> bool {
    let name = test.name.rsplit("::").next().unwrap_or_default();
    let function = format!("fn {name}(");
    let inside = match &test.target {
        Target::Lib | Target::Model | Target::Bin => vec!["src/".to_owned()],
        Target::File(file) => vec![format!("tests/{file}.rs"), format!("tests/{file}/")],
    };
    // The properties of a server are in a folder of it.
    let package = match test.package.strip_suffix("-fuzz") {
        Some(server) => format!("{server}/fuzz"),
        None => test.package.clone(),
    };
    PACKAGES.iter().any(|folder| {
        inside.iter().any(|inside| {
            let prefix = format!("{folder}/{package}/{inside}");
            let files = sources.range(prefix.clone()..);
            files
                .take_while(|(path, _)| path.starts_with(&prefix))
                .any(|(_, text)| text.contains(&function))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOOK: &str = "[[break]]\nwhat = 'w'\nfile = 'crates/a/src/b.rs'\n\
                        old = 'one()'\nnew = 'two()'\nseen_by = ['a lib sees_it']\n";

    fn sources(files: &[(&str, &str)]) -> Sources {
        let owned = |(path, text): &(&str, &str)| ((*path).to_owned(), (*text).to_owned());
        files.iter().map(owned).collect()
    }

    fn found(book: &str, files: &[(&str, &str)]) -> Vec<String> {
        let found = problems_of_file("breaks/a.toml", book, &sources(files));
        found.into_iter().map(|(_, why)| why).collect()
    }

    fn found_with(text: &str) -> Vec<String> {
        found(BOOK, &[("crates/a/src/b.rs", text)])
    }

    const SEEN: &str = "mod tests { #[test] fn sees_it() {} }";

    #[test]
    fn a_break_that_fits_is_no_problem() {
        assert!(found_with(&format!("fn f() {{ one() }} {SEEN}")).is_empty());
    }

    #[test]
    fn a_break_that_no_longer_applies_is_seen() {
        let gone = found_with(&format!("fn f() {{ three() }} {SEEN}"));
        assert!(
            gone[0].contains("does not have the text that begins with `one()`"),
            "{gone:?}"
        );
        let twice = found_with(&format!("fn f() {{ one(); one() }} {SEEN}"));
        assert!(
            twice[0].contains("2 times; add lines around it"),
            "{twice:?}"
        );
        let moved = found(BOOK, &[("crates/a/src/c.rs", SEEN)]);
        assert!(
            moved[0].contains("there is no file crates/a/src/b.rs"),
            "{moved:?}"
        );
    }

    #[test]
    fn a_test_that_is_gone_is_seen() {
        let renamed = found_with("fn f() { one() } fn sees_it_all() {}");
        assert!(
            renamed[0].contains("there is no test `a lib sees_it`"),
            "{renamed:?}"
        );
    }

    #[test]
    fn a_book_that_cannot_be_read_is_seen() {
        assert!(found("[[break]]\n", &[])[0].contains("`file` is missing"));
    }

    #[test]
    fn tests_are_found_where_they_are_written() {
        let all = sources(&[
            ("crates/a/src/b/tests.rs", "fn one(\n"),
            ("servers/c/tests/d.rs", "async fn two() {}"),
            ("servers/c/tests/e/f.rs", "fn three() {}"),
        ]);
        let test = |package: &str, target, name: &str| Test {
            package: package.to_owned(),
            target,
            name: name.to_owned(),
        };
        let file = || Target::File("d".to_owned());
        assert!(exists(&test("a", Target::Lib, "one"), &all));
        assert!(exists(&test("a", Target::Model, "tests::one"), &all));
        assert!(exists(&test("c", file(), "two"), &all));
        assert!(!exists(&test("a", file(), "two"), &all));
        let folder = || Target::File("e".to_owned());
        assert!(exists(&test("c", folder(), "three"), &all));
        assert!(!exists(&test("c", file(), "three"), &all));
        assert!(!exists(&test("a", Target::Lib, "two"), &all));
        assert!(!exists(&test("a", Target::Lib, "on"), &all));
    }
}
