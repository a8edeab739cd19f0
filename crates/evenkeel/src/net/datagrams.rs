//! The methods that sockets for datagrams share, written once.

/// Methods of `$socket`, whose peers have an `$address`, made of socket2's by `$named`.
///
/// The struct has the field `io: Source<_>`, and the methods `receive`, `poll_receive` and
/// `try_receive`: they try a call that receives or peeks as the source's `io`, `poll_io` and
/// `try_io` do, where the socket allows it.
macro_rules! datagrams {
    (
        $socket:ident, $address:ty, $named:ident,
        sending fails by: $send_error:literal,
        receiving fails by: $recv_error:literal $(,)?
    ) => {
        impl $socket {
            /// How the reader of this socket is woken.
            pub fn delivery(&self) -> $crate::net::Delivery {
                self.io.delivery()
            }

            /// The address that this socket is connected to.
            ///
            /// # Errors
            ///
            /// `NotConnected` if there is none.
            pub fn peer_addr(&self) -> io::Result<$address> {
                self.io.get_ref().peer_addr()
            }
        }

        /// Sending to the connected peer.
        impl $socket {
            /// Sends `buf` as one datagram to the connected peer, and returns its length.
            ///
            /// # Errors
            ///
            #[doc = $send_error]
            ///
            /// # Cancel safety
            ///
            /// Cancel safe. Any number of tasks may wait at once.
            pub async fn send(&self, buf: &[u8]) -> io::Result<usize> {
                self.io
                    .io(Direction::Write, |socket| socket.send(buf))
                    .await
            }

            /// Like [`send`](Self::send), for one waiter at a time.
            ///
            /// # Errors
            ///
            /// As [`send`](Self::send).
            pub fn poll_send(&self, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
                self.io
                    .poll_io(cx, Direction::Write, |socket| socket.send(buf))
            }

            /// Like [`send`](Self::send), without waiting.
            ///
            /// # Errors
            ///
            /// `WouldBlock` if there is no room, else as [`send`](Self::send).
            pub fn try_send(&self, buf: &[u8]) -> io::Result<usize> {
                self.io.try_io(Direction::Write, |socket| socket.send(buf))
            }

            /// Like [`writable`](Self::writable), for one waiter at a time; shares it with
            /// [`poll_send`](Self::poll_send) and its like.
            ///
            /// # Errors
            ///
            /// The runtime is shutting down.
            pub fn poll_send_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                self.io.poll_ready(cx, Direction::Write)
            }
        }

        /// Receiving.
        impl $socket {
            /// Receives one datagram, and returns its length. A connected socket receives from its
            /// peer only.
            ///
            /// # Errors
            ///
            #[doc = $recv_error]
            ///
            /// # Cancel safety
            ///
            /// Cancel safe. Any number of tasks may wait at once; each datagram goes to one of
            /// them.
            pub async fn recv(&self, buf: &mut [u8]) -> io::Result<usize> {
                self.receive(|socket| socket.recv(buf)).await
            }

            /// Like [`recv`](Self::recv), for one waiter at a time, into the unfilled part of
            /// `buf`.
            ///
            /// # Errors
            ///
            /// As [`recv`](Self::recv).
            pub fn poll_recv(
                &self,
                cx: &mut Context<'_>,
                buf: &mut ReadBuf<'_>,
            ) -> Poll<io::Result<()>> {
                self.poll_receive(cx, |socket| read::recv(socket, buf).map(drop))
            }

            /// Like [`recv`](Self::recv), without waiting.
            ///
            /// # Errors
            ///
            /// `WouldBlock` if nothing is there, else as [`recv`](Self::recv).
            pub fn try_recv(&self, buf: &mut [u8]) -> io::Result<usize> {
                self.try_receive(|socket| socket.recv(buf))
            }

            /// Receives one datagram and returns its length and its sender.
            ///
            /// # Errors
            ///
            /// As [`recv`](Self::recv).
            ///
            /// # Cancel safety
            ///
            /// As [`recv`](Self::recv).
            pub async fn recv_from(&self, buf: &mut [u8]) -> io::Result<(usize, $address)> {
                self.receive(|socket| socket.recv_from(buf)).await
            }

            /// Like [`recv_from`](Self::recv_from), for one waiter at a time, into the unfilled
            /// part of `buf`.
            ///
            /// # Errors
            ///
            /// As [`recv`](Self::recv).
            pub fn poll_recv_from(
                &self,
                cx: &mut Context<'_>,
                buf: &mut ReadBuf<'_>,
            ) -> Poll<io::Result<$address>> {
                let from = self.poll_receive(cx, |socket| read::recv_from(socket, buf));
                Poll::Ready($named(&ready!(from)?))
            }

            /// Like [`recv_from`](Self::recv_from), without waiting.
            ///
            /// # Errors
            ///
            /// `WouldBlock` if nothing is there, else as [`recv`](Self::recv).
            pub fn try_recv_from(&self, buf: &mut [u8]) -> io::Result<(usize, $address)> {
                self.try_receive(|socket| socket.recv_from(buf))
            }

            /// Like [`recv`](Self::recv), but appends to `buf`, which may be a `Vec<u8>` or a
            /// buffer of the `bytes` crate.
            ///
            /// The datagram is truncated to the room that the buffer has at the time; a buffer that
            /// can grow makes room for 64 bytes if it has none.
            ///
            /// # Errors
            ///
            /// As [`recv`](Self::recv).
            ///
            /// # Cancel safety
            ///
            /// As [`recv`](Self::recv).
            pub async fn recv_buf<B: BufMut>(&self, buf: &mut B) -> io::Result<usize> {
                self.receive(|socket| read::recv_buf(socket, buf)).await
            }

            /// Like [`recv_buf`](Self::recv_buf), without waiting.
            ///
            /// # Errors
            ///
            /// `WouldBlock` if nothing is there, else as [`recv`](Self::recv).
            pub fn try_recv_buf<B: BufMut>(&self, buf: &mut B) -> io::Result<usize> {
                self.try_receive(|socket| read::recv_buf(socket, buf))
            }

            /// Like [`recv_buf`](Self::recv_buf), and also returns the sender.
            ///
            /// # Errors
            ///
            /// As [`recv`](Self::recv).
            ///
            /// # Cancel safety
            ///
            /// As [`recv`](Self::recv).
            pub async fn recv_buf_from<B: BufMut>(
                &self,
                buf: &mut B,
            ) -> io::Result<(usize, $address)> {
                let received = self.receive(|socket| read::recv_buf_from(socket, buf));
                let (len, from) = received.await?;
                Ok((len, $named(&from)?))
            }

            /// Like [`recv_buf_from`](Self::recv_buf_from), without waiting.
            ///
            /// # Errors
            ///
            /// `WouldBlock` if nothing is there, else as [`recv`](Self::recv).
            pub fn try_recv_buf_from<B: BufMut>(
                &self,
                buf: &mut B,
            ) -> io::Result<(usize, $address)> {
                let (len, from) = self.try_receive(|socket| read::recv_buf_from(socket, buf))?;
                Ok((len, $named(&from)?))
            }

            /// Like [`recv`](Self::recv), and leaves the datagram to be received again.
            ///
            /// # Errors
            ///
            /// As [`recv`](Self::recv).
            ///
            /// # Cancel safety
            ///
            /// Cancel safe. Any number of tasks may wait at once, and see the same datagram.
            pub async fn peek(&self, buf: &mut [u8]) -> io::Result<usize> {
                let mut buf = ReadBuf::new(buf);
                self.receive(|socket| read::peek(socket, &mut buf)).await
            }

            /// Like [`recv_from`](Self::recv_from), and leaves the datagram to be received again.
            ///
            /// # Errors
            ///
            /// As [`recv`](Self::recv).
            ///
            /// # Cancel safety
            ///
            /// As [`peek`](Self::peek).
            pub async fn peek_from(&self, buf: &mut [u8]) -> io::Result<(usize, $address)> {
                let mut buf = ReadBuf::new(buf);
                let from = self
                    .receive(|socket| read::peek_from(socket, &mut buf))
                    .await?;
                Ok((buf.filled().len(), $named(&from)?))
            }

            /// Like [`readable`](Self::readable), for one waiter at a time; shares it with
            /// [`poll_recv`](Self::poll_recv) and [`poll_recv_from`](Self::poll_recv_from).
            ///
            /// # Errors
            ///
            /// The runtime is shutting down.
            pub fn poll_recv_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                self.io.poll_ready(cx, Direction::Read)
            }
        }
    };
}

pub(super) use datagrams;
