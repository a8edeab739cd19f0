//! `txlog serve`.

use std::error::Error;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use evenkeel::signal::unix::{Signal, SignalKind, signal};
use evenkeel::time::timeout;
use evenkeel_admin::Admin;
use txlog::access::Security;
use txlog::advice;
use txlog::log::{LocalDisk, Log, LogConfig, Retention};
use txlog::server::{BindError, LogSource, Reload, Server, ServerConfig};
use txlog::store::Store;

use super::beside::refuse_within;
use super::supervisor::Supervisor;
use super::{Outcome, ServeArguments};

pub(crate) async fn run(arguments: ServeArguments) -> Outcome {
    super::allocator::set_up();
    // Listening from here on, so that even an early ctrl-c ends the process properly.
    let signals = Signals {
        interrupt: signal(SignalKind::interrupt())?,
        terminate: signal(SignalKind::terminate())?,
        hang_up: signal(SignalKind::hangup())?,
    };
    let security = arguments.security.read().await?;
    let retention = Retention {
        bytes_max: arguments.keep_bytes,
        records_max: arguments.keep_records,
        age_max: Duration::from_secs(arguments.keep_seconds),
    };
    if arguments.nats.is_asked_for() {
        let logs = super::nats::connect(&arguments, retention).await?;
        return serve((Some(logs.0), logs.1), &arguments, security, signals).await;
    }
    let config = LogConfig {
        segment_bytes: arguments.segment_bytes,
        record_bytes_max: arguments.record_bytes_max,
        producers_max: arguments.producers_max,
        retention,
        ..LogConfig::default()
    };
    if let (Some(directory), Some(logs)) = (&arguments.dir, &arguments.logs.logs) {
        refuse_within(directory, logs).await?;
    }
    // Before anything is made for the others.
    let unnamed = match &arguments.dir {
        Some(directory) => Some(open(directory, config.clone()).await?),
        None => None,
    };
    let named = arguments.logs.directories(config).await?;
    serve((unnamed, named), &arguments, security, signals).await
}

/// Opens the log without a name.
async fn open(directory: &Path, config: LogConfig) -> Result<Log<LocalDisk>, String> {
    let held = LocalDisk::hold(directory).await;
    let shown = directory.display();
    let cannot = |error| format!("cannot use {shown}: {}", advice::of_files(&error));
    let disk = held.map_err(cannot)?;
    let opened = Log::open(disk, config).await;
    let (log, recovery) = opened.map_err(|error| super::of_directory(directory, &error))?;
    if let Some(torn) = &recovery.torn {
        eprintln!("txlog: {torn}; cut off, as the rest of a write that a crash interrupted");
    }
    let records = super::numbers(recovery.first, recovery.next);
    eprintln!("txlog: {shown} holds {records}");
    Ok(log)
}

/// How long files may be read again before the next signal is looked at.
const RELOAD_MAX: Duration = Duration::from_secs(10);

/// Within which time an append has to be acknowledged by a server that is well.
const WELL_WITHIN: Duration = Duration::from_secs(1);

/// The exit code when the log has failed for good. Other errors have 1, and wrong arguments 2.
const FAILED_FOR_GOOD: u8 = 3;

/// As that one; but a start would begin a new log where the log was.
const DISPLACED: u8 = 4;

struct Signals {
    interrupt: Signal,
    terminate: Signal,
    /// To read files again.
    hang_up: Signal,
}

impl Signals {
    /// Until one comes that ends the server; the next one ends it at once.
    async fn ended(mut self, reload: Reload, supervisor: Supervisor) {
        self.recv(&reload, &supervisor).await;
        supervisor.stopping();
        eprintln!("txlog: closing; a second signal ends at once");
        evenkeel::spawn(async move {
            self.recv(&reload, &supervisor).await;
            std::process::exit(1);
        });
    }

    async fn recv(&mut self, reload: &Reload, supervisor: &Supervisor) {
        loop {
            tokio::select! {
                _ = self.interrupt.recv() => return,
                _ = self.terminate.recv() => return,
                _ = self.hang_up.recv() => {
                    supervisor.reloading();
                    reload.request();
                    // Soon, unless the server ends.
                    let _ = timeout(RELOAD_MAX, reload.done()).await;
                    supervisor.ready("its files were read again");
                }
            }
        }
    }
}

/// Serves the metrics of a server, and whether it is well.
async fn watched<S: Store>(
    server: &Server<S>,
    address: &str,
    arguments: &ServeArguments,
) -> Result<Admin, Box<dyn Error + Send + Sync>> {
    let (of_metrics, of_health) = (server.observer(), server.observer());
    let mut builder = evenkeel_admin::Builder::new()
        .metrics(move |families| of_metrics.metrics(families))
        .health(move || {
            let observer = of_health.clone();
            async move { observer.health(WELL_WITHIN).await }
        });
    if let Some(path) = arguments.admin_token_file.clone() {
        builder = builder.token(super::access::secret(path).await?);
    }
    let cannot = |error| format!("--admin {address}: {error}");
    Ok(builder.listen(address).await.map_err(cannot)?)
}

async fn serve<S: Store>(
    (unnamed, named): (Option<S>, Option<Box<dyn LogSource<S>>>),
    arguments: &ServeArguments,
    security: Security,
    signals: Signals,
) -> Outcome {
    let config = arguments.logs.applied(ServerConfig {
        connections_max: arguments.connections_max,
        appends_max: arguments.appends_max,
        memory_bytes: arguments.memory_bytes,
        exit_on_failure: arguments.exit_on_failure,
        ..ServerConfig::default()
    });
    let config = super::descriptors::secured(config, named.is_some())?;
    let (address, logs) = (arguments.listen.as_str(), (unnamed.clone(), named));
    let server = Server::bind_secured(address, logs, config, security).await;
    let cannot = |error| match error {
        BindError::Listen(error) => {
            let why = advice::of_listening(&error);
            format!("cannot listen on {}: {why}", arguments.listen)
        }
        error => error.to_string(),
    };
    let server = server.map_err(cannot)?;
    let admin = match &arguments.admin {
        Some(address) => Some(watched(&server, address, arguments).await?),
        None => None,
    };
    let mut output = std::io::stdout();
    writeln!(output, "listening on {}", server.local_addr()?)?;
    output.flush()?;
    if let Some(admin) = &admin {
        let address = admin.address();
        match address.starts_with("unix:") {
            true => eprintln!("txlog: metrics at /metrics of {address}"),
            false => eprintln!("txlog: metrics at http://{address}/metrics"),
        }
    }
    let supervisor = Supervisor::of_environment();
    supervisor.ready(&format!("listening on {}", server.local_addr()?));
    supervisor.feed();
    let reload = server.reload();
    let ended = server.run(signals.ended(reload, supervisor)).await;
    if let Some(admin) = admin {
        admin.shutdown().await;
    }
    if let Some(store) = unnamed.filter(|_| arguments.exit_on_failure) {
        if store.is_displaced() {
            eprintln!(
                "txlog: ended, as the log is no longer where it was: a start would begin another \
                 one there"
            );
            return Ok(ExitCode::from(DISPLACED));
        }
        if store.has_failed_for_good() {
            eprintln!("txlog: ended, as the log has failed for good");
            return Ok(ExitCode::from(FAILED_FOR_GOOD));
        }
    }
    ended?;
    Ok(ExitCode::SUCCESS)
}
