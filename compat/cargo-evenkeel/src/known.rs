//! Tests of Tokio's that are known to fail, each with the reason: the lists in `compat/suite/`.

use semver::{Version, VersionReq};
use serde::Deserialize;

use crate::mode::Mode;
use crate::suite::Outcomes;

const LISTS: [(Mode, &str); 3] = [
    (Mode::Off, include_str!("../../suite/off.toml")),
    (Mode::Routed, include_str!("../../suite/routed.toml")),
    (Mode::Forced, include_str!("../../suite/forced.toml")),
];

/// Tests that are known to fail, and why.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Known {
    /// Each as `file::test`; without a test, the file's program ends early.
    tests: Vec<String>,
    /// The reason.
    why: String,
    /// The versions of Tokio in which they fail; without any, all.
    versions: Option<VersionReq>,
    /// They would never end, so they are not run.
    #[serde(default)]
    hangs: bool,
    /// They fail now and then.
    #[serde(default)]
    sometimes: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    #[serde(default)]
    known: Vec<Known>,
}

/// What is known to fail in this mode of this version.
pub(crate) fn of(mode: Mode, version: &Version) -> Vec<Known> {
    let lists = LISTS.iter().filter(|(of, _)| *of <= mode);
    lists
        .flat_map(|(_, text)| parse(text))
        .filter(|known| (known.versions.as_ref()).is_none_or(|of| of.matches(version)))
        .collect()
}

fn parse(text: &str) -> Vec<Known> {
    let list: List = toml::from_str(text).expect("the lists are part of this program, and tested");
    list.known
}

impl Known {
    /// The tests of this file that would never end.
    pub(crate) fn hanging_in(&self, file: &str) -> impl Iterator<Item = &str> {
        let tests = if self.hangs { &self.tests[..] } else { &[] };
        tests
            .iter()
            .filter_map(move |test| test.strip_prefix(file)?.strip_prefix("::"))
    }
}

/// Prints each test that failed, with the reason if it is known, and each that was expected to fail
/// and passed. Returns whether all failures are known.
pub(crate) fn compare(outcomes: &Outcomes, known: &[Known]) -> bool {
    let failed = failures(outcomes);
    for known in known {
        for test in &known.tests {
            if known.hangs && was_run(outcomes, test) {
                println!("not run: {test}: {}", known.why);
            } else if failed.contains(test) {
                println!("known: {test}: {}", known.why);
            } else if !known.sometimes && has_passed(outcomes, test) {
                println!("passes, though expected to fail: {test}");
            }
        }
    }
    let is_known = |test: &String| known.iter().any(|known| known.tests.contains(test));
    for test in failed.iter().filter(|test| !is_known(test)) {
        let early = if test.contains("::") {
            ""
        } else {
            " ended early"
        };
        println!("failed: {test}{early}");
    }
    failed.iter().all(is_known)
}

/// The file and the test in it.
fn parts(test: &str) -> (&str, &str) {
    test.split_once("::").unwrap_or((test, ""))
}

/// Whether the file of this test was run.
fn was_run(outcomes: &Outcomes, test: &str) -> bool {
    outcomes.contains_key(parts(test).0)
}

/// Whether it is there, and has passed.
fn has_passed(outcomes: &Outcomes, test: &str) -> bool {
    let (file, test) = parts(test);
    (outcomes.get(file)).is_some_and(|outcome| {
        outcome.passed.iter().any(|passed| passed == test) || test.is_empty() && !outcome.crashed
    })
}

fn failures(outcomes: &Outcomes) -> Vec<String> {
    let mut failed = Vec::new();
    for (file, outcome) in outcomes {
        failed.extend(outcome.failed.iter().map(|test| format!("{file}::{test}")));
        failed.extend(outcome.crashed.then(|| file.clone()));
    }
    failed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::Outcome;
    use crate::upstream;

    #[test]
    fn every_entry_has_a_reason_and_a_version_that_is_supported() {
        for known in LISTS.iter().flat_map(|(_, text)| parse(text)) {
            assert!(!known.why.is_empty(), "{known:?}");
            let fits = |versions: &VersionReq| {
                upstream::supported().any(|upstream| versions.matches(&upstream.version))
            };
            assert!(known.versions.as_ref().is_none_or(fits), "{known:?}");
        }
    }

    #[test]
    fn no_test_is_listed_twice_for_a_version() {
        for upstream in upstream::supported() {
            let known = of(Mode::Forced, &upstream.version);
            let mut tests: Vec<_> = known.iter().flat_map(|known| &known.tests).collect();
            tests.sort();
            let twice = tests.windows(2).find(|pair| pair[0] == pair[1]);
            assert_eq!(twice, None, "{}", upstream.version);
        }
    }

    fn outcomes(failed: &[&str], crashed: bool) -> Outcomes {
        let outcome = Outcome {
            failed: failed.iter().map(|test| (*test).into()).collect(),
            crashed,
            ..Outcome::default()
        };
        Outcomes::from([("file".to_owned(), outcome)])
    }

    #[test]
    fn a_failure_that_is_not_known_is_one() {
        let known = parse(
            "[[known]]\ntests = ['file::a']\nwhy = 'x'\n\
             [[known]]\ntests = ['file::b']\nwhy = 'x'\nhangs = true\n",
        );
        assert!(compare(&outcomes(&["a"], false), &known));
        assert!(compare(&outcomes(&[], false), &known));
        assert!(!compare(&outcomes(&["a", "c"], false), &known));
        assert!(!compare(&outcomes(&["a"], true), &known));
        let crash = parse("[[known]]\ntests = ['file']\nwhy = 'x'\n");
        assert!(compare(&outcomes(&[], true), &crash));
    }

    #[test]
    fn a_test_that_a_version_lacks_has_not_passed() {
        let mut outcomes = outcomes(&["a"], true);
        outcomes
            .entry("file".into())
            .or_default()
            .passed
            .push("b".into());
        let passed = ["file::b", "file::a", "file::c", "file", "other::b"]
            .map(|test| has_passed(&outcomes, test));
        assert_eq!(passed, [true, false, false, false, false]);
    }

    #[test]
    fn what_hangs_is_left_out_of_its_file() {
        let text = "[[known]]\ntests = ['file::m::b']\nwhy = 'x'\nhangs = true\n";
        let known = &parse(text)[0];
        assert_eq!(known.hanging_in("file").collect::<Vec<_>>(), ["m::b"]);
        assert_eq!(known.hanging_in("fil").count(), 0);
    }

    #[test]
    fn a_mode_knows_what_is_known_of_those_before() {
        let version = Version::new(1, 54, 1);
        let [off, routed, forced] = Mode::ALL.map(|mode| of(mode, &version).len());
        assert!(off < routed && routed <= forced);
    }
}
