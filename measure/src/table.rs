//! Tables as aligned text: numbers to the right, thin rules, never wider than asked for.

use std::borrow::Cow;
use std::fmt;

use serde::Serialize;
use unicode_width::UnicodeWidthStr;

use crate::number::{self, SPACE, fixed, printable};

/// Rows of cells under named columns. Displayed as its title and its [`lines`], at most a hundred
/// columns wide.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Table {
    /// The text above the table; may be empty.
    pub title: String,
    /// The names of the columns.
    pub columns: Vec<String>,
    /// The cells by row. A row may be shorter than the header, or longer.
    pub rows: Vec<Vec<Cell>>,
}

/// One entry of a table.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Cell {
    /// Text.
    Text(String),
    /// Shown with `digits` digits after the point. A value that is not finite is shown as such in
    /// text, and is `null` in JSON, which has no other way to say it.
    Number {
        /// The number.
        value: f64,
        /// Shown in the header if all numbers of the column share it, else beside each number.
        unit: &'static str,
        /// The number of digits after the point.
        digits: usize,
    },
    /// There is no value. The reason, unless it is empty, becomes a footnote.
    Missing(String),
    /// A cell with the figures that it comes from.
    Measured {
        /// What is shown.
        shown: Box<Cell>,
        /// For each figure that is shown, what every round came to.
        rounds: Vec<Vec<f64>>,
        /// Shown behind it; may be empty.
        mark: String,
    },
}

impl Table {
    /// A table of these columns and rows. The title may be empty.
    pub fn new(
        title: impl Into<String>,
        columns: impl IntoIterator<Item: ToString>,
        rows: impl IntoIterator<Item = Vec<Cell>>,
    ) -> Self {
        Self {
            title: title.into(),
            columns: columns.into_iter().map(|name| name.to_string()).collect(),
            rows: rows.into_iter().collect(),
        }
    }
}

impl Cell {
    /// A cell that shows figures, with what every round came to of each.
    pub fn measured(self, rounds: Vec<Vec<f64>>) -> Self {
        Self::Measured {
            shown: Box::new(self),
            rounds,
            mark: String::new(),
        }
    }

    /// What is shown of it, without a mark.
    pub fn shown(&self) -> &Self {
        match self {
            Self::Measured { shown, .. } => shown,
            shown => shown,
        }
    }

