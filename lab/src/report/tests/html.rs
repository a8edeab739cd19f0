//! Tests of the page: escaping, structure, and every kind of content.

use super::sample::report;
use crate::report::html::{inline, page};
use crate::report::{
    Bars, Cell, Experiment, Lines, Outcome, Plot, Report, Table, VERSION, Verdict,
};

const HOSTILE: &str = "</title><script>alert('x')</script>\" onload=\"&";

/// What a browser needs to read a page at all: every element that opens also closes, in order.
fn assert_balanced(html: &str) {
    const VOID: [&str; 3] = ["meta", "!doctype", "br"];
    let mut open = Vec::new();
    for tag in html
        .split('<')
        .skip(1)
        .map(|rest| rest.split('>').next().unwrap())
    {
        let name = tag
            .trim_start_matches('/')
            .split([' ', '\n', '/'])
            .next()
            .unwrap();
        if tag.starts_with('/') {
            assert_eq!(open.pop(), Some(name), "</{name}>");
        } else if !VOID.contains(&name) && !tag.ends_with('/') {
            open.push(name);
        }
    }
    assert_eq!(open, Vec::<&str>::new());
}

#[test]
fn text_is_escaped() {
    assert_eq!(
        inline("<a href='x'>&\"\x08").into_string(),
        "&lt;a href='x'&gt;&amp;&quot;\u{fffd}"
    );
}

#[test]
fn backticks_make_code_and_nothing_else() {
    assert_eq!(
        inline("set `a<b` and `c`").into_string(),
        "set <code>a&lt;b</code> and <code>c</code>"
    );
    assert_eq!(inline("a ` alone").into_string(), "a ` alone");
    assert_eq!(
        inline("`x` and ` alone").into_string(),
        "<code>x</code> and ` alone"
    );
    assert_eq!(inline("").into_string(), "");
}

#[test]
fn nothing_given_can_break_out_of_its_place() {
    let text = || HOSTILE.to_owned();
    let mut machine = report().machine;
    machine.cpu_model = text();
    machine.noise = vec![text()];
    let experiment = Experiment {
        name: text(),
        claim: text(),
        how: text(),
        tables: vec![Table {
            title: text(),
            columns: vec![text(), text()],
            rows: vec![vec![Cell::Text(text()), Cell::Missing(text())]],
        }],
        plots: vec![
            Plot::Bars(Bars {
                title: text(),
                unit: text(),
                log: false,
                endless: String::new(),
                groups: vec![(text(), vec![(text(), 1.0), (HOSTILE.repeat(9), 2.0)])],
            }),
            Plot::Lines(Lines {
                title: text(),
                x: text(),
                y: text(),
                log_x: false,
                log_y: true,
                series: vec![(text(), vec![(1.0, 1.0)])],
            }),
        ],
        notes: vec![text()],
        verdicts: vec![Verdict {
            of: text(),
            what: text(),
            found: Cell::Text(text()),
            reach: text(),
            outcome: Outcome::Missed,
        }],
        raw: serde_json::json!({ HOSTILE: HOSTILE }),
    };
    let html = page(&Report {
        version: VERSION,
        title: text(),
        rough: Some(text()),
        machine,
        experiments: vec![experiment],
        moved: None,
    });
    assert!(!html.contains("<script") && !html.contains("\" onload="));
    assert_balanced(&html);
}

#[test]
fn the_page_stands_alone_and_is_whole() {
    let html = page(&report());
    assert_balanced(&html);
    for external in [
        "http:", "https:", "url(", "@import", "<script", "<link", "src=",
    ] {
        assert!(!html.contains(external), "{external}");
    }
    assert!(
        !html.contains("NaN") && !html.contains("inf\""),
        "no such coordinate"
    );
    for id in ["e1", "e2", "e3", "machine"] {
        assert!(
            html.contains(&format!("<a href=\"#{id}\">")) && html.contains(&format!("id=\"{id}\""))
        );
    }
    let plots = html.matches("<svg class=\"plot\"").count();
    assert_eq!(plots, 4);
    assert_eq!(html.matches("<figcaption>").count(), plots);
    assert_eq!(
        html.matches("<div class=\"numbers\"").count(),
        plots,
        "a table beside each plot"
    );
    assert_eq!(html.matches("<desc id=").count(), plots);
}

#[test]
fn ids_are_unique_and_all_references_resolve() {
    let html = page(&report());
    let ids: Vec<&str> = html
        .split(" id=\"")
        .skip(1)
        .map(|rest| rest.split('"').next().unwrap())
        .collect();
    let mut unique = ids.clone();
    unique.sort_unstable();
    unique.dedup();
    assert_eq!(unique.len(), ids.len());
    for part in html.split("aria-labelledby=\"").skip(1) {
        for id in part.split('"').next().unwrap().split(' ') {
            assert!(ids.contains(&id), "{id}");
        }
    }
}

#[test]
fn raw_data_beyond_its_limit_is_left_to_the_json_file() {
    let mut report = report();
    report.experiments[0].raw = serde_json::json!(vec![1; 100_000]);
    let html = page(&report);
    assert!(html.contains("in the JSON file of this run") && html.len() < 200_000);
}
