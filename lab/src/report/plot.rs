//! What every drawing of a plot needs: its names, their colours, and its numbers as a table.

use serde::{Deserialize, Deserializer};

use super::number::short_digits;
use super::{Cell, Plot, Table};

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
            Plot::Bars { title, .. } | Plot::Lines { title, .. } => title,
        }
    }
}

/// Bars as JSON has them: what has no end is `null`.
pub(super) fn endless<'de, D: Deserializer<'de>>(from: D) -> Result<Lists<String>, D::Error> {
    with_all(from, f64::INFINITY)
}

/// Points as JSON has them: what is not a number is `null`.
pub(super) fn broken<'de, D: Deserializer<'de>>(from: D) -> Result<Lists<f64>, D::Error> {
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

/// The names of a plot's bars or series, each once, in the order in which they come.
pub(super) fn names(plot: &Plot) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    let mut add = |name| {
        if !names.contains(&name) {
            names.push(name);
        }
    };
    match plot {
        Plot::Bars { groups, .. } => {
            groups
                .iter()
                .flat_map(|(_, bars)| bars)
                .for_each(|(name, _)| add(name));
        }
        Plot::Lines { series, .. } => series.iter().for_each(|(name, _)| add(name)),
    }
    names
}

/// A colour for each of `names`. Beyond [`COLOURS`] they repeat: `colour / COLOURS` then says
/// which round it is, for the drawing to tell those apart in another way.
pub(super) fn colours(names: &[&str]) -> Vec<usize> {
    let mut found = vec![None; names.len()];
    let mut taken = [false; COLOURS];
    for (name, found) in names.iter().zip(&mut found) {
        let known = KNOWN
            .iter()
            .position(|starts| starts.iter().any(|start| has(name, start)));
        if let Some(colour) = known.filter(|colour| !taken[*colour]) {
            taken[colour] = true;
            *found = Some(colour);
        }
    }
    // Those that belong to nobody come first, so that few others are ever shown in our own blue.
    let free: Vec<usize> = [4, 7, 6, 5, 3, 2, 1, 0]
        .into_iter()
        .filter(|c| !taken[*c])
        .collect();
    let mut rest = free.into_iter().chain(COLOURS..);
    found
        .into_iter()
        .map(|colour| colour.or_else(|| rest.next()).unwrap_or(0))
        .collect()
}

/// Whether `name` is our own: shown a little stronger.
pub(super) fn is_ours(name: &str) -> bool {
    has(name, "evenkeel")
}

/// Whether `name` has a colour of its own in every plot.
pub(super) fn is_known(name: &str) -> bool {
    KNOWN
        .iter()
        .flat_map(|starts| *starts)
        .any(|start| has(name, start))
}

fn has(name: &str, start: &str) -> bool {
    name.get(..start.len())
        .is_some_and(|head| head.eq_ignore_ascii_case(start))
}

/// The plot's numbers.
pub(super) fn table(plot: &Plot) -> Table {
    match plot {
        Plot::Bars {
            title,
            unit,
            endless,
            groups,
            ..
        } => bars_table(&with_unit(title, unit), endless, groups, &names(plot)),
        Plot::Lines {
            title,
            x,
            y,
            series,
            ..
        } => {
            let mut xs: Vec<f64> = series
                .iter()
                .flat_map(|(_, points)| points)
                .map(|(x, _)| *x)
                .collect();
            xs.sort_by(f64::total_cmp);
            xs.dedup();
            if xs.len() <= TABLE_ROWS_MAX {
                lines_table(title, x, y, series, &xs)
            } else {
                summary_table(title, x, y, series)
            }
        }
    }
}

fn bars_table(title: &str, endless: &str, groups: &Lists<String>, names: &[&str]) -> Table {
    let columns = [String::new()]
        .into_iter()
        .chain(names.iter().map(|name| (*name).to_owned()))
        .collect();
    let rows = groups
        .iter()
        .map(|(group, bars)| {
            let cells = names.iter().map(|name| {
                let bar = bars.iter().find(|(bar, _)| bar == name);
                match bar {
                    None => Cell::Missing(String::new()),
                    Some((_, value)) if *value == f64::INFINITY && !endless.is_empty() => {
                        Cell::Missing(endless.to_owned())
                    }
                    Some((_, value)) => number(*value),
                }
            });
            [Cell::Text(group.clone())]
                .into_iter()
                .chain(cells)
                .collect()
        })
        .collect();
    Table {
        title: title.to_owned(),
        columns,
        rows,
    }
}

fn lines_table(title: &str, x: &str, y: &str, series: &Lists<f64>, xs: &[f64]) -> Table {
    let columns = [x.to_owned()]
        .into_iter()
        .chain(series.iter().map(|(name, _)| name.clone()))
        .collect();
    let rows = xs
        .iter()
        .map(|x| {
            let cells = series.iter().map(|(_, points)| {
                let point = points.iter().find(|(at, _)| at.total_cmp(x).is_eq());
                point.map_or_else(|| Cell::Missing(String::new()), |(_, y)| number(*y))
            });
            [number(*x)].into_iter().chain(cells).collect()
        })
        .collect();
    Table {
        title: with_unit(title, y),
        columns,
        rows,
    }
}

/// For series too long to print: where each starts and ends, and between what it moves.
fn summary_table(title: &str, x: &str, y: &str, series: &Lists<f64>) -> Table {
    let columns = [
        "series",
        "points",
        &format!("first {x}"),
        &format!("last {x}"),
        "least",
        "greatest",
    ];
    let rows = series
        .iter()
        .map(|(name, points)| {
            let ys = || points.iter().map(|(_, y)| *y).filter(|y| !y.is_nan());
            let known = |value: Option<f64>| value.map_or(Cell::Missing(String::new()), number);
            vec![
                Cell::Text(name.clone()),
                number(points.len() as f64),
                known(points.first().map(|(x, _)| *x)),
                known(points.last().map(|(x, _)| *x)),
                known(ys().reduce(f64::min)),
                known(ys().reduce(f64::max)),
            ]
        })
        .collect();
    Table {
        title: with_unit(title, y),
        columns: columns.map(str::to_owned).to_vec(),
        rows,
    }
}

fn with_unit(title: &str, unit: &str) -> String {
    if unit.is_empty() {
        title.to_owned()
    } else {
        format!("{title}, {unit}")
    }
}

fn number(value: f64) -> Cell {
    Cell::Number {
        value,
        unit: "",
        digits: short_digits(value),
    }
}
