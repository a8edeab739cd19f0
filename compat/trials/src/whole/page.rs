//! The page that people read: `docs/compat.md`.

use std::collections::{BTreeMap, BTreeSet};
use std::iter;

use cargo_evenkeel::mode::Mode;

use super::part::Part;
use super::record::{Count, Made, OfSuite, OfTokio, Outcome, Program, Record, Table};
use crate::graph::Counted;
use crate::unstable::Checked;

const HEAD: &str = "\
# Other people's code on Evenkeel

What came of running it on Evenkeel, and on Tokio; [compat](../compat/README.md) says how. A command
makes this page, and [compat.json](compat.json) for programs. The parts need not be made on one day:
`made` is the day, and git's name of the sources, with `+` if they had been changed.

```sh
cargo xtask compat                    # all of it: more than an hour
cargo xtask compat --only tokio/1.54  # a part; `--list` names them
```
";

/// The page about these parts.
pub(crate) fn of(all: &[Part], record: &Record) -> String {
    let parts: Vec<_> = all
        .iter()
        .map(|part| (part, record.parts.get(&part.to_string())))
        .collect();
    let within = |word: &str| -> Vec<_> {
        let parts = parts.iter().copied();
        parts.filter(|(part, _)| part.is_within(word)).collect()
    };
    [
        HEAD.to_owned(),
        of_graph(&within("graph")),
        of_tokio(&within("tokio")),
        of_unstable(&within("unstable")),
        of_suites(&within("suites")),
        of_programs(&within("programs")),
        of_services(&within("services")),
    ]
    .join("\n")
}

type Parts<'a> = [(&'a Part, Option<&'a Made>)];

/// The cells that stand in for those of a part, if it has none.
fn absent(made: Option<&Made>) -> Option<(String, String)> {
    match made {
        None => Some(("not run".to_owned(), String::new())),
        Some(made) => match &made.outcome {
            Outcome::Broken(why) => Some((format!("not finished: {why}"), stamp(made))),
            _ => None,
        },
    }
}

fn stamp(made: &Made) -> String {
    format!("{}, {}", made.day, made.revision)
}

fn of_graph(parts: &Parts<'_>) -> String {
    alone("A graph of crates", parts, |outcome| match outcome {
        Outcome::Graph(counted) => format!("\n{}", checked(counted)),
        _ => String::new(),
    })
}

fn checked(counted: &Counted) -> String {
    let names: Vec<_> = counted
        .on_tokio
        .iter()
        .map(|name| format!("`{name}`"))
        .collect();
    let sentence = format!(
        "`cargo evenkeel clippy` on a [graph](../compat/graph/Cargo.toml) of {} packages. Of those \
         that it names, {} depend on Tokio themselves:",
        counted.packages,
        names.len(),
    );
    format!("{}\n\n{}.\n", filled(&sentence), filled(&names.join(", ")))
}

