//! What moved beyond the spread of the rounds, and reports that cannot be compared.

use super::*;
use crate::report::{Experiment, Machine};

fn cell(rounds: &[f64]) -> Cell {
    Cell::number(rounds[rounds.len() / 2], "us", 0).measured(vec![rounds.to_vec()])
}

fn pair(first: &[f64], second: &[f64]) -> Cell {
    Cell::from("a / b").measured(vec![first.to_vec(), second.to_vec()])
}

fn report(rows: Vec<Vec<Cell>>) -> Report {
    let table = Table::new("Latency", ["beside", "evenkeel", "tokio"], rows);
    Report {
        version: VERSION,
        title: "Evenkeel lab".to_owned(),
        rough: None,
        machine: Machine::detect(),
        experiments: vec![Experiment {
            name: "responsive".to_owned(),
            tables: vec![table],
            ..Experiment::default()
        }],
        moved: None,
    }
}

fn compared(before: Vec<Vec<Cell>>, now: Vec<Vec<Cell>>) -> Report {
    let text = serde_json::to_string(&report(before)).unwrap();
    let earlier = Earlier::parse("old.json".to_owned(), &text, &["responsive"]).unwrap();
    let mut report = report(now);
    report.compare(&earlier);
    report
}

fn mark(report: &Report, row: usize, column: usize) -> &str {
    match &report.experiments[0].tables[0].rows[row][column] {
        Cell::Measured { mark, .. } => mark,
        other => panic!("{other:?}"),
    }
}

#[test]
fn figures_whose_rounds_do_not_overlap_have_moved() {
    let before = vec![
        vec![
            "hogs".into(),
            cell(&[10.0, 20.0, 30.0]),
            pair(&[1.0, 2.0], &[9.0, 8.0]),
        ],
        vec!["nothing".into(), cell(&[5.0, 6.0]), cell(&[5.0])],
    ];
    let now = vec![
        // Rows are found by their names, wherever they stand.
        vec!["nothing".into(), cell(&[6.0, 7.0]), cell(&[50.0, 60.0])],
        vec![
            "hogs".into(),
            cell(&[31.0, 32.0, 90.0]),
            pair(&[2.0, 3.0], &[7.0, 7.5]),
        ],
        vec!["fresh".into(), cell(&[1.0, 2.0]), cell(&[1.0, 2.0])],
    ];
    let report = compared(before, now);
    assert_eq!(mark(&report, 0, 1), "", "the ranges touch");
    assert_eq!(mark(&report, 0, 2), "", "one round has no spread");
    assert_eq!(mark(&report, 1, 1), "↑");
    assert_eq!(mark(&report, 1, 2), "=/↓");
    assert_eq!(mark(&report, 2, 1), "", "it was not there");
    let moved = report.moved.as_ref().unwrap();
    assert!(
        moved.summary.starts_with("2 of 4 figures moved"),
        "{moved:?}"
    );
    assert_eq!(moved.lines.len(), 2, "{moved:?}");
    let line = &moved.lines[0];
    assert_eq!(
        line,
        "responsive: Latency: hogs, evenkeel: 32 us, was 20 us ↑"
    );
    for text in [
        super::super::print::text(&report),
        super::super::html::page(&report),
    ] {
        assert!(
            text.contains("What moved") && text.contains("=/↓"),
            "{text}"
        );
    }
}

#[test]
fn chance_is_that_of_all_orders() {
    assert!((chance(3, 3) - 0.1).abs() < 1e-12);
    assert!((chance(2, 2) - 1.0 / 3.0).abs() < 1e-12);
    assert!((chance(5, 3) - 2.0 / 56.0).abs() < 1e-12);
}

#[test]
fn where_nothing_can_be_compared_that_is_said() {
    let single = || vec![vec!["hogs".into(), cell(&[1.0]), cell(&[2.0])]];
    let report = compared(single(), single());
    let moved = report.moved.unwrap();
    assert!(moved.summary.contains("two rounds"), "{moved:?}");
}

#[test]
fn what_cannot_be_compared_is_refused() {
    let good = serde_json::to_string(&report(Vec::new())).unwrap();
    let old = good.replacen("\"version\":1", "\"version\":0", 1);
    let without = good.replacen("\"version\":1,", "", 1);
    assert!(old != good && without != good);
    for (text, parts) in [
        ("no JSON", ["no report", "expected"]),
        ("{}", ["no report", "no experiments"]),
        (old.as_str(), ["version 0", "version 1"]),
        (without.as_str(), ["no version", "version 1"]),
    ] {
        let error = Earlier::parse("old.json".to_owned(), text, &["responsive"]);
        let error = error.unwrap_err().to_string();
        for part in parts.iter().chain(&["old.json"]) {
            assert!(error.contains(part), "`{part}` is not in: {error}");
        }
    }
    let error = Earlier::parse("old.json".to_owned(), &good, &["storm"]);
    let error = error.unwrap_err().to_string();
    assert!(
        error.contains("no experiment `storm`, but responsive"),
        "{error}"
    );
    let error = Earlier::read(Path::new("/nowhere.json"), &[]).unwrap_err();
    assert!(error.to_string().contains("cannot read"), "{error}");
}
