//! Rules about markdown: one title, and links that lead somewhere.

use pulldown_cmark::{Event, HeadingLevel, Options, Parser, Tag};

use super::Finding;
use super::tree::{File, Tree};

fn pages(tree: &Tree) -> impl Iterator<Item = &File> {
    tree.files().filter(|file| file.extension() == "md")
}

/// The page's elements with the line each starts at.
fn events(file: &File) -> impl Iterator<Item = (Event<'_>, usize)> {
    let text = file.text.as_deref().unwrap_or_default();
    let parser = Parser::new_ext(text, Options::ENABLE_TABLES).into_offset_iter();
    parser.map(|(event, range)| (event, text[..range.start].matches('\n').count() + 1))
}

/// Each page has exactly one `# ` title.
pub(super) fn one_title(tree: &Tree, findings: &mut Vec<Finding>) {
    for file in pages(tree) {
        let is_title = |event: &Event<'_>| {
            matches!(
                event,
                Event::Start(Tag::Heading {
                    level: HeadingLevel::H1,
                    ..
                })
            )
        };
        let titles: Vec<usize> = events(file)
            .filter(|(event, _)| is_title(event))
            .map(|(_, line)| line)
            .collect();
        match titles.as_slice() {
            [_] => {}
            [] => findings.push(Finding::new(&file.path, 1, "the page has no `# ` title")),
            [_, second, ..] => {
                findings.push(Finding::new(
                    &file.path,
                    *second,
                    "the page has a second title",
                ));
            }
        }
    }
}

/// Each link or image that names a local file names one that is there.
pub(super) fn links_resolve(tree: &Tree, findings: &mut Vec<Finding>) {
    let folders = tree.folders();
    for file in pages(tree) {
        for (event, line) in events(file) {
            let Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) = event
            else {
                continue;
            };
            let target = dest_url.split('#').next().unwrap_or_default();
            // Pages that are part of the documentation link to items, which rustdoc checks.
            let elsewhere = dest_url.contains("://")
                || dest_url.starts_with("mailto:")
                || dest_url.starts_with("crate::");
            if elsewhere || target.is_empty() {
                continue;
            }
            let path = resolve(&file.path, target);
            let is_there = path
                .is_some_and(|path| tree.get(&path).is_some() || folders.contains(path.as_str()));
            if !is_there {
                let message = format!("the link to `{dest_url}` leads nowhere");
                findings.push(Finding::new(&file.path, line, message));
            }
        }
    }
}

/// The path from the root that `target` means on the page `from`; nothing if it leaves the tree.
fn resolve(from: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(rule: super::super::Rule, files: &[(&str, &str)]) -> Vec<(String, usize)> {
        let mut findings = Vec::new();
        rule(&Tree::of(files), &mut findings);
        findings
            .into_iter()
            .map(|finding| (finding.path, finding.line))
            .collect()
    }

    #[test]
    fn a_missing_or_second_title_is_seen() {
        let files = [
            ("good.md", "# A\n\n## B\n\n```sh\n# a comment\n```\n"),
            ("none.md", "## A\n"),
            ("two.md", "# A\n\ntext\n\n# B\n"),
        ];
        let expected = [("none.md".to_owned(), 1), ("two.md".to_owned(), 5)];
        assert_eq!(found(one_title, &files), expected);
    }

    #[test]
    fn a_broken_link_is_seen() {
        let files = [
            (
                "README.md",
                "# A\n[b](docs/b.md#part) [c](docs) [d](#a) [e](https://e.example)\n",
            ),
            (
                "docs/b.md",
                "# B\n\n[a](../README.md)\n\n`[code](nowhere)` [x](gone.md)\n",
            ),
            (
                "docs/c.md",
                "# C\n[out](../../out.md)\n\n![i][ref]\n\n[ref]: i.png\n",
            ),
        ];
        let expected = [("docs/b.md", 5), ("docs/c.md", 2), ("docs/c.md", 4)];
        let expected = expected.map(|(path, line)| (path.to_owned(), line));
        assert_eq!(found(links_resolve, &files), expected);
    }
}
