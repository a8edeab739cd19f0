//! How many verdicts hold, and which do not: the end of the report on a terminal, and the first
//! thing on the page.

use serde::Serialize;

use super::{Cell, Report, Table};

/// One figure against what it has to be, in words.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Verdict {
    /// Of which row or setting.
    pub of: String,
    /// What the figure is.
    pub what: String,
    /// The figure, or why there is none.
    pub found: Cell,
    /// What it has to be.
    pub reach: String,
    pub outcome: Outcome,
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Outcome {
    Holds,
    Missed,
    /// There is no figure.
    NotSaid,
}

impl Outcome {
    /// The word that tables have for it.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Outcome::Holds => "holds",
            Outcome::Missed => "missed",
            Outcome::NotSaid => "not said",
        }
    }
}

impl Verdict {
    /// As a row: of what, the figure, what was found, what it has to be, and what came of it.
    pub(crate) fn cells(&self) -> Vec<Cell> {
        let [of, what, reach] =
            [&self.of, &self.what, &self.reach].map(|text| text.as_str().into());
        vec![
            of,
            what,
            self.found.clone(),
            reach,
            self.outcome.word().into(),
        ]
    }
}

/// All verdicts of a report, counted.
pub(super) struct Summary<'a> {
    holds: usize,
    /// With the number and the name of its experiment.
    missed: Vec<(usize, &'a str, &'a Verdict)>,
    /// How many of an experiment's verdicts have no figure.
    not_said: Vec<(&'a str, usize)>,
    /// Experiments that judge nothing.
    without: Vec<&'a str>,
    /// Whether the rounds were too short for a verdict to be final.
    rough: bool,
    /// The only experiment, if it is the only one.
    only: Option<&'a str>,
}

impl<'a> Summary<'a> {
    pub(super) fn of(report: &'a Report) -> Self {
        let mut summary = Summary {
            holds: 0,
            missed: Vec::new(),
            not_said: Vec::new(),
            without: Vec::new(),
            rough: report.rough.is_some(),
            only: match &report.experiments[..] {
                [only] => Some(&only.name),
                _ => None,
            },
        };
        for (index, experiment) in report.experiments.iter().enumerate() {
            let name = experiment.name.as_str();
            let mut not_said = 0;
            for verdict in &experiment.verdicts {
                match verdict.outcome {
                    Outcome::Holds => summary.holds += 1,
                    Outcome::Missed => summary.missed.push((index + 1, name, verdict)),
                    Outcome::NotSaid => not_said += 1,
                }
            }
            if not_said > 0 {
                summary.not_said.push((name, not_said));
            }
            if experiment.verdicts.is_empty() {
                summary.without.push(name);
            }
        }
        summary
    }

    /// How many there are, and how many hold; nothing where nothing was judged.
    pub(super) fn count(&self) -> Option<String> {
        let not_said: usize = self.not_said.iter().map(|(_, count)| count).sum();
        let all = self.holds + self.missed.len() + not_said;
        if all == 0 {
            return None;
        }
        let missed = match self.missed.len() {
            0 => "none is missed".to_owned(),
            1 => "1 is missed".to_owned(),
            missed => format!("{missed} are missed"),
        };
        let hold = if self.holds == 1 { "holds" } else { "hold" };
        let mut words = format!("{} of {all} verdicts {hold}, {missed}", self.holds);
        if not_said > 0 {
            let have = if not_said == 1 { "has" } else { "have" };
            words.push_str(&format!(", {not_said} {have} no figure"));
        }
        words.push('.');
        Some(words)
    }

    /// Those that do not hold, in the order of the report: a line for each.
    pub(super) fn missed_lines(&self) -> Vec<String> {
        let line = |(_, name, verdict): &(usize, &str, &Verdict)| {
            let Verdict {
                of, what, reach, ..
            } = verdict;
            let found = match &verdict.found {
                Cell::Text(found) => found,
                _ => "—",
            };
            format!("{name}: {of}: {what} {found}, to be {reach}")
        };
        self.missed.iter().map(line).collect()
    }

    /// The same as a table.
    pub(super) fn missed_table(&self) -> Table {
        let row = |(number, name, verdict): &(usize, &str, &Verdict)| {
            let mut cells = vec![Cell::Text(format!("{number} {name}"))];
            cells.extend(verdict.cells().into_iter().take(4));
            cells
        };
        let columns = ["experiment", "of", "figure", "found", "to be reached"];
        let rows = self.missed.iter().map(row).collect();
        Table::new("Verdicts that are missed", &columns, rows)
    }

    /// Where figures are missing, and where nothing is judged.
    pub(super) fn silent(&self) -> Vec<String> {
        let mut words = Vec::new();
        if !self.not_said.is_empty() {
            let of = |(name, count): &(&str, usize)| format!("{count} of {name}");
            let of: Vec<String> = self.not_said.iter().map(of).collect();
            words.push(format!(
                "Without a figure are {}: the verdicts' tables say why.",
                of.join(", ")
            ));
        }
        if !self.without.is_empty() {
            words.push(format!(
                "Nothing is judged in {}: read the tables.",
                self.without.join(", ")
            ));
        }
        words
    }

    /// That short rounds decide nothing, if they were short.
    pub(super) fn caution(&self) -> Option<String> {
        let judged = self.count().is_some();
        (self.rough && judged).then(|| {
            "Verdicts of rounds this short tip with the machine, either way, from run to run. The \
             firm answer is given by the following, for as long as its `--help` says:"
                .to_owned()
        })
    }

    /// The commands that give it: of each experiment that misses one, else of any.
    pub(super) fn commands(&self) -> Vec<String> {
        if self.caution().is_none() {
            return Vec::new();
        }
        let mut names: Vec<&str> = self.missed.iter().map(|(_, name, _)| *name).collect();
        names.dedup();
        if names.is_empty() {
            names.push(self.only.unwrap_or("NAME"));
        }
        let command =
            |name: &str| format!("cargo run --release -p evenkeel-lab -- {name} --seconds 10");
        names.into_iter().map(command).collect()
    }
}
