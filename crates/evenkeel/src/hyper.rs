//! The runtime interface of the HTTP library hyper: [`Executor`] and [`Timer`] here, and
//! `hyper::rt::{Read, Write}` for [`TcpStream`](crate::net::TcpStream),
//! [`UnixStream`](crate::net::UnixStream) and their owned halves. So hyper's connection builders
//! take a stream as it is, without an adapter. With the feature `client`, `Connector` makes
//! connections for the client of the crate hyper-util.
//!
//! # Examples
//!
//! ```
//! use evenkeel::hyper::{Executor, Timer};
//!
//! fn builder_takes<T: hyper::rt::Timer + Send + Sync + 'static>(_: T) {}
//! builder_takes(Timer);
//!
//! fn stream_goes_in<S: hyper::rt::Read + hyper::rt::Write + Unpin>(_: &S) {}
//! let _: fn(&evenkeel::net::TcpStream) = stream_goes_in;
//!
//! fn http2_takes<E: hyper::rt::Executor<std::future::Ready<()>> + Clone>(_: E) {}
//! http2_takes(Executor);
//! ```

#[cfg(feature = "client")]
mod connector;
mod sockets;

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use ::hyper::rt;
use pin_project_lite::pin_project;

use crate::class::Class;
use crate::runtime;

#[cfg(feature = "client")]
pub use connector::Connector;

/// Runs hyper's own tasks, such as the streams of an HTTP/2 connection, as tasks of the runtime.
///
/// They are spawned on the current runtime, which has to exist, in the class of the task that
/// serves the connection, or in the one given to [`in_class`](Executor::in_class).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Executor;

impl<F> rt::Executor<F> for Executor
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn execute(&self, future: F) {
        // Dropping the handle lets the task run on.
        drop(runtime::spawn(future));
    }
}

impl Executor {
    /// Returns an executor that spawns all tasks in this class.
    ///
    /// # Examples
    ///
    /// ```
    /// use evenkeel::{Class, hyper::Executor};
    ///
    /// fn http2_takes<E: hyper::rt::Executor<std::future::Ready<()>> + Clone>(_: E) {}
    /// http2_takes(Executor::in_class(Class::BULK));
    /// ```
    pub fn in_class(class: Class) -> ClassExecutor {
        ClassExecutor { class }
    }
}

/// Runs hyper's own tasks in one class; made by [`Executor::in_class`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassExecutor {
    class: Class,
}

impl<F> rt::Executor<F> for ClassExecutor
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn execute(&self, future: F) {
        drop(runtime::spawn_in(self.class, future));
    }
}

/// Gives hyper's timeouts the runtime's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timer;

impl rt::Timer for Timer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn rt::Sleep>> {
        Box::pin(TimerSleep {
            sleep: crate::time::sleep(duration),
        })
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn rt::Sleep>> {
        Box::pin(TimerSleep {
            sleep: crate::time::sleep_until(deadline.into()),
        })
    }

    fn now(&self) -> Instant {
        crate::time::Instant::now().into()
    }

    fn reset(&self, sleep: &mut Pin<Box<dyn rt::Sleep>>, deadline: Instant) {
        match sleep.as_mut().downcast_mut_pin::<TimerSleep>() {
            // hyper resets a timeout at each request. This keeps the box and the timer.
            Some(sleep) => sleep.project().sleep.reset(deadline.into()),
            None => *sleep = self.sleep_until(deadline),
        }
    }
}

pin_project! {
    struct TimerSleep {
        #[pin]
        sleep: crate::time::Sleep,
    }
}

impl Future for TimerSleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.project().sleep.poll(cx)
    }
}

impl rt::Sleep for TimerSleep {}
