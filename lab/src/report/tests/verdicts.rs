//! Tests of the account of all verdicts, on a terminal and on the page.

use serde_json::json;
use unicode_width::UnicodeWidthStr;

use super::sample::report;
use crate::report::verdicts::Summary;
use crate::report::{Cell, Experiment, Outcome, Report, Verdict, html};

fn judged(of: &str, found: &str, outcome: Outcome) -> Verdict {
    Verdict {
        of: of.to_owned(),
        what: "p99 over idle".to_owned(),
        found: match outcome {
            Outcome::NotSaid => Cell::Missing(found.to_owned()),
            _ => Cell::from(found),
        },
        reach: "≤ 1.20×".to_owned(),
        outcome,
    }
}

fn experiment(name: &str, verdicts: Vec<Verdict>) -> Experiment {
    Experiment {
        name: name.to_owned(),
        verdicts,
        ..Experiment::default()
    }
}

fn of(rough: bool, experiments: Vec<Experiment>) -> Report {
    Report {
        rough: rough.then(|| "In brief.".to_owned()),
        experiments,
        ..report()
    }
}

/// Two that hold, two that are missed, one without a figure, and an experiment that judges nothing.
fn mixed(rough: bool) -> Report {
    let fsync = vec![
        judged("1 writer", "1.10×", Outcome::Holds),
        judged("8 writers", "1.34×", Outcome::Missed),
        judged("opens that hang", "haproxy is not there", Outcome::NotSaid),
    ];
    let storm = vec![
        judged("even", "1.00×", Outcome::Holds),
        judged("bursts", "9.90×", Outcome::Missed),
    ];
    of(
        rough,
        vec![
            experiment("fsync", fsync),
            experiment("checks", Vec::new()),
            experiment("storm", storm),
        ],
    )
}

/// What stands below the last rule, without its margin.
fn ending(report: &Report) -> Vec<String> {
    let text = super::plain(report);
    let (_, ending) = text.rsplit_once("─\n").expect("a rule");
    assert!(ending.lines().all(|line| line.width() <= 100), "{ending}");
    ending.lines().map(|line| line.trim().to_owned()).collect()
}

#[test]
fn the_terminal_ends_in_a_count_and_in_what_is_missed() {
    let lines = ending(&mixed(false));
    assert_eq!(
        lines,
        [
            "",
            "Verdicts",
            "",
            "result   2 of 5 verdicts hold, 2 are missed, 1 has no figure.",
            "missed   fsync: 8 writers: p99 over idle 1.34×, to be ≤ 1.20×",
            "storm: bursts: p99 over idle 9.90×, to be ≤ 1.20×",
            "note     Without a figure are 1 of fsync: the verdicts' tables say why.",
            "note     Nothing is judged in checks: read the tables.",
        ]
    );
}

#[test]
fn short_rounds_are_said_to_tip_and_what_gives_the_firm_answer() {
    let command =
        |name: &str| format!("cargo run --release -p evenkeel-lab -- {name} --seconds 10");
    let lines = ending(&mixed(true));
    assert!(lines.iter().any(|line| line.contains("this short tip")));
    assert_eq!(lines[lines.len() - 2..], ["fsync", "storm"].map(command));
    // Where nothing is missed that may be chance as well.
    let held = || experiment("fsync", vec![judged("1 writer", "1.10×", Outcome::Holds)]);
    let last = |report: &Report| ending(report).pop();
    let one = of(true, vec![held()]);
    assert_eq!(last(&one), Some(command("fsync")));
    let lines = ending(&one).join("\n");
    assert!(
        lines.contains("1 of 1 verdicts holds, none is missed."),
        "{lines}"
    );
    let two = of(true, vec![held(), held()]);
    assert_eq!(last(&two), Some(command("NAME")));
    // Nothing tips where nothing is judged, or where rounds are long.
    for report in [
        of(true, vec![experiment("checks", Vec::new())]),
        mixed(false),
    ] {
        let lines = ending(&report).join("\n");
        assert!(
            !lines.contains("tip") && !lines.contains("cargo run"),
            "{lines}"
        );
    }
}

#[test]
fn the_page_has_them_before_its_contents() {
    let page = html::page(&mixed(true));
    let (top, _) = page.split_once("<nav").expect("contents");
    assert!(top.contains("2 of 5 verdicts hold, 2 are missed, 1 has no figure."));
    let row = "<tr><th scope=\"row\">1 fsync</th><td>8 writers</td><td>p99 over idle</td>\
               <td>1.34×</td><td>≤ 1.20×</td></tr>";
    assert!(top.contains(row), "{top}");
    assert!(top.contains("<th scope=\"row\">3 storm</th>"), "{top}");
    assert!(
        !top.contains("1 writer<") && !top.contains("opens that hang"),
        "{top}"
    );
    let command = "<code>cargo run --release -p evenkeel-lab -- storm --seconds 10</code>";
    assert!(top.contains(command), "{top}");
    assert!(!top.contains('`'), "{top}");
    assert!(!html::page(&mixed(false)).contains("cargo run"));
}

#[test]
fn where_nothing_is_missed_the_page_has_no_table_of_it() {
    let held = vec![judged("1 writer", "1.10×", Outcome::Holds)];
    let page = html::page(&of(false, vec![experiment("fsync", held)]));
    let (top, _) = page.split_once("<nav").expect("contents");
    assert!(
        top.contains("none is missed") && !top.contains("<table"),
        "{top}"
    );
}

#[test]
fn programs_read_them_by_experiment() {
    let value = serde_json::to_value(mixed(false)).expect("JSON");
    assert_eq!(
        value["experiments"][0]["verdicts"][1],
        json!({
            "of": "8 writers",
            "what": "p99 over idle",
            "found": { "text": "1.34×" },
            "reach": "≤ 1.20×",
            "outcome": "missed",
        })
    );
}

#[test]
fn a_summary_counts_every_outcome_once() {
    let report = mixed(false);
    let summary = Summary::of(&report);
    assert_eq!(summary.missed_lines().len(), 2);
    assert_eq!(summary.missed_table().rows.len(), 2);
    let empty = of(false, Vec::new());
    assert_eq!(Summary::of(&empty).count(), None);
}
