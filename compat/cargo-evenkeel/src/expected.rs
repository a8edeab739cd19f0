//! How many of Tokio's tests there are: `compat/suite/expected.toml`. A program of tests that runs
//! none has nothing that fails, so they are counted.

use std::collections::BTreeMap;

use semver::Version;
use serde::Deserialize;

use crate::known::Known;
use crate::suite::{Outcome, Outcomes};

const LIST: &str = include_str!("../../suite/expected.toml");

/// The tests of a version, counted on Linux. Other systems have others.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Expected {
    version: Version,
    /// Of all files together.
    total: usize,
    /// Those of the sample, each with its number of tests.
    #[serde(default)]
    sample: BTreeMap<String, usize>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    expected: Vec<Expected>,
}

/// Of this version, if it is one that is supported.
pub(crate) fn of(version: &Version) -> Option<Expected> {
    let list: List = toml::from_str(LIST).expect("the list is part of this program, and tested");
    let mut all = list.expected.into_iter();
    all.find(|expected| expected.version == *version)
}

impl Expected {
    /// The files of the sample.
    pub(crate) fn sample(&self) -> impl Iterator<Item = &String> {
        self.sample.keys()
    }

    /// What is missing of the tests of these files, or of all if they are the `whole`: a line each.
    /// Those that are known to hang are not run, and count.
    pub(crate) fn missing(&self, outcomes: &Outcomes, known: &[Known], whole: bool) -> Vec<String> {
        let seen = |(name, outcome): (&String, &Outcome)| {
            let left_out = known
                .iter()
                .flat_map(|known| known.hanging_in(name))
                .count();
            outcome.tests() + left_out
        };
        let is_comparable = cfg!(target_os = "linux");
        let mut lines = Vec::new();
        for (name, outcome) in outcomes.iter().filter(|(_, outcome)| !outcome.crashed) {
            let found = seen((name, outcome));
            match self.sample.get(name) {
                Some(&expected) if is_comparable && found != expected => {
                    lines.push(format!("{name} has {found} tests; expected {expected}"));
                }
                // Some files have none in this build, but nobody asks for these.
                None if found == 0 && !whole => lines.push(format!("{name} has no tests")),
                _ => {}
            }
        }
        let found: usize = outcomes.iter().map(seen).sum();
        let is_ended = outcomes.values().all(|outcome| !outcome.crashed);
        if found == 0 {
            lines.push("no test was run".to_owned());
        } else if whole && is_ended && is_comparable && found != self.total {
            let total = self.total;
            lines.push(format!("all files have {found} tests; expected {total}"));
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upstream;

    fn expected() -> Expected {
        Expected {
            version: Version::new(1, 54, 1),
            total: 5,
            sample: BTreeMap::from([("a".to_owned(), 3)]),
        }
    }

    fn outcomes(files: &[(&str, &[&str])]) -> Outcomes {
        let outcome = |passed: &[&str]| Outcome {
            passed: passed.iter().map(|test| (*test).to_owned()).collect(),
            ..Outcome::default()
        };
        (files.iter())
            .map(|(name, passed)| ((*name).to_owned(), outcome(passed)))
            .collect()
    }

    fn missing(files: &[(&str, &[&str])], whole: bool) -> String {
        expected().missing(&outcomes(files), &[], whole).join(", ")
    }

    #[test]
    fn every_supported_version_has_its_total_and_the_newest_a_sample() {
        for upstream in upstream::supported() {
            let expected = of(&upstream.version).expect("each has an entry");
            assert!(expected.total > 1_000, "{expected:?}");
            let in_sample: usize = expected.sample.values().sum();
            assert!(in_sample < expected.total);
        }
        let newest = upstream::supported().next().unwrap();
        assert!(of(&newest.version).unwrap().sample().count() > 10);
        assert!(of(&Version::new(1, 0, 0)).is_none());
    }

    #[test]
    fn files_with_other_numbers_of_tests_are_told() {
        assert_eq!(missing(&[("a", &["x", "y", "z"])], false), "");
        assert_eq!(
            missing(&[("a", &["x"])], false),
            "a has 1 tests; expected 3"
        );
        assert_eq!(
            missing(&[("a", &["x", "y", "z"]), ("b", &[])], false),
            "b has no tests"
        );
        assert_eq!(
            missing(&[("b", &["x"])], false),
            "",
            "nobody has counted them"
        );
        assert_eq!(missing(&[("b", &[])], true), "no test was run");
        assert_eq!(missing(&[], false), "no test was run");
    }

    #[test]
    fn the_whole_has_its_total() {
        let a: (&str, &[&str]) = ("a", &["x", "y", "z"]);
        assert_eq!(missing(&[a, ("b", &["x", "y"]), ("c", &[])], true), "");
        let said = missing(&[a, ("b", &["x"])], true);
        assert_eq!(said, "all files have 4 tests; expected 5");
    }

    #[test]
    fn a_file_that_ended_early_is_no_second_failure() {
        let mut outcomes = outcomes(&[("a", &["x"])]);
        outcomes.entry("a".to_owned()).or_default().crashed = true;
        assert!(expected().missing(&outcomes, &[], true).is_empty());
    }
}