    /// A number with so many digits after the point. The unit may be empty.
    pub fn number(value: f64, unit: &'static str, digits: usize) -> Self {
        Self::Number {
            value,
            unit,
            digits,
        }
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Cell {
        Cell::Text(text.to_owned())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Cell {
        Cell::Text(text)
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut all = match self.title.is_empty() {
            true => Vec::new(),
            false => wrap(&printable(&self.title), WIDTH),
        };
        all.extend(lines(self, WIDTH));
        f.write_str(&all.join("\n"))
    }
}

/// How wide a displayed table may be.
const WIDTH: usize = 100;
const GAP: usize = 2;
/// A column of text is not wrapped narrower than this: one word per line is no table.
const TEXT_WIDTH_MIN: usize = 14;

/// The table as lines of at most `width` columns, without its title. Text is wrapped and, if that
/// is not enough, columns that find no place follow in a further table below, each of which
/// repeats the first column. Only a single column that is itself too wide passes `width`.
pub fn lines(table: &Table, width: usize) -> Vec<String> {
    let mut footnotes = Vec::new();
    let columns = columns(table, &mut footnotes);
    let widths = widths(&columns, width);
    let mut lines = Vec::new();
    for panel in panels(&widths, width) {
        if !lines.is_empty() {
            lines.push(String::new());
        }
        draw(&columns, &widths, &panel, &mut lines);
    }
    for (index, reason) in footnotes.iter().enumerate() {
        let note = format!("{} {reason}", mark(index));
        lines.extend(wrap(&note, width));
    }
    lines
}

/// The unit that all numbers of a column share, if its name does not say it already.
pub fn shared_unit(table: &Table, column: usize) -> Option<&'static str> {
    let mut units = table
        .rows
        .iter()
        .filter_map(|row| match row.get(column).map(Cell::shown) {
            Some(Cell::Number { unit, .. }) => Some(*unit),
            _ => None,
        });
    let first = units.next()?;
    (!first.is_empty() && units.all(|unit| unit == first)).then_some(first)
}

/// Whether a column's name already ends in `unit`: `p99 us`, `p99, us`, `p99 (us)`.
pub fn names_unit(name: &str, unit: &str) -> bool {
    let name = name.trim_end_matches([')', ']']);
    name.strip_suffix(unit)
        .is_some_and(|rest| rest.ends_with([' ', ',', '(', '[']))
}

/// A column is one of numbers if it holds any and no text.
pub fn is_numeric(table: &Table, column: usize) -> bool {
    let cells = || {
        table
            .rows
            .iter()
            .filter_map(|row| row.get(column))
            .map(Cell::shown)
    };
    cells().any(|cell| matches!(cell, Cell::Number { .. }))
        && !cells().any(|cell| matches!(cell, Cell::Text(_)))
}

/// How many columns the table has, whichever of its rows or its header is longest.
pub fn column_count(table: &Table) -> usize {
    let longest = table.rows.iter().map(Vec::len).max().unwrap_or(0);
    longest.max(table.columns.len())
}

struct Column {
    name: String,
    unit: &'static str,
    numeric: bool,
    cells: Vec<String>,
}

fn columns(table: &Table, footnotes: &mut Vec<String>) -> Vec<Column> {
    let count = column_count(table);
    let mut columns: Vec<Column> = (0..count)
        .map(|index| {
            let name = table
                .columns
                .get(index)
                .map_or_else(String::new, |name| printable(name));
            let unit = shared_unit(table, index).unwrap_or("");
            let unit = if names_unit(&name, unit) { "" } else { unit };
            Column {
                name,
                unit,
                numeric: is_numeric(table, index),
                cells: Vec::new(),
            }
        })
        .collect();
    // Row by row, so that footnotes are numbered in the order of reading.
    for row in &table.rows {
        for (index, column) in columns.iter_mut().enumerate() {
            let unit_above = shared_unit(table, index).is_some();
            column
                .cells
                .push(cell_text(row.get(index), unit_above, footnotes));
        }
    }
    columns
}

fn cell_text(cell: Option<&Cell>, unit_above: bool, footnotes: &mut Vec<String>) -> String {
    match cell {
        None => String::new(),
        Some(Cell::Measured { shown, mark, .. }) => {
            let text = cell_text(Some(shown), unit_above, footnotes);
            let space = if mark.is_empty() { "" } else { " " };
            format!("{text}{space}{mark}")
        }
        Some(Cell::Text(text)) => printable(text),
        Some(Cell::Number {
            value,
            unit,
            digits,
        }) => {
            let value = fixed(*value, *digits, SPACE);
            if unit_above || unit.is_empty() {
                value
            } else {
                format!("{value} {unit}")
            }
        }
        Some(Cell::Missing(reason)) if reason.is_empty() => "—".to_owned(),
        Some(Cell::Missing(reason)) => {
            let reason = printable(reason);
            let index = footnotes
                .iter()
                .position(|note| *note == reason)
                .unwrap_or_else(|| {
                    footnotes.push(reason);
                    footnotes.len() - 1
                });
            format!("—{}", mark(index))
        }
    }
}

fn mark(index: usize) -> String {
    (index + 1)
        .to_string()
        .chars()
        .map(number::superscript)
        .collect()
}

/// The width of each column, narrowed where that helps to keep the table within `available`.
fn widths(columns: &[Column], available: usize) -> Vec<usize> {
    let cells = |column: &Column| {
        column
            .cells
            .iter()
            .map(|cell| cell.width())
            .max()
            .unwrap_or(0)
    };
    let word = |text: &str| {
        text.split_whitespace()
            .map(UnicodeWidthStr::width)
            .max()
            .unwrap_or(0)
    };
    let total =
        |widths: &[usize]| widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1);
    let least_header = |column: &Column| word(&column.name).max(column.unit.width());
    let mut widths: Vec<usize> = columns
        .iter()
        .map(|column| {
            cells(column)
                .max(column.name.width())
                .max(column.unit.width())
        })
        .collect();
    // Long names give way first, the longest of them soonest; then long texts.
    let floors: [Vec<usize>; 2] = [
        columns
            .iter()
            .map(|column| cells(column).max(least_header(column)))
            .collect(),
        columns
            .iter()
            .map(|column| {
                let content = if column.numeric {
                    cells(column)
                } else {
                    TEXT_WIDTH_MIN
                };
                content.min(cells(column)).max(least_header(column))
            })
            .collect(),
    ];
    for floor in floors {
        while total(&widths) > available {
            let widest = (0..widths.len())
                .filter(|index| widths[*index] > floor[*index])
                .max_by_key(|index| widths[*index] - floor[*index]);
            let Some(widest) = widest else { break };
            widths[widest] -= 1;
        }
    }
    widths
}

