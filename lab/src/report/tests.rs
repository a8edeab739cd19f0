//! The report as a whole; each part's details are in `tests/`.

mod html;
mod machine;
mod plot;
mod sample;
mod scale;
mod verdicts;

use std::env;
use std::fs;
use std::path::Path;
use std::process;

use serde_json::{Value, json};

use super::{Experiment, Machine, Report, VERSION, print};
use sample::report;

/// As it is where nothing can be bold.
fn plain(report: &Report) -> String {
    anstream::adapter::strip_str(&print::text(report)).to_string()
}

#[test]
fn json_has_the_documented_shape_and_survives_what_it_cannot_say() {
    let value = serde_json::to_value(report()).unwrap();
    assert_eq!(value["title"], "Evenkeel lab");
    let experiment = &value["experiments"][0];
    let row = &experiment["tables"][0]["rows"][0];
    assert_eq!(row[0], json!({ "text": "evenkeel" }));
    assert_eq!(
        row[1],
        json!({ "number": { "value": 148.0, "unit": "us", "digits": 0 } })
    );
    let missing = &experiment["tables"][0]["rows"][4][1];
    assert_eq!(missing, &json!({ "missing": "haproxy is not installed" }));
    assert_eq!(experiment["plots"][0]["kind"], "bars");
    assert_eq!(experiment["plots"][0]["groups"][0][0], "nothing");
    let never = &experiment["plots"][0]["groups"][3][1];
    assert_eq!(
        never[1],
        json!(["Tokio 1", Value::Null]),
        "infinity has no JSON"
    );
    assert_eq!(
        experiment["raw"],
        json!({ "seed": 7, "rounds": [[148, 211], [151, 240]] })
    );
}

#[test]
fn files_are_written_and_a_failure_names_the_file() {
    let folder = env::temp_dir().join(format!("evenkeel-lab-report-{}", process::id()));
    fs::create_dir_all(&folder).unwrap();
    report().write_json(&folder.join("report.json")).unwrap();
    report().write_html(&folder.join("report.html")).unwrap();
    let json = fs::read_to_string(folder.join("report.json")).unwrap();
    assert_eq!(
        serde_json::from_str::<Value>(&json).unwrap()["title"],
        "Evenkeel lab"
    );
    let html = fs::read_to_string(folder.join("report.html")).unwrap();
    assert!(html.starts_with("<!doctype html>") && html.ends_with("</html>\n"));
    // To look at the page, name a file to keep it in.
    if let Some(path) = env::var_os("LAB_REPORT_SAMPLE") {
        report().write_html(Path::new(&path)).unwrap();
        report().print();
    }
    let error = report()
        .write_html(&folder.join("no/such/folder.html"))
        .unwrap_err();
    let words = error.to_string();
    assert!(
        words.contains("cannot write") && words.contains("no/such/folder.html"),
        "{words}"
    );
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn the_terminal_report_stays_within_a_hundred_columns() {
    let text = plain(&report());
    for line in text.lines() {
        assert!(unicode_width::UnicodeWidthStr::width(line) <= 100, "{line}");
        assert_eq!(line, line.trim_end());
    }
    assert!(text.contains("1  Hogs\n"));
    assert!(text.contains("¹ haproxy is not installed"));
    assert!(
        !text.contains('\x1b'),
        "plain text holds no escape sequence"
    );
    assert!(print::text(&report()).contains("\x1b[1mEvenkeel lab\x1b[0m"));
}

#[test]
fn rough_figures_are_said_to_be_rough_before_any_of_them() {
    let mut report = report();
    for (rough, said) in [(None, 0), (Some("In brief: `x`".to_owned()), 1)] {
        report.rough = rough;
        let text = plain(&report);
        assert_eq!(text.matches("In brief").count(), said);
        assert!(
            text.find("In brief")
                .is_none_or(|at| at < text.find("machine").unwrap())
        );
        let page = super::html::page(&report);
        assert_eq!(page.matches("In brief: <code>x</code>").count(), said);
        assert!(
            page.find("In brief")
                .is_none_or(|at| at < page.find("<nav").unwrap())
        );
    }
}

#[test]
fn names_from_outside_cannot_drive_a_terminal() {
    let mut report = report();
    report.title = "\x1b[2Jgone".to_owned();
    let text = print::text(&report);
    assert!(text.contains("\u{fffd}[2Jgone") && !text.contains("\x1b[2J"));
}

#[test]
fn an_empty_report_is_still_a_report() {
    let empty = Report {
        version: VERSION,
        title: String::new(),
        rough: None,
        machine: Machine::detect(),
        experiments: vec![Experiment::default()],
        moved: None,
    };
    assert!(super::html::page(&empty).contains("Nothing was measured."));
    assert!(plain(&empty).contains("machine"));
    assert_eq!(
        serde_json::to_value(&empty).unwrap()["experiments"][0]["raw"],
        Value::Null
    );
}
