//! `evenkeel-proxy run`.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use evenkeel::runtime::Builder;
use evenkeel::signal::unix::{Signal, SignalKind, signal};
use proxy::config::{self, Config};
use proxy::server::{Context, Server};

use super::Outcome;

/// How long the runtime may take to end, when its connections have had their time.
const SHUTDOWN_MAX: Duration = Duration::from_secs(5);

pub(super) fn run(path: &Path) -> Outcome {
    let config = config::read(path)?;
    let mut builder = Builder::new();
    if let Some(workers) = config.process.get_ref().workers {
        builder.workers(workers);
    }
    for (name, class) in &config.classes {
        builder.class(name, class.get_ref().into());
    }
    let runtime = builder.build()?;
    let outcome = runtime.block_on(serve(path, config));
    // Connections that are left are dropped.
    if let Err(error) = runtime.shutdown(SHUTDOWN_MAX) {
        eprintln!("evenkeel-proxy: {error}");
    }
    outcome
}

async fn serve(path: &Path, config: Config) -> Outcome {
    // Listening from here on, so that even an early ctrl-c ends the process properly.
    let mut signals = Signals {
        interrupt: signal(SignalKind::interrupt())?,
        terminate: signal(SignalKind::terminate())?,
        hang_up: signal(SignalKind::hangup())?,
        user_1: signal(SignalKind::user_defined1())?,
    };
    let server = Server::begin(path, config).await?;
    say(&server).await?;
    signals.end(server.context()).await;
    eprintln!("evenkeel-proxy: ending, as soon as connections do; a second signal ends at once");
    let context = Arc::clone(server.context());
    let left = tokio::select! {
        left = server.end() => left,
        () = signals.end(&context) => context.current(),
    };
    if left > 0 {
        eprintln!("evenkeel-proxy: connections that were cut off: {left}");
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
}

impl Signals {
    /// Until one comes that ends the proxy.
    async fn end(&mut self, context: &Arc<Context>) {
        loop {
            tokio::select! {
                _ = self.interrupt.recv() => return,
                _ = self.terminate.recv() => return,
                _ = self.user_1.recv() => context.reopen_logs(),
                _ = self.hang_up.recv() => match context.reload().await {
                    Ok(()) => eprintln!("evenkeel-proxy: the configuration was read again"),
                    Err(error) => {
                        eprintln!("evenkeel-proxy: {error}\nevenkeel-proxy: nothing was changed");
                    }
                },
            }
        }
    }
}
