//! What readings say of every second. Pure.

use super::contest::{Reading, Readings};

/// How time was split, in the worst second and over all.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub(crate) struct Split {
    /// What each class should have of the whole, in percent.
    pub(crate) due_percent: Vec<f64>,
    /// What it had over all readings.
    pub(crate) had_percent: Vec<f64>,
    /// How far any class was from its due in any second, in percent of the whole.
    pub(crate) worst_error: f64,
    /// The least that any class had in any second, in microseconds.
    pub(crate) least_us: f64,
    /// What all classes together had, in cores.
    pub(crate) cores: f64,
    /// How many stretches of a second were looked at; they overlap.
    pub(crate) windows: usize,
}

const WINDOW_US: u64 = 1_000_000;

/// The split of what `had` says of a reading; `None` where a reading does not say it, or they are
/// of less than a second.
pub(crate) fn split<'a>(
    of: &'a Readings,
    had: impl Fn(&'a Reading) -> Option<&'a [u64]>,
) -> Option<Split> {
    let point = |reading: &'a Reading| Some((reading.at_us, had(reading)?));
    let points: Vec<(u64, &[u64])> = of.readings.iter().map(point).collect::<Option<_>>()?;
    let due_percent = percent(&of.weights.iter().map(|w| u64::from(*w)).collect::<Vec<_>>())?;
    let (first, last) = (points.first()?, points.last()?);
    let all = between(first.1, last.1);
    let mut split = Split {
        had_percent: percent(&all)?,
        cores: all.iter().sum::<u64>() as f64 / last.0.saturating_sub(first.0).max(1) as f64,
        due_percent,
        worst_error: 0.0,
        least_us: f64::INFINITY,
        windows: 0,
    };
    for (index, (to, after)) in points.iter().enumerate() {
        // The latest reading that lies a whole second back.
        let mut starts = points[..index].iter().rev();
        let start = starts.find(|(from, _)| to.saturating_sub(*from) >= WINDOW_US);
        if let Some((from, before)) = start {
            split.look_at(&between(before, after), to - from);
        }
    }
    (split.windows > 0).then_some(split)
}

impl Split {
    fn look_at(&mut self, had: &[u64], length_us: u64) {
        self.windows += 1;
        let a_second = WINDOW_US as f64 / length_us as f64;
        let least = had.iter().min().copied().unwrap_or(0) as f64 * a_second;
        self.least_us = self.least_us.min(least);
        // A second in which nobody had anything is as wrong as can be.
        let worst = percent(had).map_or(100.0, |percent| {
            let pairs = percent.iter().zip(&self.due_percent);
            let errors = pairs.map(|(had, due)| (had - due).abs());
            errors.fold(0.0, f64::max)
        });
        self.worst_error = self.worst_error.max(worst);
    }
}

fn between(before: &[u64], after: &[u64]) -> Vec<u64> {
    let pairs = std::iter::zip(after, before);
    let between = pairs.map(|(after, before)| after.saturating_sub(*before));
    between.collect()
}

/// Each part of the whole in percent; `None` of nothing.
fn percent(parts: &[u64]) -> Option<Vec<f64>> {
    let whole: u64 = parts.iter().sum();
    let part = |part: &u64| 100.0 * *part as f64 / whole as f64;
    (whole > 0).then(|| parts.iter().map(part).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Readings every 500 ms, in milliseconds of two classes.
    fn readings(weights: [u32; 2], had_ms: &[[u64; 2]]) -> Readings {
        let reading = |(index, had): (usize, &[u64; 2])| Reading {
            at_us: 500_000 * index as u64,
            run_us: None,
            work_us: had.iter().map(|ms| ms * 1_000).collect(),
        };
        Readings {
            runtime: "x".to_owned(),
            workers: 1,
            weights: weights.into(),
            readings: had_ms.iter().enumerate().map(reading).collect(),
        }
    }

    fn by_work(readings: &Readings) -> Option<Split> {
        split(readings, |reading| Some(&reading.work_us))
    }

    #[test]
    fn the_worst_second_counts_and_not_the_mean() {
        // 1:1 over all, but the first class has 3/4 of the first second and 1/4 of the last.
        let had = [[0, 0], [375, 125], [750, 250], [875, 625], [1_000, 1_000]];
        let split = by_work(&readings([1, 1], &had)).expect("two seconds");
        assert_eq!(split.had_percent, [50.0, 50.0]);
        assert_eq!(split.worst_error, 25.0);
        assert_eq!(split.least_us, 250_000.0);
        assert_eq!((split.windows, split.cores), (3, 1.0));
    }

    #[test]
    fn an_exact_split_has_no_error() {
        let had = [[0, 0], [45, 450], [90, 900]];
        let split = by_work(&readings([1, 10], &had)).expect("a second");
        assert!(split.worst_error < 1e-9, "{split:?}");
        assert!((split.cores - 0.99).abs() < 1e-9);
    }

    #[test]
    fn a_class_without_time_for_a_second_is_seen() {
        let had = [[0, 0], [0, 500], [0, 1_000], [10, 1_490]];
        let split = by_work(&readings([1, 1_000], &had)).expect("more than a second");
        assert_eq!(split.least_us, 0.0);
    }

    #[test]
    fn a_second_without_any_time_is_as_wrong_as_can_be() {
        let had = [[0, 0], [500, 500], [500, 500], [500, 500], [900, 900]];
        let split = by_work(&readings([1, 1], &had)).expect("two seconds");
        assert_eq!(split.worst_error, 100.0);
    }

    #[test]
    fn less_than_a_second_says_nothing() {
        assert_eq!(by_work(&readings([1, 1], &[[0, 0], [9, 9]])), None);
        let had = [[0, 0], [9, 9], [18, 18]];
        assert_eq!(
            split(&readings([1, 1], &had), |r| r.run_us.as_deref()),
            None
        );
    }
}
