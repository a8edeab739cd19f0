//! Every dependency has its reason.

use toml_edit::{Document, Item, Key, TableLike};

use super::Finding;
use super::tree::Tree;

const TABLES: [&str; 3] = ["dependencies", "dev-dependencies", "build-dependencies"];

/// Each dependency has a comment right above that gives its reason.
pub(super) fn dependencies_have_reasons(tree: &Tree, findings: &mut Vec<Finding>) {
    let is_manifest = |path: &str| path == "Cargo.toml" || path.ends_with("/Cargo.toml");
    for file in tree.files().filter(|file| is_manifest(&file.path)) {
        let text = file.text.as_deref().unwrap_or_default();
        let Ok(document) = Document::parse(text) else {
            findings.push(Finding::new(&file.path, 0, "this is no TOML"));
            continue;
        };
        for (name, line) in dependencies(document.as_table(), text) {
            let above = line
                .checked_sub(2)
                .and_then(|index| text.lines().nth(index));
            let has_reason = above.is_some_and(|above| {
                above
                    .trim_start()
                    .strip_prefix('#')
                    .is_some_and(|reason| !reason.trim().is_empty())
            });
            if !has_reason {
                let message = format!("give the reason for `{name}` in a comment right above");
                findings.push(Finding::new(&file.path, line, message));
            }
        }
    }
}

/// All dependencies below a table, with the line of each, counted from 1.
fn dependencies(table: &dyn TableLike, text: &str) -> Vec<(String, usize)> {
    let mut found = Vec::new();
    for (name, item) in table.iter() {
        let Some(inner) = item.as_table_like() else {
            continue;
        };
        match name {
            name if TABLES.contains(&name) => {
                found.extend(
                    entries(inner)
                        .map(|(key, item)| (key.get().to_owned(), line_of(key, item, text))),
                );
            }
            "target" | "workspace" => found.extend(dependencies(inner, text)),
            // `[target.'cfg(…)'.dependencies]` has the condition in between.
            name if name.starts_with("cfg(") || name.contains('-') => {
                found.extend(dependencies(inner, text));
            }
            _ => {}
        }
    }
    found
}

fn entries(table: &dyn TableLike) -> impl Iterator<Item = (&Key, &Item)> {
    table
        .iter()
        .filter_map(|(name, _)| table.get_key_value(name))
}

fn line_of(key: &Key, item: &Item, text: &str) -> usize {
    let start = key
        .span()
        .or_else(|| item.span())
        .map_or(0, |span| span.start);
    text[..start].matches('\n').count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(rule: super::super::Rule, path: &str, text: &str) -> Vec<usize> {
        let mut findings = Vec::new();
        rule(&Tree::of(&[(path, text)]), &mut findings);
        findings.into_iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn a_dependency_without_a_reason_is_seen() {
        let text = "[dependencies]\n# Why.\na = \"1\"\nb = { version = \"1\" }\n\
                    [dev-dependencies.c]\nversion = \"1\"\n\n\
                    [target.'cfg(unix)'.dependencies]\nd = \"1\"\n\
                    [workspace.dependencies]\ne = \"1\"\n#\nf = \"1\"\n";
        let lines = found(dependencies_have_reasons, "a/Cargo.toml", text);
        assert_eq!(lines, [4, 5, 9, 11, 13]);
    }

    #[test]
    fn other_tables_need_no_reasons() {
        let text = "[package]\nname = \"a\"\n[features]\nb = []\n[profile.release]\nlto = true\n";
        assert!(found(dependencies_have_reasons, "Cargo.toml", text).is_empty());
    }
}
