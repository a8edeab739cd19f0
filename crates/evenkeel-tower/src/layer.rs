//! The layer, its service and its future.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use evenkeel::Class;
use http::{Request, Response};
use pin_project_lite::pin_project;
use tower_layer::Layer;
use tower_service::Service;

use crate::body::ClassBody;
use crate::stay::{self, Stay};

/// Says which class a request belongs to: a [`Class`] for all of them, or a function.
pub trait Classify<B> {
    /// `None`: the class in which the task is.
    fn class_of(&self, request: &Request<B>) -> Option<Class>;
}

impl<B> Classify<B> for Class {
    fn class_of(&self, _: &Request<B>) -> Option<Class> {
        Some(*self)
    }
}

impl<B, F: Fn(&Request<B>) -> Option<Class>> Classify<B> for F {
    fn class_of(&self, request: &Request<B>) -> Option<Class> {
        self(request)
    }
}

/// Puts the task that serves a request into the request's class, until the answer's body has ended.
///
/// See [the crate](crate) for what that means, and for examples.
#[derive(Clone, Copy, Debug)]
pub struct ClassLayer<C> {
    classify: C,
}

impl<C> ClassLayer<C> {
    /// With a class for all requests, or a function that gives one for each.
    pub fn new(classify: C) -> Self {
        Self { classify }
    }
}

impl<S, C: Clone> Layer<S> for ClassLayer<C> {
    type Service = ClassService<S, C>;

    fn layer(&self, service: S) -> Self::Service {
        ClassService {
            service,
            classify: self.classify.clone(),
        }
    }
}

/// A service whose requests have classes; what a [`ClassLayer`] makes.
#[derive(Clone, Copy, Debug)]
pub struct ClassService<S, C> {
    service: S,
    classify: C,
}

impl<S, C, B, A> Service<Request<B>> for ClassService<S, C>
where
    S: Service<Request<B>, Response = Response<A>>,
    C: Classify<B>,
{
    type Response = Response<ClassBody<A>>;
    type Error = S::Error;
    type Future = ClassFuture<S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.service.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        ClassFuture {
            entry: Some(self.classify.class_of(&request)),
            answer: self.service.call(request),
            stay: None,
        }
    }
}

pin_project! {
    /// The answer to a request that has a class.
    #[derive(Debug)]
    pub struct ClassFuture<F> {
        #[pin]
        answer: F,
        // Before the first poll: the class to go to, if it is another than the task has.
        entry: Option<Option<Class>>,
        stay: Option<Stay>,
    }
}

impl<F, A, E> Future for ClassFuture<F>
where
    F: Future<Output = Result<Response<A>, E>>,
{
    type Output = Result<Response<ClassBody<A>>, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        if let Some(class) = this.entry.take() {
            *this.stay = Stay::begin();
            if class.is_some_and(stay::change) {
                // The rest is polled, and charged, in that class.
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
        }
        let answer = ready!(this.answer.poll(cx));
        let stay = this.stay.take();
        Poll::Ready(answer.map(|answer| answer.map(|body| ClassBody::new(body, stay))))
    }
}
