//! Spans and logs of the [`tracing`](https://docs.rs/tracing) crate on the [evenkeel] runtime.
//!
//! - [`layer`] tells the runtime which spans are entered on its threads. When a poll takes too
//!   long, the runtime can then say what was going on, such as `request{method=GET uri=/compute}`,
//!   and not only which task it was.
//! - [`with_class`] has each line of a log say in which task and class it was written.
//!
//! ```
//! use tracing::{info, info_span};
//! use tracing_subscriber::fmt;
//! use tracing_subscriber::prelude::*;
//!
//! tracing_subscriber::registry()
//!     .with(evenkeel_tracing::layer())
//!     .with(fmt::layer().event_format(evenkeel_tracing::with_class(fmt::format())))
//!     .init();
//!
//! let runtime = evenkeel::runtime::Runtime::new()?;
//! let task = evenkeel::task::Builder::new().name("sums").spawn_on(
//!     async {
//!         let _entered = info_span!("request", uri = "/compute").entered();
//!         info!("begun"); // [normal sums 7f52e8001a40] ... INFO request{uri="/compute"}: begun
//!         evenkeel::runtime::within::here()
//!     },
//!     runtime.handle(),
//! );
//! assert_eq!(runtime.block_on(task)?.as_deref(), Some("request{uri=/compute}"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Where spans, classes and hogs meet
//!
//! A span says what is done, for whom, and how long that took, waits included. A class says what
//! share of the processors it may have. A hog is a poll that held a processor for too long. So:
//!
//! - a line of a log has the spans that it was written in, by `tracing`, and the class and the
//!   task, by [`with_class`];
//! - a hog has the class and the place where it was spawned, by the runtime, and the spans, by
//!   [`layer`]. With the feature `tracing` of `evenkeel`, each report is an event too, with the
//!   target `evenkeel::hog`;
//! - spans that are exported, for example by OTLP (the example `otlp`), have a class if the program
//!   records one: `span.record("class", ...)` of [`evenkeel::task::class`], at the place where the
//!   class is known. A long span says that something took long; whether it computed, waited in a
//!   queue or waited for others is in [`evenkeel::stats`], by class.
//!
//! # Behaviour today
//!
//! The text of a span has at most 128 bytes, and what all have that are entered, 256. Values are
//! cut, and never span lines. The example `cost` measures what [`layer`] costs.

mod format;
mod layer;
mod text;

pub use format::{WithClass, with_class};
pub use layer::{Spans, layer};
