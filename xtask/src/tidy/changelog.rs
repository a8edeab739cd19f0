//! The shape of CHANGELOG.md: newest first, dated, under few headings.

use super::Finding;
use super::tree::Tree;

const PATH: &str = "CHANGELOG.md";
const UNRELEASED: &str = "Unreleased";
const KINDS: [&str; 5] = ["Added", "Changed", "Fixed", "Removed", "Security"];

/// `# Changelog`, then `## Unreleased`, then `## 1.2.3 - 2026-11-21` for each release from the
/// newest on; under each, `### ` headings of known kinds with a list, and nothing twice.
pub(super) fn shape(tree: &Tree, findings: &mut Vec<Finding>) {
    let Some(file) = tree.get(PATH) else {
        findings.push(Finding::new(PATH, 0, "the file is missing"));
        return;
    };
    let mut complain = |line, message: String| findings.push(Finding::new(PATH, line, message));
    let mut lines = file.lines().filter(|(_, line)| !line.is_empty());
    if lines.next().is_none_or(|(_, line)| line != "# Changelog") {
        complain(1, "the title is `# Changelog`".to_owned());
    }
    let mut releases: Vec<&str> = Vec::new();
    let mut kinds: Vec<&str> = Vec::new();
    for (number, line) in lines {
        if let Some(release) = line.strip_prefix("## ") {
            if releases.is_empty() && release != UNRELEASED {
                complain(number, format!("the first section is `## {UNRELEASED}`"));
            }
            if release != UNRELEASED && version(release).is_none() {
                complain(number, "a release is `## 1.2.3 - 2026-11-21`".to_owned());
            }
            let before = releases.last().and_then(|before| version(before));
            if before.is_some() && version(release) >= before {
                complain(number, "the newest release comes first".to_owned());
            }
            releases.push(release);
            kinds.clear();
        } else if let Some(kind) = line.strip_prefix("### ") {
            if !KINDS.contains(&kind) || kinds.contains(&kind) {
                complain(
                    number,
                    format!("the headings are {}, each once", KINDS.join(", ")),
                );
            }
            kinds.push(kind);
        } else if line.starts_with("- ") && kinds.is_empty() {
            complain(number, "a change stands under a `### ` heading".to_owned());
        }
    }
    if releases.is_empty() {
        complain(0, format!("the section `## {UNRELEASED}` is missing"));
    }
}

/// The numbers of a release's heading, if it has the right shape.
fn version(heading: &str) -> Option<Vec<u32>> {
    let (version, date) = heading.split_once(" - ")?;
    let numbers = |text: &str, separator: char, count: usize| {
        let numbers: Option<Vec<u32>> = text.split(separator).map(|n| n.parse().ok()).collect();
        numbers.filter(|numbers| numbers.len() == count)
    };
    let date_shape = date.len() == 10 && numbers(date, '-', 3).is_some();
    numbers(version, '.', 3).filter(|_| date_shape)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<usize> {
        let mut findings = Vec::new();
        shape(&Tree::of(&[(PATH, text)]), &mut findings);
        findings.into_iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn a_good_changelog_passes() {
        let text = "# Changelog\n\nAbout.\n\n## Unreleased\n\n### Added\n\n- A.\n\n\
                    ## 0.10.0 - 2027-01-02\n\n### Added\n\n- B.\n\n## 0.9.0 - 2026-12-01\n";
        assert!(found(text).is_empty());
    }

    #[test]
    fn each_breach_is_seen() {
        assert_eq!(found("# Changes\n## Unreleased\n"), [1]);
        assert_eq!(found("# Changelog\n"), [0]);
        assert_eq!(found("# Changelog\n## 0.1.0 - 2026-12-01\n"), [2]);
        assert_eq!(
            found("# Changelog\n## Unreleased\n## 0.1.0 (2026-12-01)\n"),
            [3]
        );
        assert_eq!(found("# Changelog\n## Unreleased\n### News\n"), [3]);
        assert_eq!(found("# Changelog\n## Unreleased\n- A.\n"), [3]);
        let order = "# Changelog\n## Unreleased\n## 0.9.0 - 2026-12-01\n## 0.10.0 - 2027-01-02\n";
        assert_eq!(found(order), [4]);
    }

    #[test]
    fn a_missing_changelog_is_seen() {
        let mut findings = Vec::new();
        shape(&Tree::of(&[]), &mut findings);
        assert_eq!(findings.len(), 1);
    }
}
