//! Tasks as tokio-console sees them: for each a span of `tracing`, entered in each poll, and an
//! event for each use of one of its wakers. For the feature `console`.
//!
//! The names are those that Tokio gives them, since console-subscriber looks for these. A task has
//! a span only if a subscriber wants it at the moment of the spawn; if none does, a spawn costs one
//! load, and a poll one comparison.
//!
//! The task's own waker stays as it is. The future of a task with a span is polled with another
//! one, which tells of each use and passes it on (`waker`).

mod waker;

use std::future::Future;
use std::mem::size_of;
use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;
use tracing::instrument::{Instrument, Instrumented};
use tracing::{Span, trace_span};

use crate::sync::atomic::{AtomicU64, Ordering};

use super::cell::Attributes;
use waker::Watch;

pin_project! {
    /// A future with the span of its task. In reports it has the name of the future in it; see
    /// [`AROUND`].
    pub(crate) struct Watched<F> {
        #[pin]
        future: Instrumented<F>,
        // Made in the first poll of a task that has a span.
        watch: Option<Watch>,
    }
}

/// The future of a task.
#[inline]
pub(crate) fn task<F>(future: F, attributes: &Attributes) -> Watched<F> {
    let span = trace_span!(
        target: "tokio::task",
        parent: None,
        "runtime.spawn",
        kind = %"task",
        task.name = %attributes.name.unwrap_or_default(),
        task.id = next_number(),
        task.class = %attributes.class,
        size.bytes = size_of::<F>(),
        loc.file = attributes.spawned_at.file(),
        loc.line = attributes.spawned_at.line(),
        loc.col = attributes.spawned_at.column(),
    );
    Watched::new(future, span)
}

/// Blocking work: a future that calls a function of type `W` and does not wait.
#[inline]
pub(crate) fn blocking<W, F>(future: F, attributes: &Attributes) -> Watched<F> {
    let span = trace_span!(
        target: "tokio::task::blocking",
        parent: None,
        "runtime.spawn",
        kind = %"blocking",
        task.name = %attributes.name.unwrap_or_default(),
        task.id = next_number(),
        task.class = %attributes.class,
        "fn" = %std::any::type_name::<W>(),
        size.bytes = size_of::<W>(),
        loc.file = attributes.spawned_at.file(),
        loc.line = attributes.spawned_at.line(),
        loc.col = attributes.spawned_at.column(),
    );
    Watched::new(future, span)
}

/// Tells tasks apart on the screen, in the order in which they were spawned. A task's `Id` is its
/// address, which is not known before its span, and which another task may get later.
#[cold]
fn next_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    // Relaxed: only the number counts.
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// How the name of the type begins that this file puts around a task's future.
pub(super) const AROUND: &str = concat!(module_path!(), "::Watched<");

impl<F> Watched<F> {
    fn new(future: F, span: Span) -> Self {
        Self {
            future: future.instrument(span),
            watch: None,
        }
    }
}

impl<F: Future> Future for Watched<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        let Some(span) = this.future.span().id() else {
            return this.future.poll(cx);
        };
        // A task has one waker for all its life; should another one come, that one is used.
        let watch = match this.watch.take() {
            Some(watch) if watch.is_for(cx.waker()) => watch,
            _ => Watch::new(cx.waker().clone(), span.into_u64()),
        };
        let watch = this.watch.insert(watch);
        this.future.poll(&mut Context::from_waker(&watch.waker()))
    }
}
