//! What the resolver stands on: this runtime's sockets, timers and tasks, on the worker of control,
//! so that addresses are known in time whatever the proxy does.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use async_trait::async_trait;
use evenkeel::Class;
use evenkeel::net::{TcpSocket, TcpStream, UdpSocket};
use evenkeel::time::{sleep, timeout};
use hickory_resolver::net::runtime::{DnsTcpStream, DnsUdpSocket, RuntimeProvider, Spawn, Time};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// How long a connection to a server of names may take, if the resolver does not say it.
const CONNECT_MAX: Duration = Duration::from_secs(5);

/// This runtime, as the resolver sees it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Runtime;

/// Its timers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timer;

/// A socket for questions and answers of one packet each.
#[derive(Debug)]
pub(super) struct Udp(UdpSocket);

/// A connection for longer answers.
#[derive(Debug)]
pub(super) struct Tcp(TcpStream);

type Soon<T> = Pin<Box<dyn Future<Output = io::Result<T>> + Send>>;

impl RuntimeProvider for Runtime {
    type Handle = Self;
    type Timer = Timer;
    type Udp = Udp;
    type Tcp = Tcp;

    fn create_handle(&self) -> Self {
        *self
    }

    fn connect_tcp(
        &self,
        server: SocketAddr,
        from: Option<SocketAddr>,
        limit: Option<Duration>,
    ) -> Soon<Tcp> {
        Box::pin(async move {
            let socket = match server {
                SocketAddr::V4(_) => TcpSocket::new_v4()?,
                SocketAddr::V6(_) => TcpSocket::new_v6()?,
            };
            if let Some(from) = from {
                socket.bind(from)?;
            }
            let connected = timeout(limit.unwrap_or(CONNECT_MAX), socket.connect(server)).await;
            let stream = connected.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
            stream.set_nodelay(true)?;
            Ok(Tcp(stream))
        })
    }

    fn bind_udp(&self, local: SocketAddr, _: SocketAddr) -> Soon<Udp> {
        Box::pin(async move { UdpSocket::bind(local).await.map(Udp) })
    }
}

impl Spawn for Runtime {
    /// Each ends by itself when nobody waits for it.
    fn spawn_bg(&mut self, future: impl Future<Output = ()> + Send + 'static) {
        drop(evenkeel::spawn_in(Class::NORMAL, future));
    }
}

#[async_trait]
impl Time for Timer {
    async fn delay_for(duration: Duration) {
        sleep(duration).await;
    }

    async fn timeout<F: 'static + Future + Send>(
        duration: Duration,
        future: F,
    ) -> Result<F::Output, io::Error> {
        let done = timeout(duration, future).await;
        done.map_err(|_| io::ErrorKind::TimedOut.into())
    }
}

impl DnsUdpSocket for Udp {
    type Time = Timer;

    fn poll_recv_from(
        &self,
        cx: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<(usize, SocketAddr)>> {
        let mut buffer = ReadBuf::new(buffer);
        let from = ready!(self.0.poll_recv_from(cx, &mut buffer))?;
        Poll::Ready(Ok((buffer.filled().len(), from)))
    }

    fn poll_send_to(
        &self,
        cx: &mut Context<'_>,
        bytes: &[u8],
        to: SocketAddr,
    ) -> Poll<io::Result<usize>> {
        self.0.poll_send_to(cx, bytes, to)
    }
}

impl DnsTcpStream for Tcp {
    type Time = Timer;
}

impl futures_io::AsyncRead for Tcp {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let mut buffer = ReadBuf::new(buffer);
        ready!(AsyncRead::poll_read(Pin::new(&mut self.0), cx, &mut buffer))?;
        Poll::Ready(Ok(buffer.filled().len()))
    }
}

impl futures_io::AsyncWrite for Tcp {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        AsyncWrite::poll_write(Pin::new(&mut self.0), cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        AsyncWrite::poll_flush(Pin::new(&mut self.0), cx)
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        AsyncWrite::poll_shutdown(Pin::new(&mut self.0), cx)
    }
}
