//! The page and the metrics of `process.admin_page`.

use std::sync::Arc;
use std::time::Duration;

use evenkeel::time::{Instant, sleep};
use evenkeel_admin::{Admin, AdminError, Builder};
use tracing::warn;

use super::{Context, ServerError};
use crate::admin;
use crate::config::Process;

/// A proxy that takes over waits for so long until the address of its page is free.
const PAGE_MAX: Duration = Duration::from_secs(5);

/// The page, which comes later if another process has its address.
pub(super) enum Shown {
    Page(Admin),
    Later(String),
    Nothing,
}

/// Whether a process can have the page that its configuration asks for, as far as that can be said
/// without listening.
///
/// # Errors
///
/// [`ServerError`]: the address is none, or others can connect to it and there is no token; or the
/// token is none.
pub fn check(process: &Process) -> Result<(), ServerError> {
    let Some(address) = &process.admin_page else {
        return Ok(());
    };
    let page = with_token(Builder::new(), process)?;
    page.check(address).map_err(|error| wrong(address, error))
}

fn with_token(page: Builder, process: &Process) -> Result<Builder, ServerError> {
    Ok(match &process.admin_page_token_file {
        Some(file) => page.token(crate::tls::secret(file)?),
        None => page,
    })
}

fn wrong(address: &str, error: AdminError) -> ServerError {
    match error {
        AdminError::NeedsToken(address) => ServerError::AdminPageOpen(address),
        error => ServerError::AdminPage {
            address: address.to_owned(),
            error,
        },
    }
}

pub(super) async fn listen(context: &Arc<Context>, address: String) -> Result<Admin, ServerError> {
    let of = Arc::downgrade(context);
    // With the metrics of the proxy, as long as it is there.
    let page = Builder::new().metrics(move |families| {
        if let Some(context) = of.upgrade() {
            admin::add_metrics(&context, families);
        }
    });
    let page = with_token(page, context.site().config.process.get_ref())?;
    let page = page.listen(&address).await;
    page.map_err(|error| wrong(&address, error))
}

/// Tries until the process before this one has left the address.
pub(super) async fn later(context: &Arc<Context>, address: String) -> Shown {
    let until = Instant::now() + PAGE_MAX;
    loop {
        match listen(context, address.clone()).await {
            Ok(page) => return Shown::Page(page),
            Err(_) if Instant::now() < until => sleep(Duration::from_millis(10)).await,
            Err(error) => {
                warn!(%error, "{error}; the proxy goes on without the page");
                return Shown::Nothing;
            }
        }
    }
}

pub(super) async fn end(page: &mut Option<Admin>) {
    if let Some(page) = page.take() {
        page.shutdown().await;
    }
}
