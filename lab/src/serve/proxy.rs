//! The TCP proxy: every connection gets one of its own to the target, bytes go both ways.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::io::copy_bidirectional;

use super::platform::{Platform, accept_loop};

pub(crate) async fn serve<P: Platform>(listener: P::Listener, target: SocketAddr) {
    accept_loop::<P, _>("proxy", listener, move |stream| {
        connection::<P>(stream, target)
    })
    .await;
}

async fn connection<P: Platform>(mut client: P::Stream, target: SocketAddr) {
    static COMPLAINED: AtomicBool = AtomicBool::new(false);
    match P::connect(target).await {
        // Either side may break off as it likes; the other then sees its connection closed.
        Ok(mut server) => drop(copy_bidirectional(&mut client, &mut server).await),
        Err(error) => {
            // Relaxed: whoever swaps first complains; nothing else hangs on it.
            if !COMPLAINED.swap(true, Ordering::Relaxed) {
                eprintln!("proxy: cannot connect to {target}: {error} (said once)");
            }
        }
    }
}
