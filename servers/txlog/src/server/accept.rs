//! Listening, and taking connections.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use evenkeel::Class;
use evenkeel::net::{TcpListener, TcpSocket, TcpStream, ToSocketAddrs, lookup_host};
use evenkeel::runtime::Handle;
use evenkeel::task::yield_now;
use evenkeel::time::sleep;
use txlog_client::frame::{Code, Response};

use super::complaints::Complaints;
use super::stream::Stream;
use super::{BindError, Context, connection, handshake};
use crate::access::Security;
use crate::advice;
use crate::store::Store;

/// The backlog of the listener: as long as systems commonly allow.
const BACKLOG: u32 = 4_096;

/// Listens on the first address of the name that can be listened on.
///
/// # Errors
///
/// [`BindError`]: there is none, or it is one for which the server is not protected enough.
pub(super) async fn bind(
    address: impl ToSocketAddrs,
    security: &Security,
) -> Result<TcpListener, BindError> {
    let mut listener = Err(io::Error::new(
        io::ErrorKind::InvalidInput,
        "the name to listen on has no address",
    ));
    for address in lookup_host(address).await.map_err(BindError::Listen)? {
        if let Some(lack) = security.lacks(address) {
            return Err(BindError::Exposed { address, lack });
        }
        listener = listen(address);
        if listener.is_ok() {
            break;
        }
    }
    listener.map_err(BindError::Listen)
}

/// Accepts connections. Does not return.
pub(super) async fn accept<S: Store>(listener: TcpListener, context: &Arc<Context<S>>) {
    let mut complaints = Complaints::default();
    let own = Handle::current().class(handshake::CLASS);
    let handshakes = own.unwrap_or(Class::NORMAL);
    loop {
        let (stream, from) = match listener.accept().await {
            Ok(accepted) => {
                complaints.pass();
                accepted
            }
            Err(error) => {
                complaints.say(format!("cannot accept: {}", advice::of_accepting(&error)));
                // Usually there are no descriptors left, which passes when connections end.
                sleep(Duration::from_millis(10)).await;
                continue;
            }
        };
        match context.peers.join(Instant::now()) {
            Some(member) => {
                let context = Arc::clone(context);
                if let Some(tls) = context.security.tls.clone() {
                    let shaking = handshake::begin(context, tls, (stream, from), member);
                    drop(evenkeel::spawn_in(handshakes, shaking));
                    continue;
                }
                // It would only be slower.
                let _ = stream.set_nodelay(true);
                let stream = Stream::Plain(stream);
                // Urgent as long as it only pings; see `connection`.
                drop(evenkeel::spawn_in(
                    Class::URGENT,
                    connection::begin(context, (stream, from), member),
                ));
            }
            None => {
                context.counters.connections_refused.add(1);
                refuse(&stream, context.config.connections_max);
                // Those that leave get a turn: their places may be what is missing.
                yield_now().await;
            }
        }
    }
}

/// Tells a client that there is no room. The buffer of a new connection takes this at once.
fn refuse(stream: &TcpStream, connections_max: usize) {
    let mut buffer = BytesMut::new();
    Response::Fault {
        code: Code::TooManyConnections,
        text: format!("the server has {connections_max} connections, its limit; try again later"),
    }
    .encode(&mut buffer);
    // If this fails, the client only sees the connection closed.
    let _ = stream.try_write(&buffer);
}

/// Listens with keep-alive, which accepted connections inherit: the system probes idle clients, so
/// that one whose machine is gone frees its place at some time.
fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    socket.set_reuseaddr(true)?;
    socket.set_keepalive(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}
