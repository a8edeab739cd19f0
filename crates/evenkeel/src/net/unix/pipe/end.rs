//! What both ends of a pipe have, written once.

/// Methods and traits of an end, whose struct has the field `io: Source<OwnedFd>`: `$does` is what
/// it is for, and `$not` what it is not for.
macro_rules! end {
    ($end:ident, $direction:expr, $does:literal, $not:literal) => {
        impl $end {
            /// Takes over an open pipe, and sets it to non-blocking mode.
            ///
            /// The mode belongs to all duplicates of the descriptor, also in other processes.
            ///
            /// # Errors
            ///
            #[doc = concat!("The file is not a pipe that is open for ", $does)]
            /// (`InvalidInput`), or there is no current runtime.
            pub fn from_file(file: ::std::fs::File) -> ::std::io::Result<Self> {
                Self::from_owned_fd(file.into())
            }

            /// As [`from_file`](Self::from_file).
            ///
            /// # Errors
            ///
            /// As [`from_file`](Self::from_file).
            pub fn from_owned_fd(fd: ::std::os::fd::OwnedFd) -> ::std::io::Result<Self> {
                super::descriptor::check(&fd, $direction)?;
                super::descriptor::set_nonblocking(&fd, true)?;
                Self::from_owned_fd_unchecked(fd)
            }

            #[doc = concat!("Takes over a descriptor that is known to be a pipe, open for ", $does)]
            /// and non-blocking.
            ///
            /// # Errors
            ///
            /// There is no current runtime.
            pub fn from_file_unchecked(file: ::std::fs::File) -> ::std::io::Result<Self> {
                Self::from_owned_fd_unchecked(file.into())
            }

            /// As [`from_file_unchecked`](Self::from_file_unchecked).
            ///
            /// # Errors
            ///
            /// As [`from_file_unchecked`](Self::from_file_unchecked).
            pub fn from_owned_fd_unchecked(fd: ::std::os::fd::OwnedFd) -> ::std::io::Result<Self> {
                let io = super::descriptor::source(fd, $direction)?;
                Ok(Self { io })
            }

            /// Gives back the descriptor, in non-blocking mode.
            ///
            /// # Errors
            ///
            /// The system refuses to take it out of the readiness queue.
            pub fn into_nonblocking_fd(self) -> ::std::io::Result<::std::os::fd::OwnedFd> {
                self.io.into_inner()
            }

            /// Gives back the descriptor, in blocking mode: for a child process, most of which
            /// expect that.
            ///
            /// # Errors
            ///
            /// As [`into_nonblocking_fd`](Self::into_nonblocking_fd), or the mode cannot be set.
            pub fn into_blocking_fd(self) -> ::std::io::Result<::std::os::fd::OwnedFd> {
                let fd = self.into_nonblocking_fd()?;
                super::descriptor::set_nonblocking(&fd, false)?;
                Ok(fd)
            }

            /// Waits until the pipe is ready for any part of `interest`, and returns for which.
            ///
            /// # Errors
            ///
            #[doc = concat!("The interest includes ", $not)]
            /// (`InvalidInput`), or the runtime is shutting down.
            ///
            /// # Cancel safety
            ///
            /// Cancel safe. Any number of tasks may wait at once.
            pub async fn ready(
                &self,
                interest: $crate::io::Interest,
            ) -> ::std::io::Result<$crate::io::Ready> {
                self.io.check(interest)?;
                self.io.ready(interest).await
            }
        }

        $crate::net::methods::as_fd!($end);

        impl ::std::fmt::Debug for $end {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.debug_tuple(stringify!($end)).field(&self.io).finish()
            }
        }
    };
}

pub(super) use end;
