//! The floors of the runtime and of the lab: which module may import which. The orders are the
//! tables in ARCHITECTURE.md, so that what is written there is what holds. Each name in them is a
//! module's.

use super::Finding;
use super::seams::named;
use super::tree::Tree;

/// Where the orders stand.
const MAP: &str = "ARCHITECTURE.md";
/// Where each applies, and below which heading it stands.
const HOUSES: [(&str, &str); 2] = [
    ("crates/evenkeel/src/", "## Floors"),
    ("lab/src/", "## Floors of the lab"),
];

/// The modules from the lowest to the highest. On a floor, what stands to the right is higher.
struct Floors<'a>(Vec<&'a str>);

impl<'a> Floors<'a> {
    /// Reads the code spans of each row's second column, below a heading.
    fn read(text: &'a str, heading: &str) -> Self {
        let table = text
            .lines()
            .skip_while(|line| *line != heading)
            .skip(1)
            .take_while(|line| !line.starts_with("## "));
        let cells = table.filter_map(|line| line.strip_prefix("| ")?.split(" | ").nth(1));
        let modules = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2));
        Self(modules.map(|name| name.trim_end_matches('/')).collect())
    }

    /// How high the module is that a path with slashes is in: the one with the longest name.
    fn height(&self, path: &str) -> Option<usize> {
        let is_within = |name: &str| {
            let rest = path.strip_prefix(name);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let names = self.0.iter().enumerate();
        names
            .filter(|(_, name)| is_within(name))
            .max_by_key(|(_, name)| name.len())
            .map(|(height, _)| height)
    }
}

/// Imports point down.
pub(super) fn point_down(tree: &Tree, findings: &mut Vec<Finding>) {
    let Some(map) = tree.get(MAP).and_then(|file| file.text.as_deref()) else {
        return;
    };
    for (scope, heading) in HOUSES {
        let floors = Floors::read(map, heading);
        if floors.0.is_empty() {
            findings.push(Finding::new(MAP, 0, format!("no table below `{heading}`")));
        }
        for (file, tokens) in tree.rust().filter(|(file, _)| !file.is_test) {
            if let Some(below) = file.path.strip_prefix(scope) {
                floors.check((&file.path, below), &named(tokens), findings);
            }
        }
    }
}

/// Every name in the tables is a module's.
pub(super) fn name_modules(tree: &Tree, findings: &mut Vec<Finding>) {
    let Some(map) = tree.get(MAP).and_then(|file| file.text.as_deref()) else {
        return;
    };
    for (scope, heading) in HOUSES {
        for name in Floors::read(map, heading).0 {
            let files = [".rs", "/mod.rs"].map(|end| format!("{scope}{name}{end}"));
            if files.iter().all(|file| tree.get(file).is_none()) {
                let message = format!("`{name}` names no module of {scope}");
                findings.push(Finding::new(MAP, 0, message));
            }
        }
    }
}

impl Floors<'_> {
    /// What a file names, by its path in the tree and in its package, is not above it.
    fn check(
        &self,
        (file, below): (&str, &str),
        named: &[(usize, String)],
        findings: &mut Vec<Finding>,
    ) {
        let Some(own) = self.height(below.trim_end_matches(".rs")) else {
            let message = format!("on no floor of {MAP}");
            findings.push(Finding::new(file, 0, message));
            return;
        };
        for (line, path) in named {
            let Some(path) = from_root(path, below) else {
                continue;
            };
            let message = match self.height(&path) {
                Some(other) if other <= own => continue,
                Some(other) => {
                    let (here, there) = (self.0[own], self.0[other]);
                    format!("`{there}` is above `{here}`; imports point down ({MAP})")
                }
                None => format!("`{path}` is on no floor; name the module it is of"),
            };
            findings.push(Finding::new(file, *line, message));
        }
    }
}

