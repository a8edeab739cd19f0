//! The layer that tells the runtime which spans its threads are within.

use evenkeel::runtime::within;
use tracing_core::span::{Attributes, Id, Record};
use tracing_core::{Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

use crate::text::Text;

/// A layer that tells the runtime which spans are entered on its threads, so that a hog can be
/// named by what it was doing.
///
/// It needs a subscriber that keeps data of spans, such as `tracing_subscriber::registry()` or
/// `tracing_subscriber::fmt()`. A span's fields are read when it is made and when some are
/// recorded; entering it then costs a look at the span and an uncontended lock. Spans on threads
/// that poll no tasks cost the same, and are not seen.
///
/// With a filter (`layer().with_filter(...)`) it leaves out the spans that the filter refuses. The
/// spans that the feature `console` of `evenkeel` makes for tasks are always left out: the runtime
/// knows its tasks.
///
/// # Examples
///
/// ```
/// use tracing_subscriber::prelude::*;
///
/// tracing_subscriber::registry().with(evenkeel_tracing::layer()).init();
/// ```
///
/// What cannot keep a span's data is refused by the compiler:
///
/// ```compile_fail
/// use tracing_subscriber::prelude::*;
///
/// tracing_core::subscriber::NoSubscriber::new().with(evenkeel_tracing::layer()).init();
/// ```
pub fn layer() -> Spans {
    Spans(())
}

/// The layer that [`layer`] makes.
#[derive(Debug)]
pub struct Spans(());

/// Whether a span is a task, made by a runtime for tokio-console.
fn is_task(metadata: &Metadata<'_>) -> bool {
    metadata.name() == "runtime.spawn" && metadata.target().starts_with("tokio::task")
}

impl<S> Layer<S> for Spans
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let metadata = attributes.metadata();
        if is_task(metadata) {
            return;
        }
        let text = Text::new(metadata.name(), |visit| attributes.record(visit));
        if let Some(span) = context.span(id) {
            span.extensions_mut().insert(text);
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let Some(span) = context.span(id) else {
            return;
        };
        // Copied, as the values' own code may use this span, whose lock must not be held then.
        let Some(old) = span.extensions().get::<Text>().cloned() else {
            return;
        };
        let text = old.recorded(span.name(), |visit| values.record(visit));
        within::describe(id.into_u64(), text.shared());
        span.extensions_mut().replace(text);
    }

    fn on_enter(&self, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else {
            return;
        };
        if let Some(text) = span.extensions().get::<Text>() {
            within::enter(id.into_u64(), text.shared());
        }
    }

    /// The registry may have closed the span already, so this does not look at it.
    fn on_exit(&self, id: &Id, _: Context<'_, S>) {
        within::exit(id.into_u64());
    }
}
