//! Model tests are explored to their end.

use super::Finding;
use super::tree::Tree;

/// Fields and setters of loom's builder by which a model ends early and yet passes.
const SILENT_LIMITS: [&str; 3] = ["max_duration", "max_permutations", "checkpoint_file"];

/// No model sets a limit at which loom stops without a word.
pub(super) fn unlimited(tree: &Tree, findings: &mut Vec<Finding>) {
    for (file, tokens) in tree.rust() {
        if tokens.runs(&["loom"]).next().is_none() {
            continue;
        }
        for limit in SILENT_LIMITS {
            for at in tokens.runs(&[".", limit]) {
                let message = format!("`{limit}` ends a model early, and the test passes");
                findings.push(Finding::new(&file.path, tokens.all()[at].line, message));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> usize {
        let mut findings = Vec::new();
        unlimited(&Tree::of(&[("a/src/models.rs", text)]), &mut findings);
        findings.len()
    }

    #[test]
    fn a_limited_model_is_seen() {
        let text = "let mut b = loom::model::Builder::new();\nb.max_duration = Some(d);\n";
        assert_eq!(found(text), 1);
        assert_eq!(
            found("loom::model::Builder::new().checkpoint_file(\"a\")"),
            1
        );
    }

    #[test]
    fn a_bounded_model_is_not() {
        let text = "let mut b = loom::model::Builder::new();\nb.preemption_bound = Some(3);\n";
        assert_eq!(found(text), 0);
    }
}
