//! Plots, and what each drawing of one needs: its names, their colours, its numbers as a table.

use serde::{Deserialize, Deserializer, Serialize};

use super::number::short_digits;
use super::{Cell, Table};

/// A picture of numbers.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum Plot {
    Bars(Bars),
    Lines(Lines),
}

/// Groups of named bars, all in one unit. A bar without an end, of value ∞, is labelled `endless`.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct Bars {
    pub title: String,
    pub unit: String,
    pub log: bool,
    pub endless: String,
    #[serde(deserialize_with = "endless")]
    pub groups: Lists<String>,
}

/// Named series of points; `x` and `y` name the axes, with their units.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Lines {
    pub title: String,
    pub x: String,
    pub y: String,
    pub log_x: bool,
    pub log_y: bool,
    #[serde(deserialize_with = "broken")]
    pub series: Lists<f64>,
}

/// Named lists of pairs: a label or a place, and a number.
pub(crate) type Lists<T> = Vec<(String, Vec<(T, f64)>)>;

/// Colours that are told apart with every common form of colour blindness.
pub(super) const COLOURS: usize = 8;
/// Beyond this many points a table of them is summed up.
const TABLE_ROWS_MAX: usize = 60;

/// Those who come up in every experiment keep their colour from plot to plot.
const KNOWN: [&[&str]; 6] = [
    &["evenkeel"],
    &["tokio"],
    &["go"],
    &["erlang", "otp", "beam"],
    &["haproxy"],
    &["os ", "os-", "thread"],
];

impl Plot {
    pub(super) fn title(&self) -> &str {
        match self {
            Plot::Bars(Bars { title, .. }) | Plot::Lines(Lines { title, .. }) => title,
        }
    }
}

/// Bars as JSON has them: what has no end is `null`.
fn endless<'de, D: Deserializer<'de>>(from: D) -> Result<Lists<String>, D::Error> {
    with_all(from, f64::INFINITY)
}

/// Points as JSON has them: what is not a number is `null`.
fn broken<'de, D: Deserializer<'de>>(from: D) -> Result<Lists<f64>, D::Error> {
    with_all(from, f64::NAN)
}

/// Lists with `missing` where there is no number.
fn with_all<'de, T, D>(from: D, missing: f64) -> Result<Lists<T>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    let lists = Vec::<(String, Vec<(T, Option<f64>)>)>::deserialize(from)?;
    let filled = |(at, value): (T, Option<f64>)| (at, value.unwrap_or(missing));
    let list = |(name, list): (String, Vec<_>)| (name, list.into_iter().map(filled).collect());
    Ok(lists.into_iter().map(list).collect())
}

/// Names, each once, in the order in which they come.
pub(super) fn unique<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    names.fold(Vec::new(), |mut unique, name| {
        if !unique.contains(&name) {
            unique.push(name);
        }
        unique
    })
}

/// A colour for each of `names`. Beyond [`COLOURS`] they repeat: `colour / COLOURS` then says
/// which round it is, for the drawing to tell those apart in another way.
pub(super) fn colours(names: &[&str]) -> Vec<usize> {
    let mut taken = [false; COLOURS];
    let known = names.iter().map(|name| {
        let colour = known(name).filter(|colour| !taken[*colour])?;
        taken[colour] = true;
        Some(colour)
    });
    let known: Vec<Option<usize>> = known.collect();
    // Those that belong to nobody come first, so that few others are ever shown in our own blue.
    let free = [4, 7, 6, 5, 3, 2, 1, 0].into_iter();
    let mut rest = free.filter(|colour| !taken[*colour]).chain(COLOURS..);
    let colour = |own: Option<usize>| own.or_else(|| rest.next());
    known.into_iter().filter_map(colour).collect()
}

/// Whether `name` is our own: shown a little stronger.
pub(super) fn is_ours(name: &str) -> bool {
    has(name, "evenkeel")
}

