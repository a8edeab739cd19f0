//! What operators are told: events of the crate tracing, on standard error, as text or as JSON.
//!
//! ```text
//!  tracing's macros ──▶ the levels of the configuration ──▶ text: the message alone
//!                       (a reload changes them)        └──▶ json: all fields, and spans
//! ```
//!
//! An event has a message that says everything for people, and fields for programs. Spans are made
//! when an event is, for where it belongs: what is not told costs nothing.

use std::fmt::{self, Write};
use std::sync::OnceLock;

use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, MakeWriter};
use tracing_subscriber::prelude::*;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::reload::Handle;
use tracing_subscriber::{Layer, Registry, fmt as layers, reload};

use crate::config::{EventFormat, Events, Level};

/// What names the events of the proxy itself.
const OWN: &str = "proxy";

/// The filter of the process, once it tells something.
static FILTER: OnceLock<Handle<Targets, Registry>> = OnceLock::new();

/// Tells events from here on, as they are configured. Does nothing if somebody else does that
/// already, as a program that has the proxy in it may.
pub fn begin(config: &Events) {
    let (filter, handle) = reload::Layer::new(filter(config));
    let layer = layer(config.format, std::io::stderr).with_filter(filter);
    if tracing_subscriber::registry()
        .with(layer)
        .try_init()
        .is_ok()
    {
        // It was not begun before, or that would have failed.
        let _ = FILTER.set(handle);
    }
}

/// Tells what these levels say from now on.
pub fn change(config: &Events) {
    if let Some(handle) = FILTER.get() {
        // It is there as long as the process is.
        let _ = handle.reload(filter(config));
    }
}

fn layer<W>(format: EventFormat, writer: W) -> Box<dyn Layer<Registry> + Send + Sync>
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    let layer = layers::layer().with_writer(writer);
    match format {
        EventFormat::Text => Box::new(layer.event_format(Text)),
        EventFormat::Json => Box::new(layer.json().flatten_event(true)),
    }
}

/// The proxy's own events from a level on, and of its parts and of libraries those that have one.
fn filter(config: &Events) -> Targets {
    let mut targets = Targets::new().with_target(OWN, config.level);
    for (name, level) in &config.levels {
        targets = targets.with_target(name.clone(), *level);
    }
    targets
}

impl From<Level> for tracing::level_filters::LevelFilter {
    fn from(level: Level) -> Self {
        match level {
            Level::Off => Self::OFF,
            Level::Error => Self::ERROR,
            Level::Warn => Self::WARN,
            Level::Info => Self::INFO,
            Level::Debug => Self::DEBUG,
            Level::Trace => Self::TRACE,
        }
    }
}

/// The message alone, behind the name of the program.
struct Text;

impl<S, N> FormatEvent<S, N> for Text
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut line = Line(String::from("evenkeel-proxy: "));
        event.record(&mut line);
        writeln!(writer, "{}", line.0)
    }
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            // A string takes everything.
            let _ = write!(self.0, "{value:?}");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};

    use tracing::{error_span, info, warn};

    use super::*;

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// What is written of two events and those of others.
    fn told(config: &Events) -> String {
        let written = Written::default();
        let to = written.clone();
        let layer = layer(config.format, move || to.clone()).with_filter(filter(config));
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
            let _listener = error_span!("listener", listener = "web").entered();
            warn!(server = "app/one", "server {} is down", "app/one");
            info!(target: "proxy::discovery", "a name is found");
            warn!(target: "h2::proto", "a frame");
        });
        let bytes = written.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn text_is_the_message_and_levels_say_which() {
        let mut config = Events::default();
        let both = "evenkeel-proxy: server app/one is down\nevenkeel-proxy: a name is found\n";
        assert_eq!(told(&config), both);
        config.level = Level::Warn;
        assert_eq!(told(&config), "evenkeel-proxy: server app/one is down\n");
        config
            .levels
            .insert("proxy::discovery".to_owned(), Level::Info);
        assert_eq!(told(&config), both);
        config.level = Level::Off;
        config.levels = [("h2".to_owned(), Level::Warn)].into();
        assert_eq!(told(&config), "evenkeel-proxy: a frame\n");
    }

    #[test]
    fn json_has_the_fields_and_the_spans() {
        let config = Events {
            format: EventFormat::Json,
            level: Level::Warn,
            ..Events::default()
        };
        let line: serde_json::Value = serde_json::from_str(&told(&config)).unwrap();
        assert_eq!(line["level"], "WARN");
        assert_eq!(line["message"], "server app/one is down");
        assert_eq!(line["server"], "app/one");
        assert_eq!(line["span"]["listener"], "web");
        assert!(line["timestamp"].is_string());
    }
}
