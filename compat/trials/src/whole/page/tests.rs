//! Pages made from records.

use serde_json::json;

use super::*;

fn made(outcome: &serde_json::Value) -> Made {
    let made = json!({
        "day": "2026-11-23", "revision": "81e87a8a1", "seconds": 7, "good": true,
        "outcome": outcome,
    });
    serde_json::from_value(made).unwrap()
}

fn page(parts: &[(&str, Made)]) -> String {
    let mut record = Record::default();
    for (name, made) in parts {
        let again = serde_json::to_value(made).unwrap();
        let made = serde_json::from_value(again).unwrap();
        record.parts.insert((*name).to_owned(), made);
    }
    of(&Part::all().unwrap(), &record)
}

#[track_caller]
fn has(page: &str, line: &str) {
    assert!(
        page.lines().any(|found| found == line),
        "no {line:?} in: {page}"
    );
}

#[test]
fn a_part_that_was_not_run_is_said_as_such() {
    let page = page(&[]);
    let parts = Part::all().unwrap();
    // A column is called so, too.
    assert_eq!(page.matches("not run").count(), parts.len() + 1);
    has(&page, "| h2 | not run |  |  |  |  |  |");
}

#[test]
fn tokios_tests_are_counted_and_their_failures_have_reasons() {
    let routed = made(&json!({ "tokio": {
        "passed": 1412, "ignored": 1, "known": { "a::b": "as root", "a::c": "as root" },
        "not_run": { "d::e": "it | hangs" }, "failed": ["f::g"],
    } }));
    let page = page(&[("tokio/1.54/routed", routed)]);
    let row = "| 1.54 | multi-thread runtimes on Evenkeel | 1412 | 2 | 1 | 2 | ";
    has(&page, &format!("{row}2026-11-23, 81e87a8a1 |"));
    has(&page, "| 2 | as root |");
    has(&page, "| 1 | it \\| hangs |");
    has(&page, "- 1.54, multi-thread runtimes on Evenkeel: `f::g`");
    has(&page, "| 1.54 | on Tokio itself | not run |  |  |  |  |");
}

#[test]
fn a_crate_has_what_fails_on_evenkeel_alone() {
    let suite = made(&json!({ "suite": {
        "version": "0.4.20", "on_evenkeel": { "passed": 60, "of": 62 },
        "on_tokio": { "passed": 61, "of": 62 }, "forced": { "passed": 59, "of": 62 },
        "known": { "c::d": "it races", "c::e": "it races" }, "lost": ["a::b"], "without": "a | b",
    } }));
    let page = page(&[("suites/h2", suite)]);
    let row =
        "| h2 0.4.20 | 60 of 62 | 59 of 62 | 61 of 62 | a::b | a \\| b | 2026-11-23, 81e87a8a1 |";
    has(&page, row);
    has(&page, "| 2 | it races |");
}

#[test]
fn the_graph_names_its_crates_in_lines_that_fit() {
    let names: Vec<_> = (0..40).map(|number| format!("crate-{number}")).collect();
    let graph = made(&json!({ "graph": { "packages": 440, "on_tokio": names } }));
    let page = page(&[("graph", graph)]);
    assert!(page.contains("[graph](../compat/graph/Cargo.toml) of 440 packages"));
    assert!(page.contains("`crate-39`"));
    let texts = page.lines().filter(|line| !line.starts_with('|'));
    assert_eq!(
        texts.map(str::len).filter(|len| *len > 100).count(),
        0,
        "{page}"
    );
}

#[test]
fn a_program_has_a_column_for_each_mode() {
    let right = |program: &str, mode: &str| -> serde_json::Value {
        let mut right = json!({ "program": program, "mode": mode });
        right["answered_right"] = true.into();
        right
    };
    let mut wrong = right("bore", "tokio");
    wrong["answered_right"] = false.into();
    wrong["error"] = "no answer".into();
    let mut missing = right("nats", "evenkeel");
    missing["answered_right"] = false.into();
    missing["left_out"] = "no server".into();
    let mut programs = made(&json!({
        "programs": [right("bore", "evenkeel"), wrong, missing],
    }));
    programs.good = false;
    let page = page(&[("programs", programs)]);
    for line in [
        "Made 2026-11-23, 81e87a8a1; not all is as it should be.",
        "| program | evenkeel | tokio | what ran on Evenkeel |",
        "| bore | answers right | fails: no answer | not recorded |",
        "| nats | left out: no server |  | not recorded |",
    ] {
        has(&page, line);
    }
}

#[test]
fn versions_that_do_not_compile_are_told() {
    let unstable = made(&json!({ "unstable": [
        { "version": "1.54.1", "compiles": true }, { "version": "1.53.3", "compiles": false },
    ] }));
    let page = page(&[("unstable", unstable)]);
    has(&page, "| 1.54.1 | compiles |");
    has(&page, "| 1.53.3 | does not compile |");
}

#[test]
fn a_program_has_the_names_of_what_ran_on_evenkeel() {
    let ran = |program: &str, mode: &str, on: &[&str], off: &[&str]| {
        json!({
            "program": program, "mode": mode, "answered_right": true,
            "on_evenkeel": on, "on_tokio": off,
        })
    };
    let programs = made(&json!({ "programs": [
        ran("redis", "routed", &["server"], &["cli"]),
        ran("redis", "forced", &["cli", "server"], &[]),
        ran("dns", "routed", &["dns"], &[]),
        ran("dns", "forced", &["dns"], &[]),
        ran("files", "routed", &[], &["files"]),
        ran("files", "forced", &["files"], &[]),
    ] }));
    let page = page(&[("programs", programs)]);
    for row in [
        "| redis | answers right | answers right | server, not cli; current-thread too: cli, \
         server |",
        "| dns | answers right | answers right | dns |",
        "| files | answers right | answers right | none; current-thread too: files |",
    ] {
        has(&page, row);
    }
}

#[test]
fn services_have_the_columns_that_were_measured() {
    let services = made(&json!({ "services": [{
        "title": "Latency", "columns": ["", "evenkeel"], "rows": [["alone", "1.0 us"]],
        "notes": ["a note"],
    }] }));
    let page = page(&[("services", services)]);
    let lines = [
        "Latency:",
        "|  | evenkeel |",
        "| alone | 1.0 us |",
        "a note",
    ];
    lines.iter().for_each(|line| has(&page, line));
}

#[test]
fn a_part_that_could_not_be_finished_says_why() {
    let mut broken = made(&json!({ "broken": "no network" }));
    broken.good = false;
    let mut alone = made(&json!({ "broken": "no server" }));
    alone.good = false;
    let page = page(&[("suites/h2", broken), ("programs", alone)]);
    has(
        &page,
        "(not finished: no server; made 2026-11-23, 81e87a8a1)",
    );
    has(
        &page,
        "| h2 | not finished: no network |  |  |  |  | 2026-11-23, 81e87a8a1 |",
    );
}
