//! The lines between two marks in the configuration, which patch Tokio, and the project's own
//! Evenkeel, and say which Tokio it was.

use std::collections::BTreeSet;

use crate::lockfile::Locked;

const BEGIN: &str =
    "# >>> Evenkeel, made by `cargo evenkeel init`; `cargo evenkeel remove` takes it out.";
const END: &str = "# <<< Evenkeel";
/// How the path of each patch begins.
const PATH: &str = "path = \".cargo/evenkeel/";

/// Where the block is, with the line break before it.
pub(super) fn find(text: &str) -> Option<(usize, usize)> {
    let begin = text.find(BEGIN)?;
    let end = begin + text[begin..].find(END)? + END.len();
    let end = end + usize::from(text[end..].starts_with('\n'));
    Some((begin - usize::from(text[..begin].ends_with('\n')), end))
}

/// Whether the text has parts of a block besides a whole one: somebody has removed a mark.
pub(super) fn has_remains(text: &str) -> bool {
    let rest = without(text);
    [BEGIN, END, PATH].iter().any(|part| rest.contains(part))
}

pub(super) fn without(text: &str) -> String {
    let Some((from, to)) = find(text) else {
        return text.to_owned();
    };
    let (before, after) = (&text[..from], &text[to..]);
    // The line break was ours, unless people have added lines since.
    let joins = !before.is_empty() && !before.ends_with('\n') && !after.is_empty();
    format!("{before}{}{after}", if joins { "\n" } else { "" })
}

/// The block. Its line break before belongs to it, so that a file without one at its end is left
/// without one.
pub(super) fn lines_for(
    text: &str,
    original: &Locked,
    name: &str,
    sources: &BTreeSet<String>,
) -> String {
    let Locked {
        version,
        source,
        checksum,
        ..
    } = original;
    let (source, checksum) = (source.as_deref(), checksum.as_deref());
    let before = if without(text).is_empty() { "" } else { "\n" };
    let mut lines = format!(
        "{before}{BEGIN}\n# tokio {version} {} {}\n[patch.crates-io.tokio]\n\
         {PATH}{name}/tokio\"\n",
        source.unwrap_or_default(),
        checksum.unwrap_or_default(),
    );
    for source in sources {
        let source = toml_edit::Value::from(source).to_string();
        lines += &format!(
            "[patch.{}.evenkeel]\n{PATH}{name}/evenkeel\"\n",
            source.trim(),
        );
    }
    lines + END + "\n"
}

/// Tokio as it was, the copy's folder, and the sources whose Evenkeel is replaced.
pub(super) fn parse(text: &str) -> Option<(Locked, String, BTreeSet<String>)> {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("# tokio "))?;
    let mut words = line.split(' ');
    let original = Locked {
        name: "tokio".into(),
        version: words.next()?.parse().ok()?,
        source: words.next().map(str::to_owned),
        checksum: words.next().map(str::to_owned),
        dependencies: Vec::new(),
    };
    let path = text.lines().find_map(|line| line.strip_prefix(PATH))?;
    Some((
        original,
        path.strip_suffix("/tokio\"")?.to_owned(),
        sources(text)?,
    ))
}

fn sources(text: &str) -> Option<BTreeSet<String>> {
    let table: toml::Table = toml::from_str(text).ok()?;
    let patches = table.get("patch")?.as_table()?.iter();
    let of_evenkeel = patches.filter(|(_, entries)| entries.get("evenkeel").is_some());
    Some(of_evenkeel.map(|(source, _)| source.clone()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_comes_and_goes_without_a_trace() {
        let original = Locked {
            name: "tokio".into(),
            version: semver::Version::new(1, 54, 1),
            source: Some("registry+x".into()),
            checksum: Some("c0ffee".into()),
            dependencies: Vec::new(),
        };
        for text in [
            "",
            "a = 1",
            "# A comment.\n[patch.crates-io]\nb.path = 'b' # its\n",
            "a = 1\r\n",
        ] {
            let sources = ["crates-io", "file:///its%20own"].map(str::to_owned).into();
            let lines = lines_for(text, &original, "tokio-1.54.1-x", &sources);
            let with = format!("{text}{lines}");
            assert!(toml::from_str::<toml::Table>(&with).is_ok(), "{with}");
            assert_eq!(without(&with), text);
            let (from, to) = find(&with).unwrap();
            assert_eq!(
                parse(&with[from..to]).unwrap(),
                (original.clone(), "tokio-1.54.1-x".into(), sources)
            );
            // Also if people have added lines behind it.
            let ended = text.is_empty() || text.ends_with('\n');
            let line_break = if ended { "" } else { "\n" };
            let expected = format!("{text}{line_break}c = 2\n");
            assert_eq!(without(&format!("{with}c = 2\n")), expected);
        }
    }
}
