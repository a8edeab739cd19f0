//! Tests of scales and their ticks.

use crate::report::scale::{Scale, Zero};

fn labels(scale: &Scale) -> Vec<String> {
    scale
        .ticks()
        .into_iter()
        .filter_map(|tick| tick.label)
        .collect()
}

#[test]
fn linear_axes_have_round_ends_and_round_ticks() {
    let scale = Scale::linear([3.0, 47.0], Zero::Shown);
    assert_eq!((scale.low, scale.high), (0.0, 50.0));
    assert_eq!(labels(&scale), ["0", "10", "20", "30", "40", "50"]);
    assert_eq!(
        labels(&Scale::linear([0.0, 1.1], Zero::Shown)),
        ["0.00", "0.25", "0.50", "0.75", "1.00", "1.25"]
    );
    assert_eq!(labels(&Scale::linear([-0.3, 0.31], Zero::Shown))[0], "-0.4");
    let near = Scale::linear([1_000.0, 1_010.0], Zero::Optional);
    assert_eq!((near.low, near.high), (1_000.0, 1_010.0));
    assert_eq!(labels(&near)[0], "1\u{202f}000");
}

#[test]
fn linear_axes_survive_any_values() {
    let awkward: [&[f64]; 8] = [
        &[f64::MIN_POSITIVE, 1e-305],
        &[],
        &[f64::NAN, f64::INFINITY, f64::NEG_INFINITY],
        &[0.0],
        &[7.0, 7.0],
        &[-5.0],
        &[f64::MAX, f64::MIN, f64::MIN_POSITIVE],
        &[1e300, -1e300],
    ];
    for zero in [Zero::Shown, Zero::Optional] {
        for values in awkward {
            let scale = Scale::linear(values.iter().copied(), zero);
            assert!(scale.low < scale.high, "{values:?} gives {scale:?}");
            let ticks = scale.ticks();
            assert!(
                (2..=12).contains(&ticks.len()),
                "{values:?} gives {ticks:?}"
            );
            for tick in ticks {
                assert!(scale.position(tick.value).is_some());
            }
        }
    }
}

#[test]
fn linear_positions_run_from_end_to_end() {
    let scale = Scale::linear([0.0, 100.0], Zero::Shown);
    assert_eq!(scale.position(0.0), Some(0.0));
    assert_eq!(scale.position(25.0), Some(0.25));
    assert_eq!(scale.position(100.0), Some(1.0));
    assert_eq!(scale.position(f64::NAN), None);
    assert_eq!(scale.position(f64::INFINITY), None);
}

#[test]
fn log_axes_label_decades_and_mark_what_lies_between() {
    let scale = Scale::log([130.0, 42_000.0]);
    assert_eq!((scale.low, scale.high), (100.0, 50_000.0));
    assert_eq!(labels(&scale), ["100", "1\u{202f}000", "10\u{202f}000"]);
    let ticks = scale.ticks();
    assert_eq!(
        ticks.len(),
        9 + 9 + 5,
        "every multiple of each decade has its tick"
    );
    assert!(ticks.is_sorted_by(|a, b| a.value < b.value));
}

#[test]
fn log_axes_of_little_range_still_have_labels() {
    assert_eq!(labels(&Scale::log([21.0, 48.0])), ["20", "30", "40", "50"]);
    assert_eq!(
        labels(&Scale::log([0.12, 1.9])),
        ["0.1", "0.2", "0.5", "1", "2"]
    );
    assert_eq!(labels(&Scale::log([100.0])), ["10", "100", "1\u{202f}000"]);
}

#[test]
fn log_axes_of_great_range_are_not_black_with_labels() {
    let scale = Scale::log([1e-9, 1e12]);
    let labels = labels(&scale);
    assert!((4..=9).contains(&labels.len()), "{labels:?}");
    assert_eq!(labels[0], "10⁻⁹");
}

#[test]
fn log_positions_are_equal_for_equal_ratios() {
    let scale = Scale::log([1.0, 10_000.0]);
    assert!((scale.position(10.0).unwrap() - 0.25).abs() < 1e-12);
    assert!((scale.position(100.0).unwrap() - 0.5).abs() < 1e-12);
    for value in [0.0, -1.0, f64::NAN, f64::INFINITY, f64::MIN_POSITIVE] {
        assert_eq!(scale.position(value), None, "{value}");
    }
}

#[test]
fn log_bars_all_have_a_length() {
    for values in [
        &[331.0, 9e5][..],
        &[100.0],
        &[1.0, 1.0],
        &[1e-7, 3.0],
        &[0.0, -3.0, 12.0],
    ] {
        let scale = Scale::log_bars(values.iter().copied());
        for value in values.iter().filter(|value| **value > 0.0) {
            assert!(
                scale.position(*value).unwrap() > 0.0,
                "{value} on {scale:?}"
            );
        }
    }
    assert_eq!(Scale::log_bars([100.0, 2e5]).low, 10.0);
    assert_eq!(Scale::log_bars([331.0, 2e5]).low, 100.0);
}

#[test]
fn log_axes_survive_any_values() {
    for values in [
        &[][..],
        &[0.0],
        &[-1.0, f64::NAN],
        &[f64::INFINITY],
        &[1e299, 1e-299],
    ] {
        for scale in [
            Scale::log(values.iter().copied()),
            Scale::log_bars(values.iter().copied()),
        ] {
            assert!(scale.low > 0.0 && scale.low < scale.high && scale.high.is_finite());
            assert!(
                labels(&scale).len() >= 2,
                "{values:?} gives {:?}",
                labels(&scale)
            );
        }
    }
}
