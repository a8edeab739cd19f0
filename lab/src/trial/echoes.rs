//! The latencies of one cell, a summary for each round.

use super::figures::{Column, column, measured, median, micros, or_else, or_nan, over_rounds};
use crate::load::{EchoSummary, LatencySummary};
use crate::report::{Cell, Lines, Plot};

/// What is told of latencies.
pub(crate) type Figure = Column<EchoSummary>;

pub(crate) const P50: Figure = column("p50", "us", 0, |echo| echo.latency.p50_us);
pub(crate) const P99: Figure = column("p99", "us", 0, |echo| echo.latency.p99_us);
pub(crate) const P999: Figure = or_else(
    "fewer than 10\u{202f}000 requests say nothing of a p99.9",
    over_rounds("p99.9", "us", 0, |rounds| {
        tail(rounds, |echo| Some((echo.requests, &echo.latency)))
    }),
);
pub(crate) const LONGEST: Figure = column("longest", "us", 0, |echo| echo.latency.max_us);
/// Of the requests in whose time no processor stood still, and how many of all these are.
pub(crate) const CALM_P999: Figure = or_else(
    "fewer than 10\u{202f}000 requests are known to have met no processor that stood still",
    over_rounds("p99.9", "us", 0, |rounds| tail(rounds, calm)),
);
pub(crate) const CALM_LONGEST: Figure = column("longest", "us", 0, |echo| {
    or_nan(calm(echo).map(|(_, latency)| latency.max_us))
});
pub(crate) const CALM_PERCENT: Figure = column("calm", "%", 1, |echo| {
    let calm = echo.calm.as_ref();
    or_nan(calm.map(|(requests, _)| percent(*requests, echo)))
});
/// How late whoever asked was itself.
pub(crate) const LATE_P50: Figure = column("late p50", "us", 0, |echo| echo.late_p50_us);
pub(crate) const LATE_P99: Figure = column("late p99", "us", 0, |echo| echo.late_p99_us);
pub(crate) const UNANSWERED: Figure =
    column("no answer", "%", 1, |echo| percent(echo.unanswered, echo));

fn percent(requests: u64, of: &EchoSummary) -> f64 {
    100.0 * requests as f64 / of.requests.max(1) as f64
}

/// A round in which all requests met a stall says nothing.
fn calm(echo: &EchoSummary) -> Option<(u64, &LatencySummary)> {
    let (requests, latency) = echo.calm.as_ref()?;
    (*requests > 0).then_some((*requests, latency))
}

/// The 99.9th percentile, if of all rounds together there were so many requests that ten of them
/// lie beyond it. Of fewer it would be a name for the one or two slowest.
fn tail(
    rounds: &[&EchoSummary],
    of: fn(&EchoSummary) -> Option<(u64, &LatencySummary)>,
) -> Option<f64> {
    const REQUESTS_MIN: u64 = 10_000;
    let told = || rounds.iter().filter_map(|echo| of(echo));
    let requests: u64 = told().map(|(requests, _)| requests).sum();
    let p999 = median(told().map(|(_, latency)| latency.p999_us));
    p999.filter(|_| requests >= REQUESTS_MIN)
}

/// Whether there were rounds, and not one request was answered.
pub(crate) fn is_silent(echoes: &[&EchoSummary]) -> bool {
    !echoes.is_empty() && echoes.iter().all(|echo| echo.unanswered == echo.requests)
}

/// Two figures of microseconds, the first perhaps of too few requests; or why there are none.
pub(crate) fn pair(
    echoes: &[&EchoSummary],
    figures: &[Figure; 2],
    why: impl FnOnce() -> String,
) -> Cell {
    let both = figures.each_ref();
    match both.map(|figure| figure.value(echoes).map(micros)) {
        _ if is_silent(echoes) => "no answer at all".into(),
        [Some(first), Some(second)] => {
            let cell = Cell::Text(format!("{first} / {second}"));
            measured(cell, echoes, &both)
        }
        [None, Some(second)] => {
            let cell = Cell::Text(format!("– / {second}"));
            measured(cell, echoes, &both)
        }
        _ => Cell::Missing(why()),
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
        let told = points.filter(|(one_in, _)| *one_in <= echo.requests as f64);
        told.collect()
    };
    Plot::Lines(Lines {
        title,
        x: format!("one {what} in"),
        y: "latency, us".to_owned(),
        log_x: true,
        log_y: true,
        series: series.map(|(name, echo)| (name, points(echo))).collect(),
    })
}
