//! `cargo xtask tidy`: the house rules that no other tool knows. The compiler, clippy, rustfmt,
//! git, typos, rumdl and cargo-deny hold the rest.
//!
//! The tree is read once; every rule is a pure function from it to findings, so that each is
//! tested on a small tree made of strings, with a failure it has to see.

mod breaks;
mod changelog;
mod floors;
mod lengths;
mod lines;
mod manifest;
mod models;
mod modules;
mod orderings;
mod seams;
mod tokens;
mod tree;

use std::fmt;

use anyhow::{Result, ensure};

use crate::cargo;
use tree::Tree;

/// One breach of one rule.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Finding {
    path: String,
    /// Counted from 1; 0 when the whole file is meant.
    line: usize,
    message: String,
}

impl Finding {
    fn new(path: &str, line: usize, message: impl Into<String>) -> Self {
        Self {
            path: path.to_owned(),
            line,
            message: message.into(),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.message)
    }
}

/// Looks at the whole tree and adds what it finds.
type Rule = fn(&Tree, &mut Vec<Finding>);

const RULES: &[Rule] = &[
    lines::size,
    lines::characters,
    lines::columns,
    lines::forbidden_words,
    seams::only_through_seams,
    floors::point_down,
    floors::name_modules,
    orderings::explained,
    models::unlimited,
    lengths::files,
    modules::documented,
    modules::reachable,
    manifest::dependencies_have_reasons,
    changelog::shape,
    breaks::apply,
];

/// Checks the whole tree; prints every finding before it fails.
pub(crate) fn run() -> Result<()> {
    let tree = Tree::read(cargo::root())?;
    let findings = check(&tree);
    for finding in &findings {
        println!("{finding}");
    }
    ensure!(
        findings.is_empty(),
        "tidy found {} things to mend",
        findings.len()
    );
    println!("{} rules hold in {} files", RULES.len(), tree.files().len());
    Ok(())
}

fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for rule in RULES {
        rule(tree, &mut findings);
    }
    findings.sort();
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_project_is_tidy() {
        let findings = check(&Tree::read(cargo::root()).unwrap());
        let shown: Vec<String> = findings.iter().map(Finding::to_string).collect();
        assert!(shown.is_empty(), "\n{}\n", shown.join("\n"));
    }
}
