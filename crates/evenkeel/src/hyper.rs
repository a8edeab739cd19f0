//! What the HTTP library hyper asks of a runtime: [`Executor`] and [`Timer`] here, and
//! `hyper::rt::{Read, Write}` on [`TcpStream`] and [`UnixStream`].
//!
//! So a stream goes into hyper's connection builders as it is, without an adapter.
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

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use ::hyper::rt::{self, ReadBufCursor};
use pin_project_lite::pin_project;

#[cfg(unix)]
use crate::net::UnixStream;
use crate::net::{TcpStream, read, stream};

/// Runs hyper's own tasks, such as the streams of an HTTP/2 connection, as tasks of the runtime.
///
/// They are spawned where hyper asks for them, so a runtime has to be around, and they inherit the
/// class of the task that serves the connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Executor;

impl<F> rt::Executor<F> for Executor
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn execute(&self, future: F) {
        // Dropping the handle lets the task run on by itself.
        drop(crate::spawn(future));
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
            // hyper resets a timeout at each request: the box and the timer's place are kept.
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

/// `Read` and `Write` for a stream.
macro_rules! transport {
    ($stream:ty) => {
        impl rt::Read for $stream {
            fn poll_read(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                cursor: ReadBufCursor<'_>,
            ) -> Poll<io::Result<()>> {
                read::poll_read_cursor(self.source(), cx, cursor)
            }
        }

        impl rt::Write for $stream {
            fn poll_write(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                buf: &[u8],
            ) -> Poll<io::Result<usize>> {
                stream::poll_write(self.source(), cx, buf)
            }

            fn poll_write_vectored(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                bufs: &[IoSlice<'_>],
            ) -> Poll<io::Result<usize>> {
                stream::poll_write_vectored(self.source(), cx, bufs)
            }

            fn is_write_vectored(&self) -> bool {
                true
            }

            fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                Poll::Ready(Ok(()))
            }

            fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                Poll::Ready(stream::shutdown_write(self.source()))
            }
        }
    };
}

transport!(TcpStream);
#[cfg(unix)]
transport!(UnixStream);