/// A path within this package, with slashes and from its root; `None` for any other. What is
/// relative is so to the module of the file.
fn from_root(path: &str, file: &str) -> Option<String> {
    if let Some(path) = path.strip_prefix("crate::") {
        return Some(path.replace("::", "/"));
    }
    let mut rest = path.strip_prefix("super::")?;
    let module = file.trim_end_matches(".rs").trim_end_matches("/mod");
    let mut above = module.rsplit_once('/')?.0;
    while let Some(further) = rest.strip_prefix("super::") {
        (rest, above) = (further, above.rsplit_once('/')?.0);
    }
    Some(format!("{above}/{}", rest.replace("::", "/")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "# A\n\n## Floors\n\n| floor | modules | what |\n|---|---|---|\n\
        | 0 | `sync`, `sys` | `a` |\n| 1 | `sched/task`, `io` | b |\n| 2 | `sched` | c |\n\n\
        ## Other\n\n| 3 | `net` | not this |\n\n\
        ## Floors of the lab\n\n| floor | modules | what |\n|---|---|---|\n\
        | 0 | `sys` | `a` |\n| 1 | `trial/lab`, `trial/grid` | b |\n| 2 | `cli` | c |\n";

    fn found(path: &str, text: &str) -> Vec<String> {
        found_in(&format!("crates/evenkeel/src/{path}"), text)
    }

    fn found_in(path: &str, text: &str) -> Vec<String> {
        let mut findings = Vec::new();
        point_down(&Tree::of(&[(MAP, TABLE), (path, text)]), &mut findings);
        findings.into_iter().map(|found| found.message).collect()
    }

    #[test]
    fn what_points_up_is_seen() {
        for (path, text) in [
            ("sync/mod.rs", "use crate::sched::shared::Shared;"),
            ("sched/task/cell.rs", "use crate::sched::injection::Link;"),
            ("io/driver.rs", "fn f() { crate::sched::a() }"),
            ("sync/mod.rs", "use crate::{sys, sched::{self, task}};"),
            // On one floor, from left to right.
            ("sync/mod.rs", "use crate::sys::cpus;"),
            ("sched/task/cell.rs", "use super::super::shared::Shared;"),
            ("sched/task/mod.rs", "use super::shared::Shared;"),
            ("io/driver.rs", "use crate::spawn;"),
            ("io/driver.rs", "use crate::net::Tcp;"),
            ("net/mod.rs", ""),
        ] {
            assert!(!found(path, text).is_empty(), "{path}: {text}");
        }
    }

    #[test]
    fn what_points_down_is_not() {
        for (path, text) in [
            (
                "sched/shared.rs",
                "use crate::sched::task::cell::Header;\nuse crate::io::driver;",
            ),
            (
                "sched/shared.rs",
                "use crate::sched::idle::Idle;\nuse super::idle::Idle;",
            ),
            ("sched/task/cell.rs", "use super::state::State;"),
            ("sys/cpus.rs", "use crate::sync::Arc;\nuse super::thread;"),
            ("io/driver.rs", "//! See [`crate::sched`].\nuse std::io;"),
            (
                "io/a.rs",
                "#[cfg(test)]\nmod tests { use crate::sched::shared::Shared; }",
            ),
        ] {
            assert_eq!(found(path, text), [""; 0], "{path}: {text}");
        }
    }

    #[test]
    fn the_lab_has_floors_of_its_own() {
        for (path, text, seen) in [
            ("trial/lab.rs", "use crate::cli::RunArgs;", 1),
            ("trial/lab.rs", "use super::grid::Grid;", 1),
            ("sys.rs", "fn f() { crate::trial::lab::open() }", 1),
            // On a floor of the runtime, and on none here.
            ("net/mod.rs", "", 1),
            ("trial/lab.rs", "use crate::sched::a;", 1),
            (
                "cli.rs",
                "use crate::trial::{grid::Grid, lab::Lab};\nuse crate::sys;",
                0,
            ),
            (
                "trial/grid.rs",
                "use super::lab::Lab;\nuse evenkeel::net::TcpStream;",
                0,
            ),
        ] {
            let findings = found_in(&format!("lab/src/{path}"), text);
            assert_eq!(findings.len(), seen, "{path}: {text}: {findings:?}");
        }
        // The runtime's are as they were.
        assert!(found_in("crates/evenkeel/src/trial/lab.rs", "").len() == 1);
    }

    #[test]
    fn a_name_without_a_module_is_seen() {
        let nameless = |left_out: &str| {
            let runtime = ["sync/mod.rs", "sys.rs", "sched/task/mod.rs", "io.rs"];
            let runtime = runtime.iter().chain(&["sched/mod.rs"]);
            let runtime = runtime.map(|path| format!("crates/evenkeel/src/{path}"));
            let lab = ["sys.rs", "trial/lab.rs", "trial/grid.rs", "cli.rs"];
            let lab = lab.map(|path| format!("lab/src/{path}"));
            let there = runtime.chain(lab).filter(|path| path != left_out);
            let there: Vec<String> = there.collect();
            let mut files: Vec<(&str, &str)> = there.iter().map(|p| (p.as_str(), "")).collect();
            files.push((MAP, TABLE));
            let mut findings = Vec::new();
            name_modules(&Tree::of(&files), &mut findings);
            let messages = findings.into_iter().map(|found| found.message);
            messages.collect::<Vec<String>>()
        };
        assert_eq!(nameless(""), [""; 0]);
        for (path, finding) in [
            (
                "crates/evenkeel/src/sched/task/mod.rs",
                "`sched/task` names no module of crates/evenkeel/src/",
            ),
            // The runtime has one of this name.
            ("lab/src/sys.rs", "`sys` names no module of lab/src/"),
            (
                "lab/src/trial/grid.rs",
                "`trial/grid` names no module of lab/src/",
            ),
        ] {
            assert_eq!(nameless(path), [finding]);
        }
    }

    #[test]
    fn a_missing_table_is_seen() {
        for (map, missing) in [("# A\n", 2), ("## Floors\n\n| 0 | `a` | b |\n", 1)] {
            let mut findings = Vec::new();
            point_down(&Tree::of(&[(MAP, map)]), &mut findings);
            assert_eq!(findings.len(), missing, "{map}");
        }
    }
}
