//! Axes: which part of the numbers is shown, where each falls, and which ticks say so.

use super::number::{self, NARROW_SPACE};

/// Values beyond this are left to the tables: arithmetic on axes must stay finite.
const MAGNITUDE_MAX: f64 = 1e300;
/// Values closer together than this part of their size are one value to a reader.
const RANGE_PART_MIN: f64 = 1e-9;
const LINEAR_STEPS: f64 = 5.0;
/// Above this many decades the ticks between powers of ten only blacken the axis.
const MINOR_DECADES_MAX: i32 = 6;
const LABELLED_DECADES_MAX: i32 = 8;

/// A mapping from values to 0..=1 along an axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Scale {
    /// From tick to tick; none on a logarithmic axis.
    step: Option<f64>,
    pub(super) low: f64,
    pub(super) high: f64,
}

/// A mark on an axis. Those without a label are thinner.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tick {
    pub(super) value: f64,
    pub(super) label: Option<String>,
}

/// Whether a linear axis must show zero. Lengths lie without it, positions do not.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Zero {
    Shown,
    Optional,
}

impl Scale {
    /// An axis with round ends around all finite `values`.
    pub(super) fn linear(values: impl IntoIterator<Item = f64>, zero: Zero) -> Scale {
        // What is closest to zero is zero: dividing by it would pass the end of numbers.
        let flushed = |v: f64| {
            if v.abs() < 1.0 / MAGNITUDE_MAX {
                0.0
            } else {
                v
            }
        };
        let drawable = values.into_iter().filter(|v| v.abs() <= MAGNITUDE_MAX);
        let (mut low, mut high) = bounds(drawable.map(flushed)).unwrap_or((0.0, 1.0));
        if zero == Zero::Shown {
            (low, high) = (low.min(0.0), high.max(0.0));
        }
        let size = low.abs().max(high.abs());
        if size == 0.0 {
            high = 1.0;
        } else if high - low <= size * RANGE_PART_MIN {
            (low, high) = (low - size / 2.0, high + size / 2.0);
        }
        let step = round_step((high - low) / LINEAR_STEPS);
        Scale {
            step: Some(step),
            low: (low / step).floor() * step,
            high: (high / step).ceil() * step,
        }
    }

    /// A logarithmic axis for points: it ends at 1, 2 or 5 times a power of ten.
    pub(super) fn log(values: impl IntoIterator<Item = f64>) -> Scale {
        Scale::logarithmic(values, |least, most| {
            match (
                one_two_five(least, Side::Below),
                one_two_five(most, Side::Above),
            ) {
                (low, high) if low == high => (low / 10.0, high * 10.0),
                ends => ends,
            }
        })
    }

    /// A logarithmic axis for bars: it starts at a power of ten *below* the least value, so that
    /// every bar has a length, and those who read the axis see from where.
    pub(super) fn log_bars(values: impl IntoIterator<Item = f64>) -> Scale {
        Scale::logarithmic(values, |least, most| {
            let start = power_of_ten(decade(least));
            let low = if start >= least { start / 10.0 } else { start };
            (low, one_two_five(most, Side::Above).max(low * 10.0))
        })
    }

    /// An axis whose ends follow from the least and the greatest value that has a place on it.
    fn logarithmic(
        values: impl IntoIterator<Item = f64>,
        ends: impl FnOnce(f64, f64) -> (f64, f64),
    ) -> Scale {
        let drawable = bounds(values.into_iter().filter(|v| can_be_log(*v)));
        let (low, high) = drawable.map_or((1.0, 10.0), |(least, most)| ends(least, most));
        Scale {
            step: None,
            low,
            high,
        }
    }

    /// Where `value` falls, 0 at the low end and 1 at the high one; `None` if it has no place on
    /// this axis (not finite, or not above zero on a logarithmic one).
    pub(super) fn position(&self, value: f64) -> Option<f64> {
        let part = match self.step {
            Some(_) => (value - self.low) / (self.high - self.low),
            None if !can_be_log(value) => return None,
            None => (value / self.low).log10() / (self.high / self.low).log10(),
        };
        // What rounding put a hair past the end is still on the axis; NaN is in no range.
        let is_on_axis = (-1e-6..=1.0 + 1e-6).contains(&part);
        is_on_axis.then(|| part.clamp(0.0, 1.0))
    }