/// In lines of 100 columns.
fn filled(text: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last_mut().expect("there is one from the start");
        if line.is_empty() {
            line.push_str(word);
        } else if line.len() + 1 + word.len() < 100 {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines.join("\n")
}

fn of_tokio(parts: &Parts<'_>) -> String {
    let columns = [
        "Tokio",
        "",
        "passed",
        "known to fail",
        "failed",
        "not run",
        "made",
    ];
    let mut rows = Vec::new();
    let mut reasons = Reasons::default();
    let mut failed = String::new();
    for &(part, made) in parts {
        let Part::Tokio(minor, mode) = part else {
            continue;
        };
        let mut cells = vec![minor.clone(), mode.says().to_owned()];
        if let Some(Outcome::Tokio(found)) = made.map(|made| &made.outcome) {
            cells.extend(counts(found));
            reasons.add(&found.known);
            reasons.add(&found.not_run);
            let lines = found.failed.iter();
            failed.extend(lines.map(|test| format!("- {minor}, {}: `{test}`\n", mode.says())));
        }
        rows.push(row(&columns, cells, made));
    }
    if !failed.is_empty() {
        failed = format!("\nFailed, and not known to fail:\n\n{failed}");
    }
    format!(
        "## Tokio's own tests\n\n{}{failed}{}",
        table(&columns, &rows),
        reasons.shown()
    )
}

fn of_unstable(parts: &Parts<'_>) -> String {
    alone(
        "Tokio's unstable interfaces",
        parts,
        |outcome| match outcome {
            Outcome::Unstable(all) => {
                let columns = ["Tokio", "the copy with `--cfg tokio_unstable`"];
                let says = |compiles| {
                    if compiles {
                        "compiles"
                    } else {
                        "does not compile"
                    }
                };
                let row = |it: &Checked| vec![it.version.clone(), says(it.compiles).to_owned()];
                let rows: Vec<_> = all.iter().map(row).collect();
                format!("\n{}", table(&columns, &rows))
            }
            _ => String::new(),
        },
    )
}

fn counts(found: &OfTokio) -> [String; 4] {
    let not_run = found.not_run.len() + found.ignored;
    [found.passed, found.known.len(), found.failed.len(), not_run].map(|count| count.to_string())
}

/// Why tests are known to fail, or are not run, and which.
#[derive(Default)]
struct Reasons<'a>(BTreeMap<&'a str, BTreeSet<&'a str>>);

impl<'a> Reasons<'a> {
    fn add(&mut self, known: &'a BTreeMap<String, String>) {
        for (test, why) in known {
            self.0.entry(why).or_default().insert(test);
        }
    }

    fn shown(&self) -> String {
        if self.0.is_empty() {
            return String::new();
        }
        let row =
            |(why, tests): (&&str, &BTreeSet<_>)| vec![tests.len().to_string(), (*why).into()];
        let rows: Vec<_> = self.0.iter().map(row).collect();
        let columns = ["tests", "why they are known to fail, or are not run"];
        format!("\n{}", table(&columns, &rows))
    }
}

/// The row of a part: these cells, or, if it has none, why there is nothing.
fn row(columns: &[&str], mut cells: Vec<String>, made: Option<&Made>) -> Vec<String> {
    let stamp = match absent(made) {
        Some((why, stamp)) => {
            cells.push(why);
            stamp
        }
        None => made.map(stamp).unwrap_or_default(),
    };
    cells.resize(columns.len() - 1, String::new());
    cells.push(stamp);
    cells
}

const SUITES: &str = "\
## Tests of crates that stand on Tokio

How many pass, and which fail or are missing on Evenkeel alone, without those that are known to with
current-thread runtimes on Evenkeel.

";

fn of_suites(parts: &Parts<'_>) -> String {
    let columns = [
        "crate",
        "on Evenkeel",
        "current-thread runtimes too",
        "on Tokio",
        "on Evenkeel alone",
        "without",
        "made",
    ];
    let mut rows = Vec::new();
    let mut reasons = Reasons::default();
    for &(part, made) in parts {
        let Part::Suite(name) = part else { continue };
        let mut cells = vec![name.clone()];
        if let Some(Outcome::Suite(found)) = made.map(|made| &made.outcome) {
            cells = of_suite(name, found);
            reasons.add(&found.known);
        }
        rows.push(row(&columns, cells, made));
    }
    format!("{SUITES}{}{}", table(&columns, &rows), reasons.shown())
}

fn of_suite(name: &str, found: &OfSuite) -> Vec<String> {
    let of = |count: Count| format!("{} of {}", count.passed, count.of);
    let lost = match found.lost.len() {
        0 => "none".to_owned(),
        _ => found.lost.join(", "),
    };
    vec![
        format!("{name} {}", found.version),
        of(found.on_evenkeel),
        of(found.forced),
        of(found.on_tokio),
        lost,
        found.without.clone().unwrap_or_default(),
    ]
}

fn of_programs(parts: &Parts<'_>) -> String {
    alone("Programs", parts, |outcome| match outcome {
        Outcome::Programs(all) => format!("\n{}", programs(all)),
        _ => String::new(),
    })
}

fn of_services(parts: &Parts<'_>) -> String {
    alone("Services under load", parts, |outcome| match outcome {
        Outcome::Services(tables) => tables.iter().map(shown).collect(),
        _ => String::new(),
    })
}

/// The section of a part that has one for itself.
fn alone(title: &str, parts: &Parts<'_>, show: impl Fn(&Outcome) -> String) -> String {
    let mut text = format!("## {title}\n");
    for &(_, made) in parts {
        text += &match (absent(made), made) {
            (None, Some(made)) => {
                let rest = if made.good {
                    ""
                } else {
                    "; not all is as it should be"
                };
                format!("\nMade {}{rest}.\n{}", stamp(made), show(&made.outcome))
            }
            (absent, _) => {
                let (why, stamp) = absent.unwrap_or_default();
                let made = if stamp.is_empty() { "" } else { "; made " };
                format!("\n({why}{made}{stamp})\n")
            }
        };
    }
    text
}

/// What a mode is, by its name.
fn says(name: &str) -> &str {
    let mode = Mode::ALL.into_iter().find(|mode| mode.name() == name);
    mode.map_or(name, |mode| mode.says())
}

/// A row for each program, a column for each mode.
fn programs(all: &[Program]) -> String {
    let unique = |of: fn(&Program) -> &str| {
        let mut found = Vec::new();
        for name in all.iter().map(of) {
            if !found.contains(&name) {
                found.push(name);
            }
        }
        found
    };
    let modes = unique(|of| &of.mode);
    let columns: Vec<_> = iter::once("program")
        .chain(modes.iter().copied().map(says))
        .chain(iter::once("what ran on Evenkeel"))
        .collect();
    let row = |name: &&str| {
        let cell = |mode: &&str| {
            let found = all
                .iter()
                .find(|of| of.program == *name && of.mode == *mode);
            found.map_or_else(String::new, answered)
        };
        iter::once((*name).to_owned())
            .chain(modes.iter().map(cell))
            .chain(iter::once(on_evenkeel(all, name)))
            .collect()
    };
    let rows: Vec<_> = unique(|of| &of.program).iter().map(row).collect();
    table(&columns, &rows)
}

/// Which processes of a program ran on Evenkeel, in either mode in which some are to.
fn on_evenkeel(all: &[Program], name: &str) -> String {
    let of = |mode: Mode| {
        let mut found = all.iter();
        let found = found.find(|of| of.program == name && of.mode == mode.name())?;
        let [on, off] = [&found.on_evenkeel, &found.on_tokio].map(Option::as_ref);
        let names = |names: &BTreeSet<String>| {
            let names: Vec<_> = names.iter().map(String::as_str).collect();
            names.join(", ")
        };
        Some(match (on?, off?) {
            (on, off) if off.is_empty() && !on.is_empty() => names(on),
            (on, off) if !on.is_empty() => format!("{}, not {}", names(on), names(off)),
            _ => "none".to_owned(),
        })
    };
    match (of(Mode::Routed), of(Mode::Forced)) {
        (Some(routed), Some(forced)) if routed == forced => routed,
        (Some(routed), Some(forced)) => format!("{routed}; current-thread too: {forced}"),
        _ => "not recorded".to_owned(),
    }
}

fn answered(program: &Program) -> String {
    match program {
        Program {
            answered_right: true,
            ..
        } => "answers right".to_owned(),
        Program {
            left_out: Some(why),
            ..
        } => format!("left out: {why}"),
        Program { error, .. } => format!("fails: {}", error.as_deref().unwrap_or_default()),
    }
}

fn shown(shown: &Table) -> String {
    let columns: Vec<_> = shown.columns.iter().map(String::as_str).collect();
    let mut text = String::new();
    if !shown.title.is_empty() {
        text += &format!("\n{}\n", filled(&format!("{}:", shown.title)));
    }
    text += &format!("\n{}", table(&columns, &shown.rows));
    for note in &shown.notes {
        text += &format!("\n{}\n", filled(note));
    }
    text
}

/// In Markdown.
fn table(columns: &[&str], rows: &[Vec<String>]) -> String {
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let head = line(columns.iter().map(|column| escaped(column)).collect());
    let rule = format!("|{}\n", "---|".repeat(columns.len()));
    let rows = rows
        .iter()
        .map(|row| line(row.iter().map(|cell| escaped(cell)).collect()));
    head + &rule + &rows.collect::<String>()
}

/// A cell may not end before its end, nor be taken for anything but text.
fn escaped(cell: &str) -> String {
    cell.replace('|', "\\|").replace('\n', " ")
}

#[cfg(test)]
mod tests;
