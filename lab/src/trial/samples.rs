//! Measurements: every case in every round, and what they come to over the rounds.

use std::collections::BTreeSet;

use evenkeel_measure::rounds::order;
use serde_json::{Map, Value, json};

use super::figures::{self, Column, Figured};
use super::lab::Lab;
use crate::error::Result;
use crate::report::{Cell, Lists, Plot, Table};

/// One measurement: of which case, and what was found or why nothing was.
pub(crate) struct Sample<K, F> {
    pub(crate) key: K,
    pub(crate) round: u32,
    pub(crate) found: Result<F, String>,
}

/// All measurements of some cases, each known by its key.
pub(crate) struct Samples<K, F>(pub(crate) Vec<Sample<K, F>>);

impl<K: Copy + PartialEq, F> Samples<K, F> {
    /// Measures every case in every round, each round in another order, and tells these columns of
    /// each as it goes. One that fails is reported, and stops no other.
    pub(crate) fn measure(
        lab: &Lab,
        rounds: u32,
        keys: impl IntoIterator<Item = K>,
        name: impl Fn(K) -> String,
        told: &[Column<F>],
        measure: impl Fn(K) -> Result<F>,
    ) -> Self {
        let words = |found: &F| {
            let columns = told.iter().filter_map(|column| column.words(found));
            columns.collect::<Vec<_>>().join(", ")
        };
        let asked: Vec<K> = keys
            .into_iter()
            .filter(|key| lab.asks_for(&name(*key)))
            .collect();
        let mut samples = Vec::new();
        for round in 0..rounds {
            // None always follows the same other one, which may leave the machine otherwise.
            for index in order(round as usize, asked.len()) {
                let key = asked[index];
                let found = measure(key).map_err(|error| error.to_string());
                let words = found.as_ref().map_or_else(Clone::clone, words);
                lab.progress(&format!("{}: {words}", name(key)));
                samples.push(Sample { key, round, found });
            }
        }
        Samples(samples)
    }

    /// The cases, in their order.
    pub(crate) fn keys(&self) -> impl Iterator<Item = K> + Clone {
        let first = self.0.iter().filter(|sample| sample.round == 0);
        first.map(|sample| sample.key)
    }

    fn of(&self, key: K) -> impl Iterator<Item = &Sample<K, F>> + Clone {
        self.0.iter().filter(move |sample| sample.key == key)
    }

    /// What the rounds of a case found.
    pub(crate) fn found(&self, key: K) -> impl Iterator<Item = &F> + Clone {
        self.of(key).filter_map(|sample| sample.found.as_ref().ok())
    }

    /// What all cases found.
    pub(crate) fn all(&self) -> impl Iterator<Item = &F> + Clone {
        let samples = self.0.iter();
        samples.filter_map(|sample| sample.found.as_ref().ok())
    }

    /// What the first round found.
    pub(crate) fn first(&self) -> impl Iterator<Item = (K, &F)> {
        let first = self.0.iter().filter(|sample| sample.round == 0);
        first.filter_map(|sample| Some((sample.key, sample.found.as_ref().ok()?)))
    }

    /// A part of everything that was found.
    pub(crate) fn part<P>(&self, of: impl Fn(&F) -> P) -> Samples<K, P> {
        let part = |sample: &Sample<K, F>| Sample {
            key: sample.key,
            round: sample.round,
            found: sample.found.as_ref().map(&of).map_err(Clone::clone),
        };
        Samples(self.0.iter().map(part).collect())
    }

    /// Why a case has nothing to show.
    pub(crate) fn why(&self, key: K) -> String {
        let error = |sample: &Sample<K, F>| sample.found.as_ref().err().cloned();
        let error = self.of(key).find_map(error);
        error.unwrap_or_else(|| "not measured".to_owned())
    }

    /// A figure of a case, or why there is none.
    pub(crate) fn figure(&self, key: K, column: &Column<F>) -> Figured {
        let found: Vec<&F> = self.found(key).collect();
        column.of(&found, || self.why(key))
    }

    /// A case's row of a table, without its name.
    pub(crate) fn cells(&self, key: K, columns: &[Column<F>]) -> Vec<Cell> {
        let found: Vec<&F> = self.found(key).collect();
        let cell = |column: &Column<F>| {
            let cell = figures::number(self.figure(key, column), column.unit);
            figures::measured(cell, &found, &[column])
        };
        columns.iter().map(cell).collect()
    }

