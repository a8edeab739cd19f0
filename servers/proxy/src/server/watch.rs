//! Has the files of the configuration read again when they have changed.

use std::sync::Weak;
use std::time::Duration;

use evenkeel::time::sleep;
use servers_common::watch::look;
use tracing::{error, info};

use super::{Context, ServerError};

/// Looks at them again and again, as long as the proxy is there.
pub(super) async fn watch(context: Weak<Context>, interval: Duration) {
    loop {
        sleep(interval).await;
        let Some(context) = context.upgrade() else {
            return;
        };
        if *context.leaving.borrow() {
            return;
        }
        let now = look(&context.site().config.files).await;
        if !context.read.have_changed(&now) {
            continue;
        }
        match context.reload().await {
            Ok(()) => info!("a file has changed, and was read again"),
            // It is tried again.
            Err(ServerError::Upgrading) => {}
            Err(error) => {
                error!(%error, "a file has changed: {error}");
                error!("nothing was changed");
                context.read.note_read(now);
            }
        }
    }
}
