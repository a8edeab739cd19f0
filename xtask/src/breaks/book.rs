//! The breaks as they are written down: one TOML file for each subject.

use std::fmt;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use toml_edit::{Document, Table};

/// Where the breaks lie.
pub(crate) const FOLDER: &str = "breaks/";

/// One way to break the code.
#[derive(Debug)]
pub(super) struct Break {
    /// The file that it is written in, and the line there.
    pub(super) place: (String, usize),
    pub(super) what: String,
    pub(super) edits: Vec<Edit>,
    /// All of them must fail.
    pub(super) seen_by: Vec<Test>,
    /// A test may also not end.
    pub(super) hangs: bool,
    /// What a machine has to have, or a test passes without looking.
    pub(super) needs: Option<String>,
    /// Part of `cargo xtask ci`.
    pub(super) sample: bool,
}

/// A text that stands once in a file, and what stands there in the broken one.
#[derive(Debug)]
pub(super) struct Edit {
    pub(super) file: String,
    pub(super) old: String,
    pub(super) new: String,
}

/// One test: written as package, target and name. Of the name, the end of its path will do that no
/// other test of the target has.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Test {
    pub(super) package: String,
    pub(super) target: Target,
    pub(super) name: String,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Target {
    /// The package's unit tests.
    Lib,
    /// A loom model among them.
    Model,
    /// The unit tests of its program, of the same name.
    Bin,
    /// A file in `tests/`, or a folder with a `main.rs` there.
    File(String),
}

impl Break {
    /// Where it is written, and what is broken.
    pub(super) fn title(&self) -> String {
        format!("{}:{} {}", self.place.0, self.place.1, self.what)
    }
}

impl fmt::Display for Break {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.title())?;
        self.seen_by
            .iter()
            .try_for_each(|test| write!(f, "\n    {test}"))
    }
}

impl fmt::Display for Test {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let target = match &self.target {
            Target::Lib => "lib",
            Target::Model => "model",
            Target::Bin => "bin",
            Target::File(name) => name,
        };
        write!(f, "{} {target} {}", self.package, self.name)
    }
}

impl Test {
    fn parse(text: &str) -> Result<Self> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let [package, target, name] = words[..] else {
            bail!(
                "`{text}` names no test: write package, target (lib, bin, model or a file) and name"
            );
        };
        let target = match target {
            "lib" => Target::Lib,
            "model" => Target::Model,
            "bin" => Target::Bin,
            file => Target::File(file.to_owned()),
        };
        Ok(Self {
            package: package.to_owned(),
            target,
            name: name.to_owned(),
        })
    }
}

/// All breaks of the project, by file and in the order in which they stand there.
pub(super) fn read(root: &Path) -> Result<Vec<Break>> {
    let folder = root.join(FOLDER);
    let listed = std::fs::read_dir(&folder)
        .with_context(|| format!("cannot list {}", folder.display()))?
        .collect::<Result<Vec<_>, _>>()?;
    let mut names: Vec<String> = (listed.iter())
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| name.ends_with(".toml"))
        .collect();
    names.sort();
    let mut breaks = Vec::new();
    for name in names {
        let path = format!("{FOLDER}{name}");
        let text = std::fs::read_to_string(root.join(&path))
            .with_context(|| format!("cannot read {path}"))?;
        breaks.extend(parse(&path, &text)?);
    }
    Ok(breaks)
}

/// The breaks of one file.
pub(super) fn parse(path: &str, text: &str) -> Result<Vec<Break>> {
    let document = Document::parse(text).with_context(|| format!("{path} is no TOML"))?;
    let tables = document
        .get("break")
        .and_then(toml_edit::Item::as_array_of_tables);
    let tables = tables.with_context(|| format!("{path} has no [[break]]"))?;
    ensure!(document.len() == 1, "{path} has more than [[break]]");
    tables
        .iter()
        .map(|table| {
            let start = table.span().map_or(0, |span| span.start);
            let line = text[..start].matches('\n').count() + 1;
            read_break((path.to_owned(), line), table).with_context(|| format!("{path}:{line}"))
        })
        .collect()
}

