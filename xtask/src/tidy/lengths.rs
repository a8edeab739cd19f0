//! How long files may be. How long functions may be, clippy knows.

use super::Finding;
use super::tokens::Tokens;
use super::tree::Tree;

/// The longest a file may be, its tests not counted. Aim at half of it.
const FILE_LINES_MAX: usize = 800;

/// No file outside tests is longer than the limit; its own tests do not count.
pub(super) fn files(tree: &Tree, findings: &mut Vec<Finding>) {
    for (file, tokens) in tree.rust().filter(|(file, _)| !file.is_test) {
        let total = file.text.as_deref().unwrap_or_default().lines().count();
        let lines = total - test_lines(tokens);
        if lines > FILE_LINES_MAX {
            let message =
                format!("{lines} lines without tests; at most {FILE_LINES_MAX}: split it");
            findings.push(Finding::new(&file.path, 0, message));
        }
    }
}

/// How many lines the test items of a file take.
fn test_lines(tokens: &Tokens) -> usize {
    let mut count = 0;
    for run in tokens.all().chunk_by(|a, b| a.in_test == b.in_test) {
        if let ([first, ..], [.., last]) = (run, run)
            && first.in_test
        {
            count += last.line - first.line + 1;
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_file_is_seen() {
        let code = "const A: u8 = 0;\n".repeat(FILE_LINES_MAX);
        let tests = format!(
            "#[cfg(test)]\nmod tests {{\n{}}}\n",
            "fn a() {}\n".repeat(500)
        );
        let count = |text: &str| {
            let mut findings = Vec::new();
            files(&Tree::of(&[("a.rs", text)]), &mut findings);
            findings.len()
        };
        assert_eq!(count(&format!("{code}{tests}")), 0);
        assert_eq!(count(&format!("{code}const B: u8 = 0;\n{tests}")), 1);
    }
}
