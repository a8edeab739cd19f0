//! Answers with rows and columns, as text or as JSON.

use serde_json::{Map, Value};

/// Rows of values, each with its column's name.
#[derive(Debug)]
pub(super) struct Table {
    columns: &'static [&'static str],
    rows: Vec<Vec<Value>>,
}

impl Table {
    pub(super) fn new(columns: &'static [&'static str]) -> Self {
        Self {
            columns,
            rows: Vec::new(),
        }
    }

    /// A row, whose values are in the order of the columns.
    pub(super) fn row(&mut self, values: Vec<Value>) {
        debug_assert_eq!(values.len(), self.columns.len());
        self.rows.push(values);
    }

    /// As HAProxy writes it: `# ` and the names, and values with a separator.
    pub(super) fn separated(&self, separator: &str) -> String {
        let mut text = format!("# {}\n", self.columns.join(separator));
        for row in &self.rows {
            let shown: Vec<String> = row.iter().map(shown).collect();
            text.push_str(&shown.join(separator));
            text.push('\n');
        }
        text
    }

    /// With columns of equal width, for people.
    pub(super) fn aligned(&self) -> String {
        let names = self.columns.iter().map(|&name| name.to_owned()).collect();
        let rows = self.rows.iter().map(|row| row.iter().map(shown).collect());
        let all: Vec<Vec<String>> = std::iter::once(names).chain(rows).collect();
        let width = |column: usize| all.iter().map(|row| row[column].len()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..self.columns.len()).map(width).collect();
        let mut text = String::new();
        for row in &all {
            let cells = row.iter().zip(&widths);
            let line: Vec<String> = cells
                .map(|(cell, &width)| format!("{cell:>width$}"))
                .collect();
            text.push_str(line.join("  ").trim_end());
            text.push('\n');
        }
        text
    }

    /// A list of objects.
    pub(super) fn json(&self) -> String {
        let object = |row: &Vec<Value>| {
            let names = self.columns.iter().map(|&name| name.to_owned());
            Value::Object(names.zip(row.iter().cloned()).collect::<Map<_, _>>())
        };
        let rows: Vec<Value> = self.rows.iter().map(object).collect();
        format!("{}\n", Value::Array(rows))
    }
}

/// Text without quotes, and nothing for what is not known.
pub(super) fn shown(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