fn read_break(place: (String, usize), table: &Table) -> Result<Break> {
    const KEYS: [&str; 9] = [
        "what", "file", "old", "new", "seen_by", "hangs", "needs", "sample", "also",
    ];
    only(table, &KEYS)?;
    let mut edits = vec![read_edit(table, None)?];
    let also = table
        .get("also")
        .and_then(toml_edit::Item::as_array_of_tables);
    for table in also.into_iter().flatten() {
        only(table, &["file", "old", "new"])?;
        edits.push(read_edit(table, Some(&edits[0].file))?);
    }
    let tests = table.get("seen_by").and_then(toml_edit::Item::as_array);
    let tests = tests.context("`seen_by` is missing: a list of tests")?;
    let seen_by = tests
        .iter()
        .map(|test| Test::parse(test.as_str().unwrap_or_default()))
        .collect::<Result<Vec<_>>>()?;
    ensure!(!seen_by.is_empty(), "`seen_by` names no test");
    let said = |key: &str| match table.get(key).map(toml_edit::Item::as_bool) {
        None => Ok(false),
        Some(Some(value)) => Ok(value),
        Some(None) => bail!("`{key}` is neither true nor false"),
    };
    Ok(Break {
        place,
        what: string(table, "what")?,
        edits,
        seen_by,
        hangs: said("hangs")?,
        needs: match table.contains_key("needs") {
            true => Some(string(table, "needs")?),
            false => None,
        },
        sample: said("sample")?,
    })
}

fn read_edit(table: &Table, default: Option<&String>) -> Result<Edit> {
    let file = match default {
        Some(file) if !table.contains_key("file") => file.clone(),
        _ => string(table, "file")?,
    };
    let (old, new) = (string(table, "old")?, string(table, "new")?);
    ensure!(
        !old.is_empty() && old != new,
        "`old` is empty, or nothing changes"
    );
    Ok(Edit { file, old, new })
}

fn string(table: &Table, key: &str) -> Result<String> {
    let text = table.get(key).and_then(toml_edit::Item::as_str);
    let text = text.with_context(|| format!("`{key}` is missing, or is no text"))?;
    Ok(text.to_owned())
}

/// A key that is misspelled would otherwise be passed over.
fn only(table: &Table, keys: &[&str]) -> Result<()> {
    let odd = table.iter().find(|(key, _)| !keys.contains(key));
    ensure!(
        odd.is_none(),
        "`{}` is not known; there are: {}",
        odd.map_or("", |(key, _)| key),
        keys.join(", ")
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &str = "[[break]]\nwhat = 'w'\nfile = 'a.rs'\nold = 'a'\nnew = 'b'\n\
                         seen_by = ['p lib t', 'p model m', 'p f u']\n";

    fn refused(text: &str) -> String {
        let error = parse("breaks/a.toml", text).expect_err("it is not whole");
        format!("{error:#}")
    }

    #[test]
    fn a_break_is_read() {
        let more = "hangs = true\nneeds = 'Linux'\n[[break.also]]\nold = 'c'\nnew = ''\n";
        let text = format!("# What it is about.\n\n{WHOLE}{more}");
        let breaks = parse("breaks/a.toml", &text).unwrap();
        let [one] = &breaks[..] else {
            panic!("{breaks:?}")
        };
        assert_eq!(one.title(), "breaks/a.toml:3 w");
        assert!(one.hangs && !one.sample);
        assert_eq!(one.needs.as_deref(), Some("Linux"));
        assert_eq!(one.edits.len(), 2);
        assert_eq!(one.edits[1].file, "a.rs");
        let tests: Vec<String> = one.seen_by.iter().map(Test::to_string).collect();
        assert_eq!(tests, ["p lib t", "p model m", "p f u"]);
        assert_eq!(one.seen_by[1].target, Target::Model);
    }

    #[test]
    fn what_is_not_whole_is_refused_with_its_place() {
        for key in ["what", "file", "old", "new", "seen_by"] {
            let without: String = (WHOLE.split_inclusive('\n'))
                .filter(|line| !line.starts_with(key))
                .collect();
            let advice = refused(&without);
            assert!(advice.contains(key), "{advice}");
            assert!(advice.contains("breaks/a.toml:1"), "{advice}");
        }
        assert!(refused("").contains("no [[break]]"));
        assert!(refused(&WHOLE.replace("'b'", "'a'")).contains("nothing changes"));
        assert!(refused(&WHOLE.replace("p lib t", "t")).contains("names no test"));
        assert!(refused(&format!("{WHOLE}hang = true\n")).contains("`hang` is not known"));
        assert!(refused(&format!("{WHOLE}hangs = 1\n")).contains("neither true nor false"));
    }
}
