//! The two directions of a stream, written once for TCP and Unix streams.

/// Defines `ReadHalf`, `WriteHalf`, `OwnedReadHalf`, `OwnedWriteHalf` and `ReuniteError` of
/// `$stream`, whose addresses are `$address`, beside the functions that make them.
macro_rules! halves {
    ($stream:ident, $address:ty) => {
        use ::std::fmt;
        use ::std::io::{self, IoSlice, IoSliceMut};

        use $crate::io::{Interest, Ready};
        use $crate::sync::Arc;

        #[doc = concat!("The reading direction of a [`", stringify!($stream), "`], borrowed.")]
        ///
        #[doc = concat!("Made by [`split`](", stringify!($stream), "::split).")]
        #[derive(Debug)]
        pub struct ReadHalf<'a>(&'a $stream);

        #[doc = concat!("The writing direction of a [`", stringify!($stream), "`], borrowed.")]
        ///
        #[doc = concat!("Made by [`split`](", stringify!($stream), "::split).")]
        /// Dropping it leaves the connection as it is; shut it down to send the end of the stream.
        #[derive(Debug)]
        pub struct WriteHalf<'a>(&'a $stream);

        #[doc = concat!("The reading direction of a [`", stringify!($stream), "`], owned.")]
        ///
        #[doc = concat!("Made by [`into_split`](", stringify!($stream), "::into_split).")]
        /// Dropping it is not visible to the peer.
        #[derive(Debug)]
        pub struct OwnedReadHalf(Arc<$stream>);

        #[doc = concat!("The writing direction of a [`", stringify!($stream), "`], owned.")]
        ///
        #[doc = concat!("Made by [`into_split`](", stringify!($stream), "::into_split).")]
        /// Dropping it shuts the write side down, which the peer sees as the end of the stream; see
        /// [`forget`](Self::forget).
        #[derive(Debug)]
        pub struct OwnedWriteHalf {
            stream: Arc<$stream>,
            shuts_down: bool,
        }

        pub(super) fn split(stream: &mut $stream) -> (ReadHalf<'_>, WriteHalf<'_>) {
            (ReadHalf(stream), WriteHalf(stream))
        }

        pub(super) fn into_split(stream: $stream) -> (OwnedReadHalf, OwnedWriteHalf) {
            let stream = Arc::new(stream);
            let write = OwnedWriteHalf { stream: Arc::clone(&stream), shuts_down: true };
            (OwnedReadHalf(stream), write)
        }

        impl OwnedReadHalf {
            /// Makes one stream of its two halves again.
            ///
            /// # Errors
            ///
            /// The halves belong to different streams; the error holds both.
            pub fn reunite(self, other: OwnedWriteHalf) -> Result<$stream, ReuniteError> {
                if !Arc::ptr_eq(&self.0, &other.stream) {
                    return Err(ReuniteError(self, other));
                }
                // Drop the other reference first, so that this one is the last.
                other.forget();
                Ok(Arc::into_inner(self.0).expect("a stream has exactly two owned halves"))
            }
        }

        impl OwnedWriteHalf {
            /// Makes one stream of its two halves again.
            ///
            /// # Errors
            ///
            /// The halves belong to different streams; the error holds both.
            pub fn reunite(self, other: OwnedReadHalf) -> Result<$stream, ReuniteError> {
                other.reunite(self)
            }

            /// Drops this half without shutting the write side down. The peer sees the end of the
            /// stream once the read half is gone too.
            pub fn forget(mut self) {
                self.shuts_down = false;
            }
        }

        impl Drop for OwnedWriteHalf {
            fn drop(&mut self) {
                // The last half closes the socket, which sends the end of the stream as well,
                // unless a duplicate keeps it open, or something is unread.
                let is_last = Arc::strong_count(&self.stream) == 1;
                let closes = is_last && self.stream.io.may_just_close();
                if self.shuts_down && !closes {
                    // A failure means that the connection is over already.
                    let _ = $crate::net::stream::shutdown_write(&self.stream.io);
                }
            }
        }

        impl AsRef<$stream> for OwnedReadHalf {
            fn as_ref(&self) -> &$stream {
                &self.0
            }
        }

        impl AsRef<$stream> for OwnedWriteHalf {
            fn as_ref(&self) -> &$stream {
                &self.stream
            }
        }

        impl AsRef<$stream> for ReadHalf<'_> {
            fn as_ref(&self) -> &$stream {
                self.0
            }
        }

        impl AsRef<$stream> for WriteHalf<'_> {
            fn as_ref(&self) -> &$stream {
                self.0
            }
        }

        $crate::net::methods::async_read!(<> ReadHalf<'_>, |half| &half.0.io);
        $crate::net::methods::async_read!(<> OwnedReadHalf, |half| &half.0.io);
        $crate::net::methods::async_write!(<> WriteHalf<'_>, |half| &half.0.io);
        $crate::net::methods::async_write!(<> OwnedWriteHalf, |half| &half.stream.io);

        $crate::net::halves::common!(ReadHalf<'_>, $stream, $address);
        $crate::net::halves::common!(WriteHalf<'_>, $stream, $address);
        $crate::net::halves::common!(OwnedReadHalf, $stream, $address);
        $crate::net::halves::common!(OwnedWriteHalf, $stream, $address);
        $crate::net::halves::reading!(ReadHalf<'_>, $stream);
        $crate::net::halves::reading!(OwnedReadHalf, $stream);
        $crate::net::halves::writing!(WriteHalf<'_>, $stream);
        $crate::net::halves::writing!(OwnedWriteHalf, $stream);

        /// The error of `reunite`: the two halves belong to different streams.
        #[derive(Debug)]
        pub struct ReuniteError(
            /// The read half, unchanged.
            pub OwnedReadHalf,
            /// The write half, unchanged.
            pub OwnedWriteHalf,
        );

        impl fmt::Display for ReuniteError {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the two halves are not of the same stream: reunite those of one split")
            }
        }

        impl ::std::error::Error for ReuniteError {}
    };
}

macro_rules! common {
    ($half:ty, $stream:ident, $address:ty) => {
        impl $half {
            #[doc = concat!("See [`", stringify!($stream), "::local_addr`].")]
            ///
            /// # Errors
            ///
            /// The error of the system call.
            pub fn local_addr(&self) -> io::Result<$address> {
                self.as_ref().local_addr()
            }

            #[doc = concat!("See [`", stringify!($stream), "::peer_addr`].")]
            ///
            /// # Errors
            ///
            /// The error of the system call.
            pub fn peer_addr(&self) -> io::Result<$address> {
                self.as_ref().peer_addr()
            }

            #[doc = concat!("See [`", stringify!($stream), "::ready`].")]
            ///
            /// # Errors
            ///
            /// The runtime is shutting down.
            ///
            /// # Cancel safety
            ///
            /// Cancel safe.
            pub async fn ready(&self, interest: Interest) -> io::Result<Ready> {
                self.as_ref().ready(interest).await
            }
        }
    };
}

macro_rules! reading {
    ($half:ty, $stream:ident) => {
        impl $half {
            #[doc = concat!("See [`", stringify!($stream), "::set_delivery`].")]
            ///
            /// # Errors
            ///
            /// The delay is too long.
            pub fn set_delivery(&self, delivery: $crate::net::Delivery) -> io::Result<()> {
                self.as_ref().set_delivery(delivery)
            }

            #[doc = concat!("See [`", stringify!($stream), "::delivery`].")]
            pub fn delivery(&self) -> $crate::net::Delivery {
                self.as_ref().delivery()
            }

            #[doc = concat!("See [`", stringify!($stream), "::peek`].")]
            ///
            /// # Errors
            ///
            /// The error of the system call.
            ///
            /// # Cancel safety
            ///
            /// Cancel safe.
            pub async fn peek(&mut self, buf: &mut [u8]) -> io::Result<usize> {
                self.as_ref().peek(buf).await
            }

            #[doc = concat!("See [`", stringify!($stream), "::readable`].")]
            ///
            /// # Errors
            ///
            /// The runtime is shutting down.
            ///
            /// # Cancel safety
            ///
            /// Cancel safe.
            pub async fn readable(&self) -> io::Result<()> {
                self.as_ref().readable().await
            }

            #[doc = concat!("See [`", stringify!($stream), "::try_read`].")]
            ///
            /// # Errors
            ///
            /// `WouldBlock` if nothing is there.
            pub fn try_read(&self, buf: &mut [u8]) -> io::Result<usize> {
                self.as_ref().try_read(buf)
            }

            #[doc = concat!("See [`", stringify!($stream), "::try_read_buf`].")]
            ///
            /// # Errors
            ///
            /// `WouldBlock` if nothing is there.
            pub fn try_read_buf<B: ::bytes::BufMut>(&self, buf: &mut B) -> io::Result<usize> {
                self.as_ref().try_read_buf(buf)
            }

            #[doc = concat!("See [`", stringify!($stream), "::try_read_vectored`].")]
            ///
            /// # Errors
            ///
            /// `WouldBlock` if nothing is there.
            pub fn try_read_vectored(&self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
                self.as_ref().try_read_vectored(bufs)
            }
        }
    };
}

macro_rules! writing {
    ($half:ty, $stream:ident) => {
        impl $half {
            #[doc = concat!("See [`", stringify!($stream), "::writable`].")]
            ///
            /// # Errors
            ///
            /// The runtime is shutting down.
            ///
            /// # Cancel safety
            ///
            /// Cancel safe.
            pub async fn writable(&self) -> io::Result<()> {
                self.as_ref().writable().await
            }

            #[doc = concat!("See [`", stringify!($stream), "::try_write`].")]
            ///
            /// # Errors
            ///
            /// `WouldBlock` if there is no room.
            pub fn try_write(&self, buf: &[u8]) -> io::Result<usize> {
                self.as_ref().try_write(buf)
            }

            #[doc = concat!("See [`", stringify!($stream), "::try_write_vectored`].")]
            ///
            /// # Errors
            ///
            /// `WouldBlock` if there is no room.
            pub fn try_write_vectored(&self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
                self.as_ref().try_write_vectored(bufs)
            }
        }
    };
}

pub(super) use {common, halves, reading, writing};
