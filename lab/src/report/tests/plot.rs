//! Tests of plots: what they draw, and what they do without data.

use crate::report::plot::{COLOURS, colours, table};
use crate::report::svg;
use crate::report::{Bars, Cell, Lines, Plot};

fn draw(plot: &Plot, id: &str) -> String {
    svg::draw(plot, id).into_string()
}

fn bars(log: bool, values: &[f64]) -> Plot {
    let bars = values
        .iter()
        .enumerate()
        .map(|(n, value)| (format!("bar {n}"), *value))
        .collect();
    Plot::Bars(Bars {
        title: "t".into(),
        unit: "us".into(),
        log,
        endless: String::new(),
        groups: vec![("g".into(), bars)],
    })
}

fn line(log: bool, points: Vec<(f64, f64)>) -> Plot {
    Plot::Lines(Lines {
        title: "t".into(),
        x: "x".into(),
        y: "y".into(),
        log_x: log,
        log_y: log,
        series: vec![("s".into(), points)],
    })
}

#[test]
fn those_who_come_often_keep_their_colour() {
    assert_eq!(colours(&["Tokio 1", "Evenkeel"]), [1, 0]);
    assert_eq!(
        colours(&["evenkeel", "tokio", "Go 1.26", "Erlang/OTP 25", "HAProxy"]),
        [0, 1, 2, 3, 4]
    );
    assert_eq!(
        colours(&["none", "evenkeel none", "evenkeel long"]),
        [4, 0, 7]
    );
}

#[test]
fn colours_differ_until_there_are_no_more_and_then_say_so() {
    let names: Vec<String> = (0..20).map(|n| format!("series {n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut found = colours(&names);
    assert!(found[COLOURS..].iter().all(|colour| *colour >= COLOURS));
    found.sort_unstable();
    found.dedup();
    assert_eq!(found.len(), 20);
}

#[test]
fn a_bar_without_an_end_says_why_in_the_drawing_and_in_the_table() {
    let mut plot = bars(true, &[50.0, f64::INFINITY]);
    assert!(draw(&plot, "p").contains(">∞</text>"));
    if let Plot::Bars(Bars { endless, .. }) = &mut plot {
        *endless = "no answer".to_owned();
    }
    let svg = draw(&plot, "p");
    assert!(
        svg.contains(">no answer</text>") && !svg.contains(">∞</text>"),
        "{svg}"
    );
    assert!(matches!(&table(&plot).rows[0][2], Cell::Missing(why) if why == "no answer"));
}

#[test]
fn values_without_a_place_are_said_and_not_drawn() {
    let svg = draw(
        &bars(true, &[f64::NAN, f64::INFINITY, 0.0, -2.0, 50.0]),
        "p",
    );
    assert!(svg.contains("no value") && svg.contains('∞') && svg.contains("0 (no length)"));
    assert!(svg.contains("-2 (no length)"));
    assert_eq!(
        svg.matches("<rect").count(),
        2,
        "fifty, and the one without end"
    );
    assert!(svg.contains("logarithmic: bars start at 10<"), "{svg}");
    let svg = draw(
        &line(
            true,
            vec![(1.0, 1.0), (2.0, f64::NAN), (0.0, 3.0), (4.0, 4.0)],
        ),
        "p",
    );
    assert!(svg.contains("2 points have no place"));
    assert_eq!(
        svg.matches("class=\"line ").count(),
        2,
        "a gap is not bridged"
    );
}

#[test]
fn nothing_at_all_is_drawn_as_nothing() {
    for plot in [
        bars(true, &[]),
        bars(false, &[]),
        line(false, Vec::new()),
        line(true, Vec::new()),
        Plot::Bars(Bars {
            title: String::new(),
            unit: String::new(),
            log: false,
            endless: String::new(),
            groups: Vec::new(),
        }),
    ] {
        let svg = draw(&plot, "p");
        assert!(svg.contains("Nothing was measured."), "{svg}");
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
    }
}

#[test]
fn bars_start_at_zero_and_reach_their_values() {
    let svg = draw(&bars(false, &[-50.0, 100.0]), "p");
    let widths: Vec<f64> = svg
        .split(" width=\"")
        .skip(1)
        .map(|rest| rest.split('"').next().unwrap().parse().unwrap())
        .collect();
    assert!((widths[1] / widths[0] - 2.0).abs() < 0.01, "{widths:?}");
}

#[test]
fn long_series_keep_their_peaks_and_shed_the_rest() {
    let points = (0..100_000).map(|n| (f64::from(n), if n == 54_321 { 900.0 } else { 1.0 }));
    let svg = draw(&line(false, points.collect()), "p");
    let path = svg
        .split("class=\"line")
        .nth(1)
        .unwrap()
        .split('>')
        .next()
        .unwrap();
    assert!(path.matches('L').count() < 1_700);
    // The peak of 900 on an axis to 1000 is a tenth of the height below the top.
    assert!(path.contains(" 64.0"), "the peak is there");
    assert_eq!(
        svg.matches("fill mark ").count(),
        1,
        "one marker, in the name"
    );
}

#[test]
fn the_table_of_a_plot_has_its_numbers() {
    let table = table(&line(false, vec![(1.0, 10.0), (2.0, f64::NAN), (2.0, 5.0)]));
    assert_eq!(table.columns, ["x", "s"]);
    assert_eq!(table.rows.len(), 2);
    assert!(matches!(table.rows[0][1], Cell::Number { value: 10.0, .. }));
    let long = (0..1_000)
        .map(|n| (f64::from(n), f64::from(n % 7)))
        .collect();
    let summary = self::table(&line(false, long));
    assert_eq!(
        summary.columns,
        ["series", "points", "first x", "last x", "least", "greatest"]
    );
    assert!(matches!(
        summary.rows[0][5],
        Cell::Number { value: 6.0, .. }
    ));
}
