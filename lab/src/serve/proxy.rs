//! The TCP proxy: every connection gets one of its own to the target, bytes go both ways.

use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;

use tokio::io::copy_bidirectional;

use super::platform::{Platform, accept_loop};
use super::relay::onwards;

pub(crate) async fn serve<P: Platform>(listener: P::Listener, target: SocketAddr) {
    let serve = move |stream| connection::<P>(stream, target);
    accept_loop::<P, _>("proxy", listener, serve).await;
}

async fn connection<P: Platform>(mut client: P::Stream, target: SocketAddr) {
    static COMPLAINED: AtomicBool = AtomicBool::new(false);
    if let Some(mut server) = onwards::<P>("proxy", target, &COMPLAINED).await {
        // Either side may break off as it likes; the other then sees its connection closed.
        drop(copy_bidirectional(&mut client, &mut server).await);
    }
}
