//! Axes: which part of the numbers is shown, where each falls, and which ticks say so.

use super::number::{self, NARROW_SPACE};

/// Values beyond this are left to the tables: arithmetic on axes must stay finite.
const MAGNITUDE_MAX: f64 = 1e300;
/// Values closer together than this part of their size are one value to a reader.
const RANGE_PART_MIN: f64 = 1e-9;
/// What a quotient may be off by rounding.
const HAIR: f64 = 1e-9;
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
        let is_tiny = |value: f64| value.abs() < 1.0 / MAGNITUDE_MAX;
        let flushed = |value: f64| if is_tiny(value) { 0.0 } else { value };
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
        let step = round_up((high - low) / LINEAR_STEPS, &[1.0, 2.0, 2.5, 5.0]);
        Scale {
            step: Some(step),
            low: (low / step).floor() * step,
            high: (high / step).ceil() * step,
        }
    }

    /// A logarithmic axis for points: it ends at 1, 2 or 5 times a power of ten.
    pub(super) fn log(values: impl IntoIterator<Item = f64>) -> Scale {
        Scale::logarithmic(values, |least, most| {
            match (round_down(least), round_up(most, &[1.0, 2.0, 5.0])) {
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
            let low = if start < least { start } else { start / 10.0 };
            (low, round_up(most, &[1.0, 2.0, 5.0]).max(low * 10.0))
        })
    }

    /// An axis whose ends follow from the least and the greatest value that has a place on it.
    fn logarithmic(
        values: impl IntoIterator<Item = f64>,
        ends: impl FnOnce(f64, f64) -> (f64, f64),
    ) -> Scale {
        let drawable = bounds(values.into_iter().filter(|v| can_be_log(*v)));
        let (low, high) = drawable.map_or((1.0, 10.0), |(least, most)| ends(least, most));
        let step = None;
        Scale { step, low, high }
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
        // A step of 2.5 has a digit more than its power of ten.
        let exponent = decade(step);
        let is_quarter = (step / power_of_ten(exponent) - 2.5).abs() < HAIR;
        let digits = usize::try_from(i32::from(is_quarter) - exponent).unwrap_or(0);
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
        let on_axis = self.low * (1.0 - HAIR)..=self.high * (1.0 + HAIR);
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
    match value != 0.0 && (value.abs() >= 1e7 || digits > 4) {
        true => number::exponent(value),
        false => number::fixed(value, digits, NARROW_SPACE),
    }
}

fn can_be_log(value: f64) -> bool {
    (1.0 / MAGNITUDE_MAX..=MAGNITUDE_MAX).contains(&value)
}

/// The least and the greatest finite value, if there is any.
fn bounds(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    let finite = values.filter(|v| v.is_finite()).map(|v| (v, v));
    finite.reduce(|(low, high), (v, _)| (low.min(v), high.max(v)))
}

/// The least power of ten, or one of these times it, that is no smaller than `value`.
fn round_up(value: f64, steps: &[f64]) -> f64 {
    let unit = power_of_ten(decade(value));
    let mut steps = steps.iter().copied();
    let step = steps.find(|step| value / unit <= step * (1.0 + HAIR));
    step.unwrap_or(10.0) * unit
}

/// The greatest 1, 2 or 5 times a power of ten that is no greater than `value`.
fn round_down(value: f64) -> f64 {
    let unit = power_of_ten(decade(value));
    let mut steps = [5.0, 2.0].into_iter();
    let step = steps.find(|step| *step <= value / unit * (1.0 + HAIR));
    step.unwrap_or(1.0) * unit
}

/// The exponent of the greatest power of ten that is no greater than `value`, which is above 0.
fn decade(value: f64) -> i32 {
    // As it is written, which is exact: the logarithm of 1000 may come out as 2.9999… What lies a
    // hair below a power of ten is meant to be it.
    let written = format!("{:e}", value * (1.0 + HAIR));
    let (_, exponent) = written.split_once('e').unwrap_or_default();
    exponent.parse().unwrap_or(0)
}

/// The number that the literal is.
fn power_of_ten(exponent: i32) -> f64 {
    format!("1e{exponent}").parse().unwrap_or(f64::NAN)
}
