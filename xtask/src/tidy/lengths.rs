//! How long functions and files may be.

use super::Finding;
use super::tokens::{Tokens, group_end};
use super::tree::Tree;

/// The longest a function may be, from its `fn` to its closing brace.
const FUNCTION_LINES_MAX: usize = 70;

/// The longest a file may be, its tests not counted. Aim at half of it.
const FILE_LINES_MAX: usize = 800;

/// Functions longer than the limit, with their length: (file, function, lines). This list only
/// shrinks: a function may not grow beyond its entry, and one that got shorter lowers it.
const LONG_FUNCTIONS: &[(&str, &str, usize)] = &[];

/// No function outside tests is longer than the limit.
pub(super) fn functions(tree: &Tree, findings: &mut Vec<Finding>) {
    check_functions(tree, LONG_FUNCTIONS, findings);
}

fn check_functions(tree: &Tree, known: &[(&str, &str, usize)], findings: &mut Vec<Finding>) {
    let mut met = vec![false; known.len()];
    for (file, tokens) in tree.rust().filter(|(file, _)| !file.is_test) {
        for function in read_functions(tokens) {
            let entry = known
                .iter()
                .position(|e| e.0 == file.path && e.1 == function.name);
            let allowed = entry.map_or(FUNCTION_LINES_MAX, |entry| known[entry].2);
            if let Some(entry) = entry {
                met[entry] = true;
            }
            let Function { name, line, lines } = function;
            let message = if lines > allowed {
                format!("`{name}` has {lines} lines; at most {allowed}: give a part a name")
            } else if entry.is_some() && lines <= FUNCTION_LINES_MAX {
                format!("`{name}` is short enough now: take it off LONG_FUNCTIONS")
            } else if entry.is_some() && lines < allowed {
                format!("`{name}` has {lines} lines now: lower its entry in LONG_FUNCTIONS")
            } else {
                continue;
            };
            findings.push(Finding::new(&file.path, line, message));
        }
    }
    for (entry, _) in known.iter().zip(met).filter(|(_, met)| !met) {
        let message = format!("`{}` is gone: take it off LONG_FUNCTIONS", entry.1);
        findings.push(Finding::new(entry.0, 0, message));
    }
}

struct Function {
    name: String,
    line: usize,
    lines: usize,
}

/// All functions with a body outside tests, those in macros included.
fn read_functions(tokens: &Tokens) -> Vec<Function> {
    let all = tokens.all();
    let mut functions = Vec::new();
    for at in tokens.runs(&["fn"]).filter(|at| !all[*at].in_test) {
        let name = tokens.text(at + 1);
        // `fn(u8)` is a type.
        if name == "(" || name == "$" {
            continue;
        }
        let mut index = at + 2;
        while index < all.len() {
            match tokens.text(index) {
                "(" | "[" => index = group_end(all, index),
                "{" => {
                    let last = &all[group_end(all, index) - 1];
                    let (line, lines) = (all[at].line, last.line - all[at].line + 1);
                    functions.push(Function {
                        name: name.to_owned(),
                        line,
                        lines,
                    });
                    break;
                }
                ";" => break,
                _ => index += 1,
            }
        }
    }
    functions
}

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

    /// A function of so many lines.
    fn function(lines: usize) -> String {
        format!(
            "fn f()\nwhere\n    A: B,\n{{\n{}}}\n",
            "    g();\n".repeat(lines - 5)
        )
    }

    fn found(text: &str, known: &[(&str, &str, usize)]) -> Vec<String> {
        let mut findings = Vec::new();
        check_functions(&Tree::of(&[("a.rs", text)]), known, &mut findings);
        findings
            .into_iter()
            .map(|finding| finding.message)
            .collect()
    }

    #[test]
    fn a_long_function_is_seen() {
        assert!(found(&function(FUNCTION_LINES_MAX), &[]).is_empty());
        assert_eq!(found(&function(FUNCTION_LINES_MAX + 1), &[]).len(), 1);
        assert_eq!(found(&format!("m! {{ {} }}", function(80)), &[]).len(), 1);
        assert!(found(&format!("#[test]\n{}", function(80)), &[]).is_empty());
    }

    #[test]
    fn a_known_long_function_may_only_shrink() {
        let known = [("a.rs", "f", 90)];
        assert!(found(&function(90), &known).is_empty());
        assert!(found(&function(91), &known)[0].contains("at most 90"));
        assert!(found(&function(80), &known)[0].contains("lower its entry"));
        assert!(found(&function(70), &known)[0].contains("take it off"));
        assert!(found("fn other() {}\n", &known)[0].contains("is gone"));
    }

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