    /// The ticks, low to high.
    pub(super) fn ticks(&self) -> Vec<Tick> {
        let Some(step) = self.step else {
            return self.log_ticks();
        };
        let digits = step_digits(step);
        let count = ((self.high - self.low) / step).round() as u32;
        let tick = |index| {
            // Rounded to the step: 0.30000000000000004 is no label.
            let value = ((self.low / step).round() + f64::from(index)) * step;
            let label = Some(label(value, digits));
            Tick { value, label }
        };
        (0..=count).map(tick).collect()
    }

    fn log_ticks(&self) -> Vec<Tick> {
        let (first, last) = (decade(self.low), decade(self.high));
        let width = (self.high / self.low).log10();
        let every = ((last - first) / LABELLED_DECADES_MAX + 1).max(1);
        let on_axis = self.low * (1.0 - 1e-9)..=self.high * (1.0 + 1e-9);
        let all = (first..=last).flat_map(|exponent| (1..10).map(move |factor| (exponent, factor)));
        let tick = |(exponent, factor): (i32, i32)| {
            let value = f64::from(factor) * power_of_ten(exponent);
            let labelled = match factor {
                1 => (exponent - first) % every == 0,
                2 | 5 => width <= 1.7,
                _ => width <= 0.75,
            };
            let shown = labelled || last - first <= MINOR_DECADES_MAX || factor == 1;
            let digits = usize::try_from(-exponent).unwrap_or(0);
            let label = labelled.then(|| label(value, digits));
            (shown && on_axis.contains(&value)).then_some(Tick { value, label })
        };
        all.filter_map(tick).collect()
    }
}

fn label(value: f64, digits: usize) -> String {
    if value != 0.0 && (value.abs() >= 1e7 || digits > 4) {
        return number::exponent(value);
    }
    number::fixed(value, digits, NARROW_SPACE)
}

fn can_be_log(value: f64) -> bool {
    (1.0 / MAGNITUDE_MAX..=MAGNITUDE_MAX).contains(&value)
}

/// The least and the greatest finite value, if there is any.
fn bounds(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    let finite = values.filter(|v| v.is_finite()).map(|v| (v, v));
    finite.reduce(|(low, high), (v, _)| (low.min(v), high.max(v)))
}

/// The least of 1, 2, 2.5, 5 or 10 times a power of ten that is no smaller than `rough`.
fn round_step(rough: f64) -> f64 {
    let unit = power_of_ten(decade(rough));
    let part = rough / unit;
    let round = [1.0, 2.0, 2.5, 5.0]
        .into_iter()
        .find(|step| part <= step * (1.0 + 1e-9));
    round.unwrap_or(10.0) * unit
}

/// How many digits after the point tell multiples of `step` apart.
fn step_digits(step: f64) -> usize {
    let exponent = decade(step);
    let is_quarter = (step / power_of_ten(exponent) - 2.5).abs() < 1e-6;
    usize::try_from(i32::from(is_quarter) - exponent).unwrap_or(0)
}

enum Side {
    Below,
    Above,
}

/// The closest 1, 2 or 5 times a power of ten on that side of `value`, or `value` if it is one.
fn one_two_five(value: f64, side: Side) -> f64 {
    let unit = power_of_ten(decade(value));
    let part = value / unit;
    let mut steps = [1.0, 2.0, 5.0, 10.0].into_iter();
    let found = match side {
        Side::Below => steps.rfind(|step| *step <= part * (1.0 + 1e-9)),
        Side::Above => steps.find(|step| part <= step * (1.0 + 1e-9)),
    };
    found.unwrap_or(1.0) * unit
}

/// The exponent of the greatest power of ten that is no greater than `value`, which is above 0.
fn decade(value: f64) -> i32 {
    let exponent = value.log10().floor() as i32;
    // The logarithm of 1000 may come out as 2.9999…
    if power_of_ten(exponent + 1) <= value * (1.0 + 1e-12) {
        exponent + 1
    } else {
        exponent
    }
}

fn power_of_ten(exponent: i32) -> f64 {
    // Division keeps 0.1 the same number as the literal, which `powi(-1)` does not promise.
    if exponent < 0 {
        1.0 / 10f64.powi(-exponent)
    } else {
        10f64.powi(exponent)
    }
}
