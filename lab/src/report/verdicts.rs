//! How many verdicts hold, and which do not: the end of the report on a terminal, and the first
//! thing on the page.

use serde::Serialize;

use super::{Cell, Experiment, Report, Table};

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
        let word = self.outcome.word().into();
        vec![of, what, self.found.clone(), reach, word]
    }
}

/// All verdicts of a report.
pub(super) struct Summary<'a>(&'a Report);

/// A verdict, with the number and the name of its experiment.
type Numbered<'a> = (usize, &'a str, &'a Verdict);

impl<'a> Summary<'a> {
    pub(super) fn of(report: &'a Report) -> Self {
        Summary(report)
    }

    /// Those that came out so, in the order of the report.
    fn with(&self, outcome: Outcome) -> impl Iterator<Item = Numbered<'a>> {
        let experiments = (1..).zip(&self.0.experiments);
        let all = experiments.flat_map(|(number, experiment)| {
            let verdicts = experiment.verdicts.iter();
            verdicts.map(move |verdict| (number, experiment.name.as_str(), verdict))
        });
        all.filter(move |(.., verdict)| verdict.outcome == outcome)
    }

    /// How many there are, and how many hold; nothing where nothing was judged.
    pub(super) fn count(&self) -> Option<String> {
        let counted = [Outcome::Holds, Outcome::Missed, Outcome::NotSaid];
        let [holds, missed, not_said] = counted.map(|outcome| self.with(outcome).count());
        let all = holds + missed + not_said;
        let hold = if holds == 1 { "holds" } else { "hold" };
        let missed = match missed {
            0 => "none is missed".to_owned(),
            1 => "1 is missed".to_owned(),
            missed => format!("{missed} are missed"),
        };
        let silent = match not_said {
            0 => String::new(),
            1 => ", 1 has no figure".to_owned(),
            not_said => format!(", {not_said} have no figure"),
        };
        (all > 0).then(|| format!("{holds} of {all} verdicts {hold}, {missed}{silent}."))
    }

    /// Those that do not hold: a line for each.
    pub(super) fn missed_lines(&self) -> Vec<String> {
        let line = |(_, name, verdict): Numbered<'_>| {
            let found = match &verdict.found {
                Cell::Text(found) => found,
                _ => "—",
            };
            let (of, what, reach) = (&verdict.of, &verdict.what, &verdict.reach);
            format!("{name}: {of}: {what} {found}, to be {reach}")
        };
        self.with(Outcome::Missed).map(line).collect()
    }

    /// The same as a table.
    pub(super) fn missed_table(&self) -> Table {
        let row = |(number, name, verdict): Numbered<'_>| {
            let mut cells = vec![Cell::Text(format!("{number} {name}"))];
            cells.extend(verdict.cells().into_iter().take(4));
            cells
        };
        let columns = ["experiment", "of", "figure", "found", "to be reached"];
        let rows = self.with(Outcome::Missed).map(row);
        Table::new("Verdicts that are missed", columns, rows)
    }

    /// Where figures are missing, and where nothing is judged.
    pub(super) fn silent(&self) -> Vec<String> {
        let (mut not_said, mut without) = (Vec::new(), Vec::new());
        for Experiment { name, verdicts, .. } in &self.0.experiments {
            let silent = verdicts.iter().filter(|of| of.outcome == Outcome::NotSaid);
            match silent.count() {
                _ if verdicts.is_empty() => without.push(name.clone()),
                0 => {}
                count => not_said.push(format!("{count} of {name}")),
            }
        }
        let listed = |names: Vec<String>, before: &str, after: &str| {
            (!names.is_empty()).then(|| format!("{before} {}{after}", names.join(", ")))
        };
        let why = ": the verdicts' tables say why.";
        let not_said = listed(not_said, "Without a figure are", why);
        let without = listed(without, "Nothing is judged in", ": read the tables.");
        not_said.into_iter().chain(without).collect()
    }

    /// That short rounds decide nothing, if they were short.
    pub(super) fn caution(&self) -> Option<&'static str> {
        let judged = self.count().is_some();
        (self.0.rough.is_some() && judged).then_some(
            "Verdicts of rounds this short tip with the machine, either way, from run to run. The \
             firm answer is given by the following, for as long as its `--help` says:",
        )
    }

    /// The commands that give it: of each experiment that misses one, else of any.
    pub(super) fn commands(&self) -> Vec<String> {
        if self.caution().is_none() {
            return Vec::new();
        }
        let missed = self.with(Outcome::Missed);
        let mut names: Vec<&str> = missed.map(|(_, name, _)| name).collect();
        names.dedup();
        if names.is_empty() {
            names.push(match &self.0.experiments[..] {
                [only] => &only.name,
                _ => "NAME",
            });
        }
        let command =
            |name: &str| format!("cargo run --release -p evenkeel-lab -- {name} --seconds 10");
        names.into_iter().map(command).collect()
    }
}
