//! Lines of a log that say in which task and class they were written.

use std::fmt::{self, Write};

use evenkeel::runtime::Handle;
use evenkeel::task;
use tracing_core::{Event, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// A format of events that adds the class and the task in which an event was written.
///
/// For `tracing_subscriber::fmt`. A line then begins with `[bulk index 7f52e8001a40]`: the class,
/// the name of the task, if it has one, and its [`id`](task::id()), which another task may get when
/// this one has ended. For blocking work it is the class alone, and elsewhere, as in `block_on` and
/// on threads of others, there is nothing.
///
/// # Examples
///
/// ```
/// use tracing_subscriber::fmt;
///
/// let format = evenkeel_tracing::with_class(fmt::format().compact());
/// tracing_subscriber::fmt().event_format(format).init();
/// ```
///
/// For machines, as the members `task.class`, `task.name` and `task.id` of each line's object:
///
/// ```
/// use tracing_subscriber::fmt;
///
/// let format = evenkeel_tracing::with_class(fmt::format().json()).json();
/// tracing_subscriber::fmt().json().event_format(format).init();
/// ```
pub fn with_class<F>(format: F) -> WithClass<F> {
    WithClass {
        format,
        json: false,
    }
}

/// The format that [`with_class`] makes.
#[derive(Clone, Debug)]
pub struct WithClass<F> {
    format: F,
    json: bool,
}

impl<F> WithClass<F> {
    /// The wrapped format writes an object of JSON for each event, so the class and the task become
    /// members of it.
    pub fn json(self) -> Self {
        Self { json: true, ..self }
    }
}

impl<S, N, F> FormatEvent<S, N> for WithClass<F>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let format = &self.format;
        let Some(place) = Place::here() else {
            return format.format_event(context, writer, event);
        };
        if self.json {
            let mut line = String::new();
            format.format_event(context, Writer::new(&mut line), event)?;
            return place.add_to_object(&line, &mut writer);
        }
        // In front, where the writer can stay as it is, with its colours.
        place.write(&mut writer)?;
        format.format_event(context, writer, event)
    }
}

/// Where an event was written.
struct Place {
    /// The name of the class.
    class: String,
    /// Neither for blocking work.
    name: Option<&'static str>,
    id: Option<task::Id>,
}

impl Place {
    fn here() -> Option<Self> {
        let class = task::class()?;
        let runtime = Handle::try_current().ok()?;
        Some(Self {
            class: runtime.class_name(class)?.to_owned(),
            name: task::name(),
            id: task::id(),
        })
    }

    fn write(&self, writer: &mut impl Write) -> fmt::Result {
        write!(writer, "[{}", self.class)?;
        if let Some(name) = self.name {
            write!(writer, " {name}")?;
        }
        if let Some(id) = self.id {
            write!(writer, " {id}")?;
        }
        writer.write_str("] ")
    }

    /// What is no object stays as it is.
    fn add_to_object(&self, line: &str, writer: &mut impl Write) -> fmt::Result {
        let Some(members) = line.trim_end().strip_suffix('}') else {
            return writer.write_str(line);
        };
        writer.write_str(members)?;
        if members != "{" {
            writer.write_char(',')?;
        }
        write!(writer, "\"task.class\":{}", Quoted(&self.class))?;
        if let Some(name) = self.name {
            write!(writer, ",\"task.name\":{}", Quoted(name))?;
        }
        if let Some(id) = self.id {
            write!(writer, ",\"task.id\":\"{id}\"")?;
        }
        writer.write_str("}\n")
    }
}

/// A string of JSON.
struct Quoted<'a>(&'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        for letter in self.0.chars() {
            match letter {
                '"' | '\\' => write!(f, "\\{letter}")?,
                letter if u32::from(letter) < 0x20 => write!(f, "\\u{:04x}", u32::from(letter))?,
                letter => f.write_char(letter)?,
            }
        }
        f.write_char('"')
    }
}