/// Whether `name` has a colour of its own in every plot.
pub(super) fn is_known(name: &str) -> bool {
    known(name).is_some()
}

fn known(name: &str) -> Option<usize> {
    let is_of = |starts: &&[&str]| starts.iter().any(|start| has(name, start));
    KNOWN.iter().position(is_of)
}

fn has(name: &str, start: &str) -> bool {
    let head = name.get(..start.len());
    head.is_some_and(|head| head.eq_ignore_ascii_case(start))
}

/// The plot's numbers.
pub(super) fn table(plot: &Plot) -> Table {
    let (unit, (columns, rows)) = match plot {
        Plot::Bars(bars) => (&bars.unit, of_bars(&bars.endless, &bars.groups)),
        Plot::Lines(lines) => (&lines.y, of_lines(&lines.x, &lines.series)),
    };
    let comma = if unit.is_empty() { "" } else { ", " };
    Table::new(format!("{}{comma}{unit}", plot.title()), columns, rows)
}

/// Columns and rows.
type Numbers = (Vec<String>, Vec<Vec<Cell>>);

fn of_bars(endless: &str, groups: &Lists<String>) -> Numbers {
    let bars = groups.iter().flat_map(|(_, bars)| bars);
    let names = unique(bars.map(|(name, _)| name.as_str()));
    let row = |(group, bars): &(String, Vec<(String, f64)>)| {
        let cell = |name: &&str| match bars.iter().find(|(bar, _)| bar == name) {
            None => unsaid(),
            Some((_, f64::INFINITY)) if !endless.is_empty() => Cell::Missing(endless.to_owned()),
            Some((_, value)) => number(*value),
        };
        let group = Cell::from(group.as_str());
        [group].into_iter().chain(names.iter().map(cell)).collect()
    };
    let columns = [""].iter().chain(&names).map(|name| (*name).to_owned());
    (columns.collect(), groups.iter().map(row).collect())
}

fn of_lines(x: &str, series: &Lists<f64>) -> Numbers {
    let points = series.iter().flat_map(|(_, points)| points);
    let mut xs: Vec<f64> = points.map(|(x, _)| *x).collect();
    xs.sort_by(f64::total_cmp);
    xs.dedup();
    if xs.len() > TABLE_ROWS_MAX {
        return summed_up(x, series);
    }
    let row = |x: f64| {
        let cells = series.iter().map(|(_, points)| {
            let point = points.iter().find(|(at, _)| at.total_cmp(&x).is_eq());
            point.map_or_else(unsaid, |(_, y)| number(*y))
        });
        [number(x)].into_iter().chain(cells).collect()
    };
    let names = series.iter().map(|(name, _)| name.clone());
    let columns = [x.to_owned()].into_iter().chain(names);
    (columns.collect(), xs.into_iter().map(row).collect())
}

/// Of series too long to print: where each starts and ends, and between what it moves.
fn summed_up(x: &str, series: &Lists<f64>) -> Numbers {
    let (first, last) = (format!("first {x}"), format!("last {x}"));
    let columns = ["series", "points", &first, &last, "least", "greatest"];
    let row = |(name, points): &(String, Vec<(f64, f64)>)| {
        let ys = || points.iter().map(|(_, y)| *y).filter(|y| !y.is_nan());
        let ends = [points.first(), points.last()].map(|point| point.map(|(x, _)| *x));
        let extremes = [ys().reduce(f64::min), ys().reduce(f64::max)];
        let known = ends.into_iter().chain(extremes);
        let known = known.map(|value| value.map_or_else(unsaid, number));
        let named = [Cell::from(name.as_str()), number(points.len() as f64)];
        named.into_iter().chain(known).collect()
    };
    let columns = columns.map(str::to_owned).into();
    (columns, series.iter().map(row).collect())
}

fn unsaid() -> Cell {
    Cell::Missing(String::new())
}

fn number(value: f64) -> Cell {
    Cell::number(value, "", short_digits(value))
}
