//! Medians, ratios and spreads.

use std::fmt;

/// The median; of an even number of figures the mean of the middle two. NaN is left out, infinity
/// is not. `None` without figures.
///
/// # Examples
///
/// ```
/// use evenkeel_measure::statistics::median;
///
/// assert_eq!(median([4.0, 1.0, f64::NAN, 3.0, 2.0]), Some(2.5));
/// ```
pub fn median(figures: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut figures: Vec<f64> = figures.into_iter().filter(|f| !f.is_nan()).collect();
    figures.sort_by(f64::total_cmp);
    let middle = figures.len() / 2;
    match figures.len() {
        0 => None,
        odd if odd % 2 == 1 => Some(figures[middle]),
        _ => Some(f64::midpoint(figures[middle - 1], figures[middle])),
    }
}

/// The geometric mean. The mean of inverted ratios is the inverse of their mean. `None` without
/// ratios.
pub fn geometric_mean(ratios: impl IntoIterator<Item = f64>) -> Option<f64> {
    let logs: Vec<f64> = ratios.into_iter().map(f64::ln).collect();
    let sum: f64 = logs.iter().sum();
    (!logs.is_empty()).then(|| (sum / logs.len() as f64).exp())
}

/// Which figures are the better ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// For example of times.
    Less,
    /// For example of throughputs.
    More,
}

impl Better {
    /// The ratio of two figures, inverted if less is better: above 1, `ours` is better. 1 for
    /// equal ones, also if they are 0.
    pub fn ratio(self, ours: f64, theirs: f64) -> f64 {
        match self {
            _ if ours == theirs => 1.0,
            Self::Less => theirs / ours,
            Self::More => ours / theirs,
        }
    }

    /// The ratio of figures by round; `None` without rounds.
    pub fn ratio_of_rounds(self, ours: &[f64], theirs: &[f64]) -> Option<Ratio> {
        let each = ours.iter().zip(theirs).map(|(a, b)| self.ratio(*a, *b));
        Some(Ratio {
            of_medians: self.ratio(
                median(ours.iter().copied())?,
                median(theirs.iter().copied())?,
            ),
            spread: Spread::of(each)?,
        })
    }
}

/// The ratio of a candidate to another; above 1 it is better.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    /// The ratio of the two medians.
    pub of_medians: f64,
    /// The spread of the ratios of single rounds. If it includes 1, the ratio decides nothing.
    pub spread: Spread,
}

/// The least and the greatest figure. Displayed as `0.98 .. 1.02`, with two digits after the point
/// unless the format has a precision.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The least figure.
    pub least: f64,
    /// The greatest figure.
    pub greatest: f64,
}

impl Spread {
    /// The spread of these figures; `None` without figures.
    pub fn of(figures: impl IntoIterator<Item = f64>) -> Option<Self> {
        let each = figures.into_iter().map(|figure| Self {
            least: figure,
            greatest: figure,
        });
        each.reduce(|all, one| Self {
            least: all.least.min(one.least),
            greatest: all.greatest.max(one.greatest),
        })
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = f.precision().unwrap_or(2);
        write!(f, "{:.digits$} .. {:.digits$}", self.least, self.greatest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_is_the_middle() {
        assert_eq!(median([3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median([4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median([f64::NAN, 5.0]), Some(5.0));
        let never = f64::INFINITY;
        assert_eq!(median([never, 1.0, never]), Some(never));
        assert_eq!(median([]), None);
    }

    #[test]
    fn a_geometric_mean_is_of_ratios() {
        for (ratios, expected) in [([4.0, 0.25, 1.0], 1.0), ([2.0, 8.0, 4.0], 4.0)] {
            let mean = geometric_mean(ratios).unwrap();
            assert!((mean - expected).abs() < 1e-12, "{mean} of {ratios:?}");
        }
        assert_eq!(geometric_mean([]), None);
    }

    #[test]
    fn above_1_is_better_whichever_way_figures_count() {
        let (ours, theirs) = ([10.0, 20.0, 40.0], [20.0, 30.0, 30.0]);
        let less = Better::Less.ratio_of_rounds(&ours, &theirs).unwrap();
        assert_eq!(less.of_medians, 1.5);
        assert_eq!((less.spread.least, less.spread.greatest), (0.75, 2.0));
        let more = Better::More.ratio_of_rounds(&theirs, &ours).unwrap();
        assert_eq!(more, less);
        assert_eq!(Better::More.ratio_of_rounds(&[], &[]), None);
        assert_eq!(Better::Less.ratio(0.0, 0.0), 1.0);
    }

    #[test]
    fn a_spread_has_as_many_digits_as_asked_for() {
        let spread = Spread::of([1.0, 0.5, 2.25]).unwrap();
        assert_eq!(spread.to_string(), "0.50 .. 2.25");
        assert_eq!(format!("{spread:.3}"), "0.500 .. 2.250");
        assert_eq!(Spread::of([]), None);
    }
}
