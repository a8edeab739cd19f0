//! The latencies of one cell, a summary for each round.

use self::Figure::{CalmLongest, CalmP999, CalmPercent, LateP50, LateP99, Longest};
use self::Figure::{P50, P99, P999, Unanswered};
use super::figures::{grouped, median, micros, or_nan};
use crate::load::{EchoSummary, LatencySummary};
use crate::report::{Cell, Plot};

/// Requests, of all rounds together, from which a 99.9th percentile is quoted: ten of them lie
/// beyond it. Of fewer it would be a name for the one or two slowest.
pub(crate) const P999_REQUESTS_MIN: u64 = 10_000;

/// What is told of latencies, in microseconds if nothing else is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Figure {
    P50,
    P99,
    P999,
    Longest,
    /// Of the requests in whose time no processor stood still, and how many of all these are.
    CalmP999,
    CalmLongest,
    CalmPercent,
    /// How late whoever asked was itself.
    LateP50,
    LateP99,
    /// In percent.
    Unanswered,
}

impl Figure {
    fn of(self, found: &EchoSummary) -> f64 {
        let percent = |count: u64| 100.0 * count as f64 / found.requests.max(1) as f64;
        // A round in which all requests met a stall says nothing.
        let calm = found.calm.as_ref().filter(|(requests, _)| *requests > 0);
        let calm = |of: fn(&LatencySummary) -> f64| or_nan(calm.map(|(_, latency)| of(latency)));
        match self {
            P50 => found.latency.p50_us,
            P99 => found.latency.p99_us,
            P999 => found.latency.p999_us,
            Longest => found.latency.max_us,
            CalmP999 => calm(|latency| latency.p999_us),
            CalmLongest => calm(|latency| latency.max_us),
            CalmPercent => or_nan(found.calm.as_ref().map(|(requests, _)| percent(*requests))),
            LateP50 => found.late_p50_us,
            LateP99 => found.late_p99_us,
            Unanswered => percent(found.unanswered),
        }
    }
}

/// All rounds that found something.
pub(crate) struct Echoes<'a>(pub(crate) Vec<&'a EchoSummary>);

impl Echoes<'_> {
    /// Whether not one request was answered.
    pub(crate) fn is_silent(&self) -> bool {
        let silent = |echo: &&EchoSummary| echo.unanswered == echo.requests;
        !self.0.is_empty() && self.0.iter().all(silent)
    }

    pub(crate) fn median(&self, figure: Figure) -> Option<f64> {
        median(self.0.iter().map(|echo| figure.of(echo)))
    }

    /// Whether there were enough requests for this figure.
    pub(crate) fn enough(&self, figure: Figure) -> Result<(), String> {
        let calm = || self.0.iter().filter_map(|echo| echo.calm.as_ref());
        let requests: u64 = match figure {
            P999 => self.0.iter().map(|echo| echo.requests).sum(),
            CalmP999 if calm().next().is_none() => {
                return Err("no thread could see whether a processor stood still".to_owned());
            }
            CalmP999 => calm().map(|(requests, _)| *requests).sum(),
            _ => return Ok(()),
        };
        if requests >= P999_REQUESTS_MIN {
            return Ok(());
        }
        let least = grouped(P999_REQUESTS_MIN as f64, 0);
        Err(format!(
            "fewer than {least} requests say nothing of a p99.9"
        ))
    }

    /// Two figures of microseconds, or why there are none.
    pub(crate) fn pair(&self, figures: [Figure; 2], why: impl FnOnce() -> String) -> Cell {
        if self.is_silent() {
            return Cell::from("no answer at all");
        }
        let both = figures.map(|figure| match self.enough(figure) {
            Ok(()) => self.median(figure).map(micros),
            Err(_) => self.median(figure).map(|_| "–".to_owned()),
        });
        match both {
            [Some(first), Some(second)] => Cell::Text(format!("{first} / {second}")),
            _ => Cell::Missing(why()),
        }
    }
}

/// Whole distributions as curves: how slow the slowest request in so many was. The tail becomes the
/// right half of the axis, as far as there were that many requests.
pub(crate) fn curves<'a>(
    title: String,
    what: &str,
    series: impl Iterator<Item = (String, &'a EchoSummary)>,
) -> Plot {
    let points = |echo: &EchoSummary| {
        let curve = echo.latency.curve.iter();
        let points = curve.map(|(share, us)| (1.0 / (1.0 - share), *us));
        points
            .filter(|(one_in, _)| *one_in <= echo.requests as f64)
            .collect()
    };
    Plot::Lines {
        title,
        x: format!("one {what} in"),
        y: "latency, us".to_owned(),
        log_x: true,
        log_y: true,
        series: series.map(|(name, echo)| (name, points(echo))).collect(),
    }
}