/// Which columns are drawn together: all of them, if they fit.
fn panels(widths: &[usize], available: usize) -> Vec<Vec<usize>> {
    let mut panels: Vec<Vec<usize>> = Vec::new();
    let mut used = 0;
    for (index, width) in widths.iter().enumerate() {
        match panels.last_mut() {
            Some(panel) if used + GAP + width <= available => {
                panel.push(index);
                used += GAP + width;
            }
            None => {
                panels.push(vec![index]);
                used = *width;
            }
            // Column 0 alone cannot make room by moving on.
            Some(panel) if panel.len() == 1 => {
                panel.push(index);
                used += GAP + width;
            }
            Some(_) => {
                panels.push(vec![0, index]);
                used = widths[0] + GAP + width;
            }
        }
    }
    panels
}

fn draw(columns: &[Column], widths: &[usize], panel: &[usize], lines: &mut Vec<String>) {
    let gaps = GAP * panel.len().saturating_sub(1);
    let rule = "─".repeat(panel.iter().map(|index| widths[*index]).sum::<usize>() + gaps);
    let block = |cells: Vec<Vec<String>>, bottom: bool, lines: &mut Vec<String>| {
        let height = cells.iter().map(Vec::len).max().unwrap_or(0);
        for line in 0..height {
            let mut text = String::new();
            for (place, (index, cell)) in panel.iter().zip(&cells).enumerate() {
                // Names stand on the rule below them; cells start at the top.
                let skip = if bottom { height - cell.len() } else { 0 };
                let part = line.checked_sub(skip).and_then(|line| cell.get(line));
                let part = part.map_or("", String::as_str);
                let space = " ".repeat(widths[*index].saturating_sub(part.width()));
                if place > 0 {
                    text.push_str(&" ".repeat(GAP));
                }
                let right = columns[*index].numeric;
                let (before, after) = if right { (&*space, "") } else { ("", &*space) };
                text.extend([before, part, after]);
            }
            lines.push(text.trim_end().to_owned());
        }
    };
    let header = panel.iter().map(|index| {
        let mut name = wrap(&columns[*index].name, widths[*index]);
        if !columns[*index].unit.is_empty() {
            name.push(columns[*index].unit.to_owned());
        }
        name
    });
    lines.push(rule.clone());
    block(header.collect(), true, lines);
    lines.push(rule.clone());
    for row in 0..columns.first().map_or(0, |column| column.cells.len()) {
        let cells = panel.iter().map(|index| {
            let cell = &columns[*index].cells[row];
            if columns[*index].numeric {
                vec![cell.clone()]
            } else {
                wrap(cell, widths[*index])
            }
        });
        block(cells.collect(), false, lines);
    }
    lines.push(rule);
}

/// `text` broken between words into lines of at most `width`; words longer than that are broken. A
/// [`NARROW_SPACE`](number::NARROW_SPACE) is part of its word: it holds a number together.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let options = textwrap::Options::new(width.max(1))
        .wrap_algorithm(textwrap::WrapAlgorithm::FirstFit)
        .word_separator(textwrap::WordSeparator::AsciiSpace)
        .word_splitter(textwrap::WordSplitter::NoHyphenation);
    let lines = textwrap::wrap(text, options).into_iter();
    lines.map(Cow::into_owned).collect()
}

#[cfg(test)]
mod tests;
