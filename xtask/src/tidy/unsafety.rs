//! Rules about `unsafe`: in few files, and each use says why it is sound.

use super::Finding;
use super::tree::{Tree, is_listed};

/// The only places where `unsafe` may stand; a trailing `/` means the whole folder. Keep this
/// list short: each entry is a file that has to be read in full by whoever trusts this runtime.
const ALLOWED: &[&str] = &[
    "crates/evenkeel/benches/vs_tokio/ring.rs",
    "crates/evenkeel/benches/vs_tokio/ring/buffers.rs",
    "crates/evenkeel/src/io/readiness/models.rs",
    "crates/evenkeel/src/sched/context.rs",
    "crates/evenkeel/src/sched/idle/models.rs",
    "crates/evenkeel/src/sched/injection.rs",
    "crates/evenkeel/src/sched/desk.rs",
    "crates/evenkeel/src/sched/run_queues.rs",
    "crates/evenkeel/src/sched/shared.rs",
    "crates/evenkeel/src/sched/injection/models.rs",
    "crates/evenkeel/src/sched/ring/models.rs",
    "crates/evenkeel/src/sched/tenure/models.rs",
    "crates/evenkeel/src/sched/task/cell.rs",
    "crates/evenkeel/src/sched/task/cell/models.rs",
    "crates/evenkeel/src/sync/tsan.rs",
    "crates/evenkeel/src/sys/",
    "crates/evenkeel/src/net/read.rs",
    "crates/evenkeel/tests/support/refusal.rs",
    "crates/evenkeel/tests/task_combinations.rs",
    "lab/src/sys.rs",
];

/// How many lines of a statement may stand between its comment and its `unsafe`.
const STATEMENT_LINES_MAX: usize = 4;

/// `unsafe` stands in the allowed files alone, tests included.
pub(super) fn only_where_allowed(tree: &Tree, findings: &mut Vec<Finding>) {
    for (file, tokens) in tree.rust() {
        if is_listed(&file.path, ALLOWED) {
            continue;
        }
        for at in tokens.runs(&["unsafe"]) {
            let advice = "`unsafe` is not allowed in this file; use what the allowed ones offer";
            findings.push(Finding::new(&file.path, tokens.all()[at].line, advice));
        }
    }
}

/// Each `unsafe` block and impl has a `// SAFETY:` comment right above its statement. Clippy has
/// the same rule, but does not look into the bodies of macros.
pub(super) fn explained(tree: &Tree, findings: &mut Vec<Finding>) {
    for (file, tokens) in tree.rust() {
        let text = file.text.as_deref().unwrap_or_default();
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        for at in tokens.runs(&["unsafe"]) {
            let line = tokens.all()[at].line;
            let is_use = ["{", "impl"].contains(&tokens.text(at + 1));
            if is_use && !has_safety_comment(&lines[..line - 1]) {
                let advice = "say why it is sound in a `// SAFETY:` comment right above";
                findings.push(Finding::new(&file.path, line, advice));
            }
        }
    }
}

/// Do the lines above a statement end in a comment with `SAFETY:`? The statement's own first
/// lines, and attributes, may stand between.
fn has_safety_comment(above: &[&str]) -> bool {
    let is_comment = |line: &str| line.starts_with("//");
    let mut rest = above;
    for _ in 0..=STATEMENT_LINES_MAX {
        match rest {
            [.., line] if is_comment(line) => break,
            // Another statement ended here, so what is above belongs to that one.
            [.., line] if line.is_empty() || line.ends_with(';') || *line == "}" => return false,
            [before @ .., _] => rest = before,
            [] => return false,
        }
    }
    rest.iter()
        .rev()
        .take_while(|l| is_comment(l))
        .any(|line| line.contains("SAFETY:"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(rule: super::super::Rule, path: &str, text: &str) -> Vec<usize> {
        let mut findings = Vec::new();
        rule(&Tree::of(&[(path, text)]), &mut findings);
        findings.into_iter().map(|finding| finding.line).collect()
    }

    const UNSAFE_BLOCK: &str = "//! A.\nfn f() {\n    unsafe { g() }\n}\n";

    #[test]
    fn unsafe_in_another_file_is_seen() {
        assert_eq!(
            found(
                only_where_allowed,
                "crates/evenkeel/src/class.rs",
                UNSAFE_BLOCK
            ),
            [3]
        );
        assert_eq!(
            found(only_where_allowed, "lab/src/serve/mod.rs", UNSAFE_BLOCK),
            [3]
        );
    }

    #[test]
    fn unsafe_in_an_allowed_file_is_not() {
        for path in [
            "crates/evenkeel/src/sched/task/cell.rs",
            "crates/evenkeel/src/sys/cpus.rs",
        ] {
            assert!(found(only_where_allowed, path, UNSAFE_BLOCK).is_empty());
        }
        assert!(
            found(
                only_where_allowed,
                "a.rs",
                "#![deny(unsafe_code)]\n// unsafe\n"
            )
            .is_empty()
        );
    }

    #[test]
    fn an_unexplained_use_is_seen() {
        for text in [
            "unsafe impl Send for A {}\n",
            "// Fine, trust me.\nunsafe { g() }\n",
            "// SAFETY: the first.\nunsafe { g() };\nunsafe { h() };\n",
            "m! {\n    unsafe { g() }\n}\n",
        ] {
            assert_eq!(found(explained, "a.rs", text).len(), 1, "{text}");
        }
    }

    #[test]
    fn an_explained_use_is_not() {
        for text in [
            "// SAFETY: A holds nothing.\nunsafe impl Send for A {}\n",
            "// SAFETY: one reason,\n// over two lines.\nlet a =\n    unsafe { g() };\n",
            "// SAFETY: the caller's.\n#[inline]\nunsafe { g() }\n",
            "unsafe fn f() {}\n",
        ] {
            assert!(found(explained, "a.rs", text).is_empty(), "{text}");
        }
    }
}
