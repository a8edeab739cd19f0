//! Live parts over a WebSocket, for the Media Source Extensions of browsers.
//!
//! The server sends a text with JSON before parts that are to be taken otherwise than those before:
//! `{"type": "head", "kind": "video/mp4; codecs=...", "start_ms": 1764162300000}`, and then a
//! binary message with what is in front of them. Each binary message after that is a part. When the
//! client was too slow, `{"type": "lagged", "parts": 17}` says how many it missed; the next part
//! begins with a key frame. `{"type": "trouble", "error": "..."}` says why there are no parts. What
//! the client sends is not looked at.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::Extension;
use axum::extract::{Path, Request, State};
use axum::http::header::{
    CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use evenkeel::time::timeout;
use futures_util::{SinkExt, StreamExt};
use hyper::upgrade::{OnUpgrade, Upgraded};
use serde_json::json;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message};

use super::access::Rights;
use super::live::{Live, Viewing};
use super::media::refused;
use super::routes::{Problem, Served};
use super::settings::Permission;
use super::standing::Standing;
use super::window::{Next, Placed};
use crate::record::listing;

/// How long nothing is sent before the client is asked whether it is there.
const PING_EVERY: Duration = Duration::from_secs(10);
/// What a client may send in a message: it has nothing to say.
const MESSAGE_BYTES_MAX: usize = 4_096;

type Socket = WebSocketStream<Tokio>;

pub(super) async fn upgrade(
    State(served): State<Arc<Served>>,
    Extension(rights): Extension<Rights>,
    Extension(standing): Extension<Standing>,
    Path(camera): Path<String>,
    mut request: Request,
) -> Result<Response, Problem> {
    served.check(&rights, Permission::Watch, &camera)?;
    let bad = |message: &str| Problem(StatusCode::BAD_REQUEST, message.to_owned());
    let key = accept_key(request.headers())
        .ok_or_else(|| bad("this address is for WebSockets; players take live.m3u8 beside it"))?;
    let upgrade = request.extensions_mut().remove::<OnUpgrade>();
    let upgrade = upgrade.ok_or_else(|| bad("WebSockets need HTTP/1.1"))?;
    let permit = Arc::clone(&served.sockets)
        .try_acquire_owned()
        .map_err(|_| {
            let message = "as many WebSockets are open as may be (sockets_max); try again later";
            Problem(StatusCode::SERVICE_UNAVAILABLE, message.to_owned())
        })?;
    let live = served.lives.of(&camera).map_err(refused)?;
    drop(evenkeel::spawn_in(evenkeel::Class::NORMAL, async move {
        let _permit = permit;
        if let Ok(upgraded) = upgrade.await {
            // A client that has gone away needs no answer.
            _ = serve(upgraded, &live, standing.lost(camera)).await;
        }
    }));
    let headers = [
        (UPGRADE, "websocket"),
        (CONNECTION, "Upgrade"),
        (SEC_WEBSOCKET_ACCEPT, key.as_str()),
    ];
    Ok((StatusCode::SWITCHING_PROTOCOLS, headers).into_response())
}

/// What the server answers to the key of a client's handshake. `None` if it is none.
fn accept_key(headers: &HeaderMap) -> Option<String> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let is_upgrade =
        text(UPGRADE)?.eq_ignore_ascii_case("websocket") && text(SEC_WEBSOCKET_VERSION)? == "13";
    let key = headers.get(SEC_WEBSOCKET_KEY)?;
    is_upgrade.then(|| derive_accept_key(key.as_bytes()))
}

/// Until either side ends it, or `lost` is ready: whoever watches may not any more.
async fn serve(
    upgraded: Upgraded,
    live: &Arc<Live>,
    lost: impl Future<Output = ()>,
) -> Result<(), Error> {
    let config = WebSocketConfig::default()
        .read_buffer_size(MESSAGE_BYTES_MAX)
        .max_message_size(Some(MESSAGE_BYTES_MAX))
        .max_frame_size(Some(MESSAGE_BYTES_MAX));
    let mut socket: Socket =
        WebSocketStream::from_raw_socket(Tokio(upgraded), Role::Server, Some(config)).await;
    let viewing = live.view();
    let sent = tokio::select! {
        sent = send_all(&mut socket, &viewing) => sent,
        () = lost => Ok(()),
    };
    // Whatever went wrong, the client is told that it is over, if it still listens.
    _ = timeout(PING_EVERY, socket.close(None)).await;
    sent
}

async fn send_all(socket: &mut Socket, viewing: &Viewing) -> Result<(), Error> {
    let mut sent: Option<Arc<Placed>> = None;
    let mut told = None;
    loop {
        let number = sent.as_ref().map_or(0, |placed| placed.number);
        let next = tokio::select! {
            next = timeout(PING_EVERY, viewing.after(number)) => next,
            said = socket.next() => match said {
                // Pings are answered by the library.
                Some(Ok(Message::Close(_))) | None => return Ok(()),
                Some(Ok(_)) => continue,
                Some(Err(error)) => return Err(error),
            },
        };
        let placed = match next {
            Err(_) => {
                let trouble = viewing.trouble();
                if trouble.is_some() && trouble != told {
                    let error = json!({ "type": "trouble", "error": trouble });
                    socket.send(Message::text(error.to_string())).await?;
                    told = trouble;
                }
                socket.send(Message::Ping(Bytes::new())).await?;
                continue;
            }
            Ok(None) => return Ok(()),
            Ok(Some(Next::Nothing)) => continue,
            Ok(Some(Next::Part(placed))) => placed,
            Ok(Some(Next::Jump(placed, parts))) => {
                let lagged = json!({ "type": "lagged", "parts": parts });
                socket.feed(Message::text(lagged.to_string())).await?;
                placed
            }
        };
        let is_same = |last: &Arc<Placed>| Arc::ptr_eq(&last.head, &placed.head);
        if !sent.as_ref().is_some_and(is_same) {
            let head = json!({
                "type": "head",
                "kind": placed.head.kind,
                "start_ms": listing::ms(placed.part.start_us),
            });
            socket.feed(Message::text(head.to_string())).await?;
            socket
                .feed(Message::Binary(placed.head.init.clone()))
                .await?;
        }
        socket
            .send(Message::Binary(placed.part.bytes.clone()))
            .await?;
        sent = Some(placed);
    }
}

/// A connection that hyper gave away, with the traits that the library wants.
#[derive(Debug)]
struct Tokio(Upgraded);

impl AsyncRead for Tokio {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut unfilled = hyper::rt::ReadBuf::new(buf.initialize_unfilled());
        let read = hyper::rt::Read::poll_read(Pin::new(&mut self.0), cx, unfilled.unfilled());
        ready!(read)?;
        let filled = unfilled.filled().len();
        buf.advance(filled);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Tokio {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        hyper::rt::Write::poll_write(Pin::new(&mut self.0), cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        hyper::rt::Write::poll_flush(Pin::new(&mut self.0), cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        hyper::rt::Write::poll_shutdown(Pin::new(&mut self.0), cx)
    }
}
