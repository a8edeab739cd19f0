//! Tests of tables on the terminal.

use serde_json::json;
use unicode_width::UnicodeWidthStr;

use super::{Cell, Table, lines, names_unit, wrap};

fn us(value: f64) -> Cell {
    Cell::number(value, "us", 0)
}

fn table(columns: &[&str], rows: Vec<Vec<Cell>>) -> Table {
    Table::new("", columns, rows)
}

#[test]
fn numbers_stand_right_under_a_shared_unit() {
    let table = table(
        &["runtime", "p50", "p99 us", "said"],
        vec![
            vec!["evenkeel".into(), us(148.0), us(331.0), "fine".into()],
            vec!["Tokio 1".into(), us(478_228.0), us(f64::NAN), "none".into()],
            vec![
                "HAProxy".into(),
                Cell::Missing("not installed".into()),
                us(f64::INFINITY),
            ],
        ],
    );
    let expected = "\
─────────────────────────────────
              p50
runtime        us  p99 us  said
─────────────────────────────────
evenkeel      148     331  fine
Tokio 1   478 228       —  none
HAProxy        —¹       ∞
─────────────────────────────────
¹ not installed";
    let expected = expected.replace(&"─".repeat(33), &"─".repeat(31));
    assert_eq!(lines(&table, 97).join("\n"), expected);
}

#[test]
fn mixed_units_stay_with_their_numbers() {
    let number = Cell::number;
    let table = table(
        &["what", "value"],
        vec![
            vec!["rate".into(), number(17_700.0, "req/s", 0)],
            vec!["p99".into(), number(9.25, "ms", 2)],
            vec!["count".into(), number(12.0, "", 0)],
        ],
    );
    let expected = "\
────────────────────
what          value
────────────────────
rate   17 700 req/s
p99         9.25 ms
count            12
────────────────────";
    assert_eq!(
        lines(&table, 97).join("\n"),
        expected.replace(&"─".repeat(20), &"─".repeat(19))
    );
}

#[test]
fn reasons_are_noted_once_each_in_the_order_of_reading() {
    let missing = |why: &str| Cell::Missing(why.to_owned());
    let table = table(
        &["", "a", "b"],
        vec![
            vec!["x".into(), missing("first"), missing("second")],
            vec!["y".into(), missing("second"), missing("")],
        ],
    );
    let lines = lines(&table, 97);
    assert_eq!(lines[3], "x  —¹  —²");
    assert_eq!(lines[4], "y  —²  —");
    assert_eq!(lines[6..], ["¹ first", "² second"]);
}

#[test]
fn what_is_too_wide_is_wrapped_then_split() {
    let text = "a long story of what this scene does and why it is here at all";
    let names = [
        "scene",
        "sent per second",
        "answered per second",
        "p50",
        "p99",
    ];
    let row = || {
        vec![
            Cell::Text(text.to_owned()),
            us(1e6),
            us(2e6),
            us(3e6),
            us(4e6),
        ]
    };
    let table = table(&names, vec![row(), row()]);
    for width in [97, 60, 40, 30] {
        let lines = lines(&table, width);
        assert!(
            lines.iter().all(|line| line.width() <= width),
            "{width}: {lines:#?}"
        );
        let all = lines.join(" ");
        for part in ["1 000 000", "4 000 000", "story", "p99"] {
            assert!(all.contains(part), "{part} is lost at {width}");
        }
    }
    assert_eq!(
        lines(&table, 30)
            .iter()
            .filter(|line| line.is_empty())
            .count(),
        3
    );
}

#[test]
fn ragged_and_empty_tables_hold() {
    assert_eq!(lines(&table(&[], Vec::new()), 97), Vec::<String>::new());
    assert_eq!(
        lines(&table(&["a", "b"], Vec::new()), 97),
        ["────", "a  b", "────", "────"]
    );
    let ragged = table(&["a"], vec![vec!["1".into(), "2".into()], Vec::new()]);
    assert_eq!(lines(&ragged, 97)[3], "1  2");
}

#[test]
fn wide_characters_keep_the_columns_in_line() {
    let table = table(
        &["名", "n"],
        vec![vec!["東京".into(), us(1.0)], vec!["ab".into(), us(20.0)]],
    );
    let lines = lines(&table, 97);
    assert_eq!(lines[4], "東京   1");
    assert_eq!(lines[5], "ab    20");
}

#[test]
fn units_are_found_in_names() {
    for name in ["p99 us", "p99, us", "p99 (us)", "p99 [us]"] {
        assert!(names_unit(name, "us"), "{name}");
    }
    assert!(!names_unit("status", "us"), "the end of a word is no unit");
    assert!(!names_unit("p99", "us"));
}

#[test]
fn wrapping_breaks_no_number() {
    assert_eq!(
        wrap("999\u{202f}572 / 1\u{202f}663", 10),
        ["999\u{202f}572 /", "1\u{202f}663"]
    );
}

#[test]
fn wrapping_breaks_between_words_and_within_the_longest() {
    assert_eq!(wrap("one two three", 7), ["one two", "three"]);
    assert_eq!(wrap("abcdefgh ij", 3), ["abc", "def", "gh", "ij"]);
    assert_eq!(wrap("a hand-off", 8), ["a", "hand-off"]);
    assert_eq!(wrap("", 5), [""]);
    assert_eq!(
        wrap("東京都", 1),
        ["東", "京", "都"],
        "a character is never split"
    );
}

#[test]
fn json_says_what_each_cell_is() {
    let cells = vec!["a".into(), us(f64::INFINITY), Cell::Missing("gone".into())];
    let json = serde_json::to_value(table(&["x"], vec![cells])).unwrap();
    let expected = json!({
        "title": "",
        "columns": ["x"],
        "rows": [[
            { "text": "a" },
            { "number": { "value": null, "unit": "us", "digits": 0 } },
            { "missing": "gone" },
        ]],
    });
    assert_eq!(json, expected);
}

#[test]
fn displayed_it_has_its_title_and_its_end() {
    let mut titled = table(&["n"], vec![vec![us(1.0)]]);
    titled.title = "one\x1b".to_owned();
    assert_eq!(titled.to_string(), "one\u{fffd}\n──\n n\nus\n──\n 1\n──");
    titled.title.clear();
    assert!(titled.to_string().starts_with('─'));
}
