//! `evenkeel-proxy run`.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use crate::config::{self, Config};
use crate::events;
use crate::runtimes::{Built, Runtimes};
use crate::server::{Context, Server};
use crate::supervisor;
use crate::upgrade::Predecessor;
use evenkeel::signal::unix::{Signal, SignalKind, signal};
use tracing::{error, info, warn};

use super::Outcome;

pub(super) fn run(path: &Path) -> Outcome {
    let mut predecessor = Predecessor::of_environment()?;
    let told = predecessor
        .as_ref()
        .map(Predecessor::try_clone)
        .transpose()?;
    let outcome = begin(path, &mut predecessor);
    if let (Err(error), Some(mut told)) = (&outcome, told) {
        told.failed(error);
    }
    outcome
}

fn begin(path: &Path, predecessor: &mut Option<Predecessor>) -> Outcome {
    let config = config::read(path)?;
    events::begin(&config.events);
    let runtimes = Built::new(&config)?;
    let handles = runtimes.handles();
    let outcome = runtimes.block_on(serve(path, config, predecessor.take(), handles));
    // Connections that are left are dropped.
    runtimes.shutdown();
    outcome
}

async fn serve(
    path: &Path,
    config: Config,
    predecessor: Option<Predecessor>,
    runtimes: Runtimes,
) -> Outcome {
    // Listening from here on, so that even an early ctrl-c ends the process properly.
    let mut signals = Signals {
        interrupt: signal(SignalKind::interrupt())?,
        terminate: signal(SignalKind::terminate())?,
        hang_up: signal(SignalKind::hangup())?,
        user_1: signal(SignalKind::user_defined1())?,
        upgrade: signal(SignalKind::user_defined2())?,
    };
    let mut server = Server::begin(path, config, predecessor, runtimes).await?;
    let context = Arc::clone(server.context());
    let pid_file = server.pid_file.take();
    if let Some(left) = &server.pid_left {
        supervisor::remove_left(&left.path, left.id);
    }
    // Whoever has started it may listen no more.
    let _ = say(&server).await;
    supervisor::ready();
    let mut leaving = context.leaving();
    tokio::select! {
        () = signals.end(&context) => {
            supervisor::stopping();
            info!(
                "ending, as soon as connections do; a second signal ends at once"
            );
        }
        _ = leaving.wait_for(|leaving| *leaving) => info!(
            "another process serves; ending, as soon as connections do; a signal \
             ends those that wait, and a second one all"
        ),
    }
    let is_followed = *leaving.borrow();
    let told = async {
        if is_followed {
            signals.end(&context).await;
            info!("this is not the process that serves: it ends connections that wait");
            context.close();
        }
        signals.end(&context).await;
    };
    let left = tokio::select! {
        left = server.end() => left,
        () = told => context.current(),
    };
    if left > 0 {
        warn!(left, "connections that were cut off: {left}");
    }
    context.cut_off().await;
    if let (Some(file), true) = (pid_file, is_followed) {
        file.leave();
    }
    Ok(ExitCode::SUCCESS)
}

/// Says where it listens, for people and programs that start it.
async fn say(server: &Server) -> std::io::Result<()> {
    let mut output = std::io::stdout();
    for (name, address) in server.context().listening().await {
        writeln!(output, "listening on {name} {address}")?;
    }
    if let Some(page) = server.page() {
        writeln!(output, "page at http://{page}/")?;
    }
    writeln!(output, "ready")?;
    output.flush()
}

struct Signals {
    interrupt: Signal,
    terminate: Signal,
    /// To read the configuration again.
    hang_up: Signal,
    /// To open the logs anew.
    user_1: Signal,
    /// To have another process take over.
    upgrade: Signal,
}

impl Signals {
    /// Until one comes that ends the proxy.
    async fn end(&mut self, context: &Arc<Context>) {
        loop {
            tokio::select! {
                _ = self.interrupt.recv() => return,
                _ = self.terminate.recv() => return,
                _ = self.user_1.recv() => context.reopen_logs(),
                // Not here, as one that ends the proxy may come meanwhile.
                _ = self.upgrade.recv() => drop(evenkeel::spawn(upgrade(Arc::clone(context)))),
                _ = self.hang_up.recv() => match context.reload().await {
                    Ok(()) => info!("the configuration was read again"),
                    Err(error) => {
                        error!(%error, "{error}");
                        error!("nothing was changed");
                    }
                },
            }
        }
    }
}

async fn upgrade(context: Arc<Context>) {
    match context.upgrade().await {
        Ok(id) => info!(id, "process {id} has taken over"),
        Err(error) => {
            error!(%error, "{error}");
            warn!("this process goes on as before");
        }
    }
}
