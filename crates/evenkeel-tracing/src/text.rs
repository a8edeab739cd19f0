//! A span in a few words: its name and its fields.

use std::fmt::{self, Write};
use std::sync::Arc;

use tracing_core::Field;
use tracing_core::field::Visit;

/// How long the text of a span may be, in bytes: what is recorded once a request, and kept for each
/// span that is open.
const LENGTH: usize = 128;

/// The text of a span, such as `request{method=GET uri=/}`. Immutable, as other threads read it.
#[derive(Clone, Debug)]
pub(crate) struct Text {
    text: Arc<str>,
    fields: Vec<Part>,
}

/// The part of the text that says what a field is.
#[derive(Clone, Debug)]
struct Part {
    name: &'static str,
    /// Where it begins and ends: `name=value`.
    range: std::ops::Range<usize>,
}

impl Text {
    /// `record` visits the fields that have values.
    pub(crate) fn new(name: &str, record: impl FnOnce(&mut dyn Visit)) -> Self {
        let mut writer = Writer::new(name);
        record(&mut writer);
        writer.finish()
    }

    /// The text after fields were recorded: each has its new value in the place of its old one, or
    /// behind the others.
    pub(crate) fn recorded(&self, name: &str, record: impl FnOnce(&mut dyn Visit)) -> Self {
        let mut fresh = Writer::new("");
        record(&mut fresh);
        let fresh = fresh.finish();
        let mut writer = Writer::new(name);
        let is_new = |part: &&Part| self.fields.iter().all(|old| old.name != part.name);
        for old in &self.fields {
            let again = fresh.fields.iter().find(|part| part.name == old.name);
            let (text, part) = again.map_or((self, old), |part| (&fresh, part));
            writer.copy(text, part);
        }
        for part in fresh.fields.iter().filter(is_new) {
            writer.copy(&fresh, part);
        }
        writer.finish()
    }

    pub(crate) fn shared(&self) -> &Arc<str> {
        &self.text
    }
}

/// Writes a text up to its limit.
struct Writer {
    text: String,
    fields: Vec<Part>,
    /// Where the fields begin.
    begin: usize,
}

impl Writer {
    fn new(name: &str) -> Self {
        let name = &name[..name.floor_char_boundary(LENGTH)];
        Self {
            text: name.to_owned(),
            fields: Vec::new(),
            begin: name.len(),
        }
    }

    /// Begins a field, if there is room for some of it.
    fn begin(&mut self) -> Option<usize> {
        let separator = if self.fields.is_empty() { '{' } else { ' ' };
        // The bracket at the end and a letter need room as well.
        (self.text.len() + 3 <= LENGTH).then(|| self.text.push(separator))?;
        Some(self.text.len())
    }

    fn end(&mut self, name: &'static str, from: usize) {
        let range = from..self.text.len();
        self.fields.push(Part { name, range });
    }

    fn field(&mut self, field: &Field, value: fmt::Arguments<'_>) {
        if let Some(from) = self.begin() {
            // An error says that the text is full, or comes from the value: then it stays as far as
            // it got.
            let _ = write!(Limited(&mut self.text), "{}={value}", field.name());
            self.end(field.name(), from);
        }
    }

    fn copy(&mut self, text: &Text, part: &Part) {
        if let Some(from) = self.begin() {
            let _ = Limited(&mut self.text).write_str(&text.text[part.range.clone()]);
            self.end(part.name, from);
        }
    }

    fn finish(mut self) -> Text {
        if self.text.len() > self.begin {
            self.text.push('}');
        }
        Text {
            text: Arc::from(self.text),
            fields: self.fields,
        }
    }
}

impl Visit for Writer {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.field(field, format_args!("{value}"));
    }

    /// Also what is recorded by its `Display`, and, by the other methods' defaults, numbers.
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.field(field, format_args!("{value:?}"));
    }
}

/// Takes what fits, leaves room for a bracket, and then refuses, so that a long value is not
/// formatted to its end. Control characters, such as ends of lines, become spaces.
struct Limited<'a>(&'a mut String);

impl Write for Limited<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for letter in text.chars() {
            if self.0.len() + letter.len_utf8() >= LENGTH {
                return Err(fmt::Error);
            }
            self.0.push(if letter.is_control() { ' ' } else { letter });
        }
        Ok(())
    }
}
