//! Every memory ordering is explained: what it pairs with, or why none is needed.

use super::Finding;
use super::tree::Tree;

const ORDERINGS: [&str; 5] = ["Relaxed", "Acquire", "Release", "AcqRel", "SeqCst"];

/// How many lines above an ordering its comment may end. A comment at the head of a
/// compare-exchange loop still covers the exchange.
const REACH_LINES: usize = 12;

/// Where the rule applies: the other packages are no place for hand-made synchronization, and
/// count with atomics at most.
const SCOPE: &str = "crates/evenkeel/src/";

/// Each ordering outside tests has a comment on its line or within the lines above.
pub(super) fn explained(tree: &Tree, findings: &mut Vec<Finding>) {
    for (file, tokens) in tree.rust() {
        if file.is_test || !file.path.starts_with(SCOPE) {
            continue;
        }
        let imports = tokens.imports();
        let import_ranges = tokens.import_ranges();
        let imported = |name: &str| {
            imports.iter().any(|import| {
                let module = import
                    .path
                    .strip_suffix(name)
                    .and_then(|m| m.strip_suffix("::"));
                module.is_some_and(|module| module.ends_with("Ordering"))
            })
        };
        let lines: Vec<&str> = file.lines().map(|(_, line)| line).collect();
        for (index, token) in tokens.all().iter().enumerate() {
            if token.in_test || !ORDERINGS.contains(&token.text.as_str()) {
                continue;
            }
            let qualified = index >= 2
                && tokens.text(index - 1) == "::"
                && tokens.text(index - 2) == "Ordering";
            let used = qualified || imported(&token.text);
            let in_import = import_ranges.iter().any(|range| range.contains(&index));
            if used && !in_import && !has_comment_near(&lines, token.line) {
                let message = format!("say in a comment what `{}` pairs with", token.text);
                findings.push(Finding::new(&file.path, token.line, message));
            }
        }
    }
}

/// Is there a comment on this line (counted from 1) or on one of the few above?
fn has_comment_near(lines: &[&str], line: usize) -> bool {
    let first = line.saturating_sub(1 + REACH_LINES);
    lines[first..line].iter().any(|text| {
        let text = text.trim_start();
        (text.starts_with("//") && !text.starts_with("///")) || text.contains(" // ")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<usize> {
        let mut findings = Vec::new();
        let path = "crates/evenkeel/src/sched/idle.rs";
        explained(&Tree::of(&[(path, text)]), &mut findings);
        findings.into_iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn a_bare_ordering_is_seen() {
        assert_eq!(found("fn f() {\n    a.load(Ordering::Acquire)\n}\n"), [2]);
        assert_eq!(
            found("use a::Ordering::{Acquire, Release};\n\nfn f() { a.load(Acquire) }\n"),
            [3]
        );
        assert_eq!(
            found("/// Doc.\nfn f() { fence(atomic::Ordering::SeqCst) }\n"),
            [2]
        );
    }

    #[test]
    fn a_comment_too_far_away_is_none() {
        let gap = "    b();\n".repeat(REACH_LINES);
        assert_eq!(
            found(&format!("// Pairs.\n{gap}a.load(Ordering::Acquire)\n")).len(),
            1
        );
        assert!(
            found(&format!(
                "// Pairs.\n{}a.load(Ordering::Acquire)\n",
                &gap[9..]
            ))
            .is_empty()
        );
    }

    #[test]
    fn an_explained_ordering_is_not_seen() {
        assert!(found("a.load(Ordering::Relaxed); // A count, nothing hangs on it.\n").is_empty());
        assert!(found("// Pairs with the release in g.\na.load(Ordering::Acquire);\n").is_empty());
        assert!(found("#[cfg(test)]\nmod t { fn f() { a.load(Ordering::Acquire) } }\n").is_empty());
        assert!(found("let a = cmp::Ordering::Less; let b = State::Release;\n").is_empty());
    }
}