    /// A table of cases, each after the cells that name it.
    pub(crate) fn table<const N: usize>(
        &self,
        title: &str,
        heading: [&str; N],
        rows: impl IntoIterator<Item = ([Cell; N], K)>,
        columns: &[Column<F>],
    ) -> Table {
        let row = |(named, key): ([Cell; N], K)| [named.into(), self.cells(key, columns)].concat();
        let names = columns.iter().map(|column| column.name);
        let names = heading.into_iter().chain(names);
        Table::new(title, names, rows.into_iter().map(row))
    }

    /// A figure of cases as bars: the names of group and bar, and the case. Those of a group stand
    /// together.
    pub(crate) fn bars(
        &self,
        title: &str,
        log: bool,
        column: &Column<F>,
        bars: impl IntoIterator<Item = (impl Into<String>, impl Into<String>, K)>,
    ) -> Plot {
        let mut groups: Lists<String> = Vec::new();
        for (group, bar, key) in bars {
            let (group, value) = (group.into(), self.figure(key, column));
            if groups.last().is_none_or(|(last, _)| *last != group) {
                groups.push((group, Vec::new()));
            }
            if let (Some((_, bars)), Ok(value)) = (groups.last_mut(), value) {
                bars.push((bar.into(), value));
            }
        }
        figures::bars(title, column.unit.0, log, groups)
    }

    /// Every measurement as JSON: its case, its round, what was found or, with the same keys, that
    /// nothing was, and why.
    pub(crate) fn raw(&self, case: impl Fn(K) -> Value, found: impl Fn(&F) -> Value) -> Value {
        let sample = |sample: &Sample<K, F>| {
            let (found, error) = match &sample.found {
                Ok(of) => (found(of), Value::Null),
                Err(error) => (Value::Null, error.as_str().into()),
            };
            let told = json!({ "round": sample.round, "error": error });
            let parts = [case(sample.key), found, told].into_iter();
            let parts = parts.filter_map(|part| part.as_object().cloned());
            parts.flatten().collect::<Map<_, _>>()
        };
        let mut all: Vec<Map<String, Value>> = self.0.iter().map(sample).collect();
        let keys: BTreeSet<String> = all.iter().flat_map(Map::keys).cloned().collect();
        for sample in &mut all {
            for key in &keys {
                sample.entry(key).or_insert(Value::Null);
            }
        }
        json!(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::figures::{column, or_else, over_rounds};

    fn samples(found: &[(usize, Result<f64, &str>)]) -> Samples<usize, f64> {
        let sample = |(&(key, found), round): (&(usize, Result<f64, &str>), u32)| Sample {
            key,
            round,
            found: found.map_err(str::to_owned),
        };
        Samples(found.iter().zip(0..).map(sample).collect())
    }

    #[test]
    fn a_cell_is_the_median_of_its_rounds_or_why_there_is_none() {
        let of = samples(&[
            (0, Ok(1.0)),
            (1, Err("it burnt")),
            (0, Ok(3.0)),
            (3, Ok(f64::NAN)),
        ]);
        let figure: Column<f64> = or_else("not counted", column("a", "us", 0, |value| *value));
        assert_eq!(of.figure(0, &figure), Ok(2.0));
        assert_eq!(of.figure(1, &figure), Err("it burnt".to_owned()));
        assert_eq!(of.figure(2, &figure), Err("not measured".to_owned()));
        assert_eq!(of.figure(3, &figure), Err("not counted".to_owned()));
        let most = |values: &[&f64]| values.iter().copied().copied().reduce(f64::max);
        assert_eq!(of.figure(0, &over_rounds("b", "", 0, most)), Ok(3.0));
    }

    #[test]
    fn raw_figures_say_what_went_wrong() {
        let raw = samples(&[(7, Err("it burnt")), (7, Ok(1.0))]).raw(
            |key| json!({ "key": key }),
            |found| json!({ "found": found }),
        );
        let expected = json!([
            { "key": 7, "found": null, "round": 0, "error": "it burnt" },
            { "key": 7, "found": 1.0, "round": 1, "error": null },
        ]);
        assert_eq!(raw, expected);
    }
}
