//! The methods that sockets share, written once.
//!
//! Each macro here is expanded once per socket type, inside the file of that type. Its struct has
//! the field `io: Source<_>`; for the traits of `hyper` and `futures_io` it also has a method
//! `source`.

/// Methods of every socket that transfers bytes: waiting for readiness, and the user's own
/// attempts.
macro_rules! readiness {
    ($socket:ident) => {
        impl $socket {
            /// Waits until the socket is ready for any part of `interest`, and returns for which.
            ///
            /// Readiness is a hint: the attempt that follows may still return `WouldBlock`. Then
            /// wait again.
            ///
            /// # Errors
            ///
            /// The runtime is shutting down.
            ///
            /// # Cancel safety
            ///
            /// Cancel safe. Any number of tasks may wait at once.
            pub async fn ready(
                &self,
                interest: $crate::io::Interest,
            ) -> ::std::io::Result<$crate::io::Ready> {
                self.io.ready(interest).await
            }

            /// Waits until there is something to read, or the stream has ended. See
            /// [`ready`](Self::ready).
            ///
            /// # Errors
            ///
            /// The runtime is shutting down.
            ///
            /// # Cancel safety
            ///
            /// Cancel safe. Any number of tasks may wait at once.
            pub async fn readable(&self) -> ::std::io::Result<()> {
                self.ready($crate::io::Interest::READABLE).await.map(drop)
            }

            /// Waits until there is room to write. See [`ready`](Self::ready).
            ///
            /// # Errors
            ///
            /// The runtime is shutting down.
            ///
            /// # Cancel safety
            ///
            /// Cancel safe. Any number of tasks may wait at once.
            pub async fn writable(&self) -> ::std::io::Result<()> {
                self.ready($crate::io::Interest::WRITABLE).await.map(drop)
            }

            /// Tries `operation`, a non-blocking operation on this socket that the type itself does
            /// not offer, if the socket is ready for `interest`.
            ///
            /// `operation` has to return `WouldBlock` if the socket was not ready after all, and
            /// only then, because the next wait relies on it. `interest` is one direction; with
            /// both, it is taken as reading.
            ///
            /// # Errors
            ///
            /// `WouldBlock` if the socket is not ready, else what `operation` returns.
            pub fn try_io<R>(
                &self,
                interest: $crate::io::Interest,
                operation: impl FnOnce() -> ::std::io::Result<R>,
            ) -> ::std::io::Result<R> {
                self.io
                    .try_io($crate::net::methods::direction(interest), |_| operation())
            }

            /// Waits until the socket is ready for `interest` and tries `operation`, and repeats
            /// this while it returns `WouldBlock`.
            ///
            /// The rules for `operation` are those of [`try_io`](Self::try_io).
            ///
            /// # Errors
            ///
            /// What `operation` returns, or the runtime is shutting down.
            ///
            /// # Cancel safety
            ///
            /// Cancel safe if an `operation` that returns `WouldBlock` has done nothing.
            pub async fn async_io<R>(
                &self,
                interest: $crate::io::Interest,
                mut operation: impl FnMut() -> ::std::io::Result<R>,
            ) -> ::std::io::Result<R> {
                let direction = $crate::net::methods::direction(interest);
                let attempt = self.io.io(direction, |_| match operation() {
                    // The source retries its own calls after an interruption by a signal. Whether
                    // that is right for this operation, only its author knows.
                    Err(error) if error.kind() == ::std::io::ErrorKind::Interrupted => {
                        Ok(Err(error))
                    }
                    result => result.map(Ok),
                });
                attempt.await?
            }
        }
    };
}

