//! TCP echo: what was read is written back.

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::platform::Platform;

/// Bytes of one read: more than any probe sends at once.
const BUFFER_LEN: usize = 4 * 1024;

pub(crate) async fn connection<P: Platform>(mut stream: P::Stream) {
    let mut buffer = vec![0; BUFFER_LEN];
    // A reset or closed connection is the client's way to end; there is nobody left to tell.
    while let Ok(len @ 1..) = stream.read(&mut buffer).await {
        if stream.write_all(&buffer[..len]).await.is_err() {
            return;
        }
    }
}
