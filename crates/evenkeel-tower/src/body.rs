//! The body of an answer, to whose end the task stays in the request's class.

use std::pin::Pin;
use std::task::{Context, Poll};

use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

use crate::stay::Stay;

pin_project! {
    /// The body of an answer through a [`ClassLayer`](crate::ClassLayer): the one that the service
    /// gave, unchanged.
    #[derive(Debug)]
    pub struct ClassBody<B> {
        #[pin]
        body: B,
        stay: Option<Stay>,
    }
}

impl<B> ClassBody<B> {
    pub(crate) fn new(body: B, stay: Option<Stay>) -> Self {
        Self { body, stay }
    }
}

impl<B: Body> Body for ClassBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let this = self.project();
        let polled = this.body.poll_frame(cx);
        if let Poll::Ready(None | Some(Err(_))) = polled {
            *this.stay = None;
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// An empty body, for those who need one to begin with.
impl<B: Default> Default for ClassBody<B> {
    fn default() -> Self {
        Self::new(B::default(), None)
    }
}