/// Methods and traits of every stream: its halves, attempts, the I/O traits, and readiness for one
/// waiter. The module beside the stream's, `split`, has the halves.
macro_rules! stream {
    ($stream:ident, $mio:ty, $address:ty) => {
        impl $stream {
            pub(crate) fn source(&self) -> &$crate::net::source::Source<$mio> {
                &self.io
            }

            pub(super) fn from_mio(stream: $mio) -> ::std::io::Result<Self> {
                let io = $crate::net::source::Source::new(stream)?;
                $crate::net::stream::begin_delivery(&io);
                Ok(Self { io })
            }

            /// The two directions of this stream, borrowed: for two futures within one task.
            pub fn split(&mut self) -> (super::ReadHalf<'_>, super::WriteHalf<'_>) {
                super::split::split(self)
            }

            /// The two directions of this stream, each owned: for two tasks.
            ///
            /// Dropping the write half shuts the write side down, which the peer sees as the end of
            /// the stream. The connection is closed when both halves are gone.
            pub fn into_split(self) -> (super::OwnedReadHalf, super::OwnedWriteHalf) {
                super::split::into_split(self)
            }

            /// The address of the peer.
            ///
            /// # Errors
            ///
            /// The error of the system call: a TCP connection was reset by its peer, for example.
            pub fn peer_addr(&self) -> ::std::io::Result<$address> {
                self.io.get_ref().peer_addr()
            }

            /// How many bytes are in the socket's send queue: written, and not acknowledged by the
            /// peer's system. On a Unix socket it is, on Linux, the memory of what the peer has not
            /// read, which is more; elsewhere it may be 0.
            ///
            /// If nothing is written meanwhile, a smaller number later shows that the peer takes
            /// some. Nothing else may show it for long: the system says that there is room to write
            /// only when a good part of the send buffer is free, which may be megabytes.
            ///
            /// # Errors
            ///
            /// The error of the system call; `Unsupported` on systems that have none.
            pub fn send_queue(&self) -> ::std::io::Result<usize> {
                use ::std::os::fd::AsRawFd;
                $crate::sys::socket::send_queue(self.io.get_ref().as_raw_fd())
            }

            /// Whether the peer has ended its direction of the stream, or the connection is broken,
            /// as far as events have said. Bytes that came before may be there to be read.
            ///
            /// It costs no system call, but for the first call on a stream that nobody has waited
            /// for: from then on the system reports events, and an end that came before is known
            /// a moment later.
            pub fn is_read_closed(&self) -> bool {
                // If it cannot be watched, whoever waits is told.
                let _ = self.io.register($crate::io::Interest::READABLE);
                self.io.readiness().look().ready().is_read_closed()
            }

            /// Reads bytes and leaves them to be read again; waits until there are some.
            ///
            /// Returns 0 at the end of the stream, and if `buf` is empty.
            ///
            /// # Errors
            ///
            /// The error of the system call.
            ///
            /// # Cancel safety
            ///
            /// Cancel safe.
            pub async fn peek(&self, buf: &mut [u8]) -> ::std::io::Result<usize> {
                let mut buf = ::tokio::io::ReadBuf::new(buf);
                let peek = |stream: &_| $crate::net::read::peek(stream, &mut buf);
                self.io.io($crate::net::source::Direction::Read, peek).await
            }

            /// Sets how the reader of this stream is woken.
            ///
            /// May be called at any time, by the holder of either half. Data that was held back is
            /// released, so the reader may be woken once and find nothing. On Linux, the runtime
            /// controls the option `SO_RCVLOWAT` of a TCP socket from the first call on.
            ///
            /// # Errors
            ///
            /// The delay is longer than [`Delivery::DELAY_MAX`](crate::net::Delivery::DELAY_MAX);
            /// the inner error is a [`DeliveryError`](crate::net::DeliveryError).
            pub fn set_delivery(
                &self,
                delivery: $crate::net::Delivery,
            ) -> ::std::io::Result<()> {
                $crate::net::stream::set_delivery(&self.io, delivery)
            }

            /// How the reader of this stream is woken.
            pub fn delivery(&self) -> $crate::net::Delivery {
                self.io.delivery()
            }

            /// Like [`readable`](Self::readable), for one waiter at a time; shares it with
            /// [`tokio::io::AsyncRead`].
            ///
            /// # Errors
            ///
            /// The runtime is shutting down.
            pub fn poll_read_ready(
                &self,
                cx: &mut ::std::task::Context<'_>,
            ) -> ::std::task::Poll<::std::io::Result<()>> {
                self.io.poll_ready(cx, $crate::net::source::Direction::Read)
            }

            /// Like [`writable`](Self::writable), for one waiter at a time; shares it with
            /// [`tokio::io::AsyncWrite`].
            ///
            /// # Errors
            ///
            /// The runtime is shutting down.
            pub fn poll_write_ready(
                &self,
                cx: &mut ::std::task::Context<'_>,
            ) -> ::std::task::Poll<::std::io::Result<()>> {
                self.io.poll_ready(cx, $crate::net::source::Direction::Write)
            }

            /// Reads what is there, without waiting. Returns 0 at the end of the stream, and if
            /// `buf` is empty.
            ///
            /// # Errors
            ///
            /// `WouldBlock` if nothing is there: wait with [`readable`](Self::readable).
            pub fn try_read(&self, buf: &mut [u8]) -> ::std::io::Result<usize> {
                $crate::net::stream::try_read(&self.io, buf)
            }

            /// Like [`try_read`](Self::try_read), but appends to `buf`, which may be a `Vec<u8>` or
            /// a buffer of the `bytes` crate. A buffer that can grow does so if it has no room.
            ///
            /// # Errors
            ///
            /// As [`try_read`](Self::try_read).
            pub fn try_read_buf<B: ::bytes::BufMut>(
                &self,
                buf: &mut B,
            ) -> ::std::io::Result<usize> {
                $crate::net::stream::try_read_buf(&self.io, buf)
            }

            /// Like [`try_read`](Self::try_read), into several buffers, filled in their order.
            ///
            /// # Errors
            ///
            /// As [`try_read`](Self::try_read).
            pub fn try_read_vectored(
                &self,
                bufs: &mut [::std::io::IoSliceMut<'_>],
            ) -> ::std::io::Result<usize> {
                $crate::net::stream::try_read_vectored(&self.io, bufs)
            }

            /// Writes as much of `buf` as there is room for, without waiting.
            ///
            /// # Errors
            ///
            /// `WouldBlock` if there is no room: wait with [`writable`](Self::writable).
            pub fn try_write(&self, buf: &[u8]) -> ::std::io::Result<usize> {
                $crate::net::stream::try_write(&self.io, buf)
            }

            /// Like [`try_write`](Self::try_write), from several buffers, in their order.
            ///
            /// # Errors
            ///
            /// As [`try_write`](Self::try_write).
            pub fn try_write_vectored(
                &self,
                bufs: &[::std::io::IoSlice<'_>],
            ) -> ::std::io::Result<usize> {
                $crate::net::stream::try_write_vectored(&self.io, bufs)
            }
        }

        $crate::net::methods::async_read!(<> $stream, |stream| &stream.io);
        $crate::net::methods::async_write!(<> $stream, |stream| &stream.io);
        $crate::net::methods::async_read!(<> &$stream, |stream| &stream.io);
        $crate::net::methods::async_write!(<> &$stream, |stream| &stream.io);
    };
}

/// Implements `AsyncRead` for `$type`, whose source is `$source`.
macro_rules! async_read {
    (<$($lifetime:lifetime)?> $type:ty, |$stream:ident| $source:expr) => {
        impl $(<$lifetime>)? ::tokio::io::AsyncRead for $type {
            fn poll_read(
                self: ::std::pin::Pin<&mut Self>,
                cx: &mut ::std::task::Context<'_>,
                buf: &mut ::tokio::io::ReadBuf<'_>,
            ) -> ::std::task::Poll<::std::io::Result<()>> {
                let $stream = self.get_mut();
                $crate::net::stream::poll_read($source, cx, buf)
            }
        }
    };
}

/// Implements Tokio's `AsyncWrite` for `$type`, whose source is `$source`.
macro_rules! async_write {
    (<$($lifetime:lifetime)?> $type:ty, |$stream:ident| $source:expr) => {
        impl $(<$lifetime>)? ::tokio::io::AsyncWrite for $type {
            $crate::net::methods::writing!(|$stream| $source, poll_shutdown, is_write_vectored);
        }
    };
}

/// The methods of a trait for writing, of which there are three. Nothing is buffered, so there is
/// nothing to flush. `$close`, the last method, sends the end of the stream.
macro_rules! writing {
    (|$stream:ident| $source:expr, $close:ident $(, $is_write_vectored:ident)?) => {
        fn poll_write(
            self: ::std::pin::Pin<&mut Self>,
            cx: &mut ::std::task::Context<'_>,
            buf: &[u8],
        ) -> ::std::task::Poll<::std::io::Result<usize>> {
            let $stream = self.get_mut();
            $crate::net::stream::poll_write($source, cx, buf)
        }

        fn poll_write_vectored(
            self: ::std::pin::Pin<&mut Self>,
            cx: &mut ::std::task::Context<'_>,
            bufs: &[::std::io::IoSlice<'_>],
        ) -> ::std::task::Poll<::std::io::Result<usize>> {
            let $stream = self.get_mut();
            $crate::net::stream::poll_write_vectored($source, cx, bufs)
        }

        $(
            fn $is_write_vectored(&self) -> bool {
                true
            }
        )?

        fn poll_flush(
            self: ::std::pin::Pin<&mut Self>,
            _cx: &mut ::std::task::Context<'_>,
        ) -> ::std::task::Poll<::std::io::Result<()>> {
            ::std::task::Poll::Ready(Ok(()))
        }

        fn $close(
            self: ::std::pin::Pin<&mut Self>,
            _cx: &mut ::std::task::Context<'_>,
        ) -> ::std::task::Poll<::std::io::Result<()>> {
            let $stream = self.get_mut();
            ::std::task::Poll::Ready($crate::net::stream::shutdown_write($source))
        }
    };
}

/// Methods of every listener for accepting, and `from_mio`. Its struct has the fields
/// `io: Source<_>` and `pause: Pause`. The attributes are those of `accept`: what it returns.
macro_rules! listener {
    ($(#[$doc:meta])* $listener:ident, $mio:ty => $stream:ident, $mio_stream:ty, $address:ty) => {
        impl $listener {
            pub(super) fn from_mio(listener: $mio) -> ::std::io::Result<Self> {
                Ok(Self {
                    io: $crate::net::source::Source::new(listener)?,
                    pause: $crate::net::accept::Pause::new(),
                })
            }

            fn accepted(&self, stream: $mio_stream) -> ::std::io::Result<$stream> {
                let mut stream = $stream::from_mio(stream)?;
                if self.io.pinned().is_some() {
                    stream.io.keep_here();
                }
                Ok(stream)
            }

            $(#[$doc])*
            ///
            /// A connection that was aborted while it was queued is skipped.
            ///
            /// # Errors
            ///
            /// Errors come from the system and leave the listener as it was, so a server may carry
            /// on.
            ///
            /// When the process or the system is out of descriptors (`EMFILE`, `ENFILE`) or of
            /// memory for sockets, the error is returned at once, and the *next* attempt waits
            /// first: 10 ms, doubling to 100 ms while the shortage lasts, and none after a success.
            /// A loop that only logs the error and accepts again therefore neither spins nor stops
            /// serving; the connections wait in the backlog.
            ///
            /// # Cancel safety
            ///
            /// Cancel safe: no connection is lost. Any number of tasks may wait at once.
            pub async fn accept(&self) -> ::std::io::Result<($stream, $address)> {
                self.pause.wait().await;
                let accept = |io: &$mio| $crate::net::accept::skip_dead(|| io.accept());
                let direction = $crate::net::source::Direction::Read;
                let accepted = self.io.io(direction, accept).await;
                let (stream, from) = self.pause.note(accepted)?;
                Ok((self.accepted(stream)?, from))
            }

            /// Like [`accept`](Self::accept), for one waiter at a time.
            ///
            /// # Errors
            ///
            /// As [`accept`](Self::accept).
            pub fn poll_accept(
                &self,
                cx: &mut ::std::task::Context<'_>,
            ) -> ::std::task::Poll<::std::io::Result<($stream, $address)>> {
                ::std::task::ready!(self.pause.poll(cx));
                let accept = |io: &$mio| $crate::net::accept::skip_dead(|| io.accept());
                let direction = $crate::net::source::Direction::Read;
                let accepted = ::std::task::ready!(self.io.poll_io(cx, direction, accept));
                let (stream, from) = self.pause.note(accepted)?;
                ::std::task::Poll::Ready(Ok((self.accepted(stream)?, from)))
            }
        }
    };
}

/// Defines `$option` and `$set_option` of `$socket`, which pass on to `$get` and `$set` of
/// `$inner`. The first attributes are about all of them.
macro_rules! options {
    (
        $(#[$about:meta])*
        $socket:ident, |$this:ident| $inner:expr;
        $(
            $(#[$doc:meta])*
            $option:ident, $set_option:ident => $get:ident, $set:ident: $type:ty;
        )*
    ) => {
        $(#[$about])*
        impl $socket {$(
            $(#[$doc])*
            ///
            /// # Errors
            ///
            /// The error of the system call.
            pub fn $option(&self) -> ::std::io::Result<$type> {
                let $this = self;
                $inner.$get()
            }

            #[doc = concat!("Sets the option; see [`Self::", stringify!($option), "`].")]
            ///
            /// # Errors
            ///
            /// The error of the system call.
            pub fn $set_option(&self, value: $type) -> ::std::io::Result<()> {
                let $this = self;
                $inner.$set(value)
            }
        )*}
    };
}

/// Access to the descriptor of every socket, and of every end of a pipe. Whoever has it may make a
/// duplicate.
macro_rules! as_fd {
    ($socket:ident) => {
        impl ::std::os::fd::AsFd for $socket {
            fn as_fd(&self) -> ::std::os::fd::BorrowedFd<'_> {
                self.io.hand_out();
                self.io.get_ref().as_fd()
            }
        }

        impl ::std::os::fd::AsRawFd for $socket {
            fn as_raw_fd(&self) -> ::std::os::fd::RawFd {
                self.io.hand_out();
                self.io.get_ref().as_raw_fd()
            }
        }
    };
}

/// Conversions of every socket from the standard library and back, its address, and access to its
/// descriptor.
macro_rules! descriptor {
    ($socket:ident, $mio:ty, $std:ty, $address:ty) => {
        impl $socket {
            /// The address that this socket is bound to: that of this end.
            ///
            /// # Errors
            ///
            /// The error of the system call.
            pub fn local_addr(&self) -> ::std::io::Result<$address> {
                self.io.get_ref().local_addr()
            }

            /// Takes over a socket of the standard library, and sets it to non-blocking mode.
            ///
            /// # Errors
            ///
            /// The mode cannot be set, or there is no current runtime.
            pub fn from_std(socket: $std) -> ::std::io::Result<Self> {
                socket.set_nonblocking(true)?;
                let socket = Self::from_mio(<$mio>::from_std(socket))?;
                // Others may have duplicates.
                socket.io.hand_out();
                Ok(socket)
            }

            /// Gives the socket back to the standard library. It is still in non-blocking mode.
            ///
            /// # Errors
            ///
            /// The system refuses to take it out of the readiness queue.
            pub fn into_std(self) -> ::std::io::Result<$std> {
                self.io.into_inner().map(Into::into)
            }

            /// Takes the pending error of the socket (`SO_ERROR`), if there is one.
            ///
            /// # Errors
            ///
            /// The option cannot be read.
            pub fn take_error(&self) -> ::std::io::Result<Option<::std::io::Error>> {
                self.io.get_ref().take_error()
            }
        }

        impl TryFrom<$std> for $socket {
            type Error = ::std::io::Error;

            fn try_from(socket: $std) -> ::std::io::Result<Self> {
                Self::from_std(socket)
            }
        }

        $crate::net::methods::as_fd!($socket);

        impl ::std::fmt::Debug for $socket {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                ::std::fmt::Debug::fmt(self.io.get_ref(), f)
            }
        }
    };
}

pub(super) use {as_fd, async_read, async_write, descriptor, listener, options, readiness, stream};

pub(crate) use writing;

use crate::io::Interest;
use crate::net::source::Direction;

pub(super) fn direction(interest: Interest) -> Direction {
    if interest.is_readable() {
        Direction::Read
    } else {
        Direction::Write
    }
}
