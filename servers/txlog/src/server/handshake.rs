//! The beginning of a connection over TLS.
//!
//! It runs in a class of its own, if the runtime has one of the name [`CLASS`], since it takes more
//! processor time than anything else a stranger can ask for. A connection has its place already,
//! and leaves it as one that has not said hello: when it takes too long, or others need the place.
//! What it may take of the memory is set aside for each place.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use evenkeel::Class;
use evenkeel::net::TcpStream;
use evenkeel::time::timeout;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::{Error, ServerConnection};
use tokio_rustls::server::TlsStream;
use txlog_client::frame::{Code, Response};

use super::Context;
use super::connection;
use super::peers::Member;
use super::stream::Stream;
use crate::access::ServerTls;
use crate::store::Store;

/// The name of the class in which handshakes run.
pub const CLASS: &str = "handshake";

/// How long a handshake may take. It is a few round trips.
const HANDSHAKE_MAX: Duration = Duration::from_secs(10);

/// How many bytes TLS holds back for a client that takes none.
const SENDING_BYTES_MAX: usize = 16 * 1024;

/// How many bytes of a handshake are read at a time.
const READ_BYTES: usize = 2 * 1024;

/// How many bytes a client may still send after the handshake has failed, which are discarded so
/// that it can read why: closing with unread bytes would reset the connection.
const DISCARDED_BYTES_MAX: u64 = 64 * 1024;

/// How long that may take.
const DISCARD_MAX: Duration = Duration::from_secs(1);

/// Why there is no TLS.
enum Failure {
    /// The client speaks something else, perhaps txlog's protocol in the clear.
    Plain(TcpStream),
    /// The client does not agree, or its certificate is none.
    Tls(Error, TcpStream),
    /// The client is gone.
    Gone,
}

/// Shakes hands, and goes on as the connection's life.
pub(super) async fn begin<S: Store>(
    context: Arc<Context<S>>,
    tls: Arc<ServerTls>,
    (stream, from): (TcpStream, SocketAddr),
    member: Member,
) {
    // It would only be slower.
    let _ = stream.set_nodelay(true);
    let mut closing = context.closing.subscribe();
    let peer = Arc::clone(&member.peer);
    let limit = HANDSHAKE_MAX.min(context.config.stall_max);
    let counters = &context.counters.handshakes;
    let shaken = tokio::select! {
        biased;
        _ = closing.wait_for(|closing| *closing) => return,
        _ = peer.cut() => return counters.cut.add(1),
        shaken = timeout(limit, shake(&tls, stream)) => shaken,
    };
    let failure = match shaken {
        Ok(Ok(stream)) => {
            counters.done.add(1);
            let stream = Stream::Tls(Box::new(stream));
            let served = connection::begin(context, (stream, from), member);
            drop(evenkeel::spawn_in(Class::URGENT, served));
            return;
        }
        Ok(Err(failure)) => failure,
        Err(_) => return counters.too_slow.add(1),
    };
    match failure {
        Failure::Plain(stream) => {
            counters.plain.add(1);
            refuse(stream).await;
        }
        Failure::Tls(error, stream) => {
            counters.failed.add(1);
            let from = from.ip();
            context
                .handshakes
                .say(format!("no TLS with a client at {from}: {error}"));
            discard(stream).await;
        }
        Failure::Gone => counters.failed.add(1),
    }
}

/// By hand, and not by the acceptor, which would try only once to tell a client why it is refused:
/// a task that has used up its time slice cannot write then.
async fn shake(tls: &ServerTls, mut stream: TcpStream) -> Result<TlsStream<TcpStream>, Failure> {
    let mut bytes = [0; READ_BYTES];
    // What TLS begins with: a record of a handshake, and a version.
    if stream.read_exact(&mut bytes[..2]).await.is_err() {
        return Err(Failure::Gone);
    }
    if bytes[..2] != [0x16, 3] {
        return Err(Failure::Plain(stream));
    }
    let session = ServerConnection::new(tls.config());
    let mut session = match session {
        Ok(session) => session,
        Err(error) => return Err(Failure::Tls(error, stream)),
    };
    session.set_buffer_limit(Some(SENDING_BYTES_MAX));
    let mut count = 2;
    loop {
        let taken = take(&mut session, &bytes[..count]);
        while session.wants_write() {
            if send(&mut session, &mut stream).await.is_err() {
                return Err(Failure::Gone);
            }
        }
        if let Err(error) = taken {
            return Err(Failure::Tls(error, stream));
        }
        if !session.is_handshaking() {
            break;
        }
        count = match stream.read(&mut bytes).await {
            Ok(count) if count > 0 => count,
            _ => return Err(Failure::Gone),
        };
    }
    let acceptor = TlsAcceptor::from(tls.config());
    let accept = acceptor.accept_with(stream, |fresh| *fresh = session);
    // The handshake is done, so nothing is left that could fail.
    accept.await.map_err(|_| Failure::Gone)
}

fn take(session: &mut ServerConnection, mut bytes: &[u8]) -> Result<(), Error> {
    while !bytes.is_empty() {
        let read = session.read_tls(&mut bytes);
        read.map_err(|error| Error::General(error.to_string()))?;
        session.process_new_packets()?;
    }
    Ok(())
}

async fn send(session: &mut ServerConnection, stream: &mut TcpStream) -> io::Result<()> {
    let mut bytes = Vec::new();
    session.write_tls(&mut bytes)?;
    stream.write_all(&bytes).await
}

/// Tells a client that speaks in the clear, in the clear.
async fn refuse(mut stream: TcpStream) {
    let mut buffer = BytesMut::new();
    Response::Fault {
        code: Code::NotTxlog,
        text: "this server speaks TLS: give the authority of its certificate by --tls-ca"
            .to_owned(),
    }
    .encode(&mut buffer);
    let told = timeout(DISCARD_MAX, stream.write_all(&buffer)).await;
    if matches!(told, Ok(Ok(()))) {
        discard(stream).await;
    }
}

async fn discard(mut stream: TcpStream) {
    let gone = async {
        stream.shutdown().await?;
        let mut rest = stream.take(DISCARDED_BYTES_MAX);
        let mut buffer = [0; 4_096];
        while rest.read(&mut buffer).await? > 0 {}
        io::Result::Ok(())
    };
    let _ = timeout(DISCARD_MAX, gone).await;
}
