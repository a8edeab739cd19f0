//! `txlog serve --nats`: the arguments, and the store they ask for.

use std::error::Error;
use std::path::PathBuf;

use clap::Args;
use evenkeel::ClassConfig;
use evenkeel::runtime::{BuildError, Builder, Runtime};
use txlog::log::Retention;
#[cfg(not(feature = "nats"))]
use txlog::log::{LocalDisk, Log};
#[cfg(feature = "nats")]
use txlog::nats::{NatsConfig, NatsLogin, NatsStore, NatsStreams};
use txlog::server::LogSource;

use txlog::server::HANDSHAKE_CLASS;

use super::ServeArguments;

/// The share of handshakes in processor time that is scarce, where appends and reads have 50.
const HANDSHAKE_SHARE: u32 = 10;

/// Why there is no store.
type Failure = Box<dyn Error + Send + Sync>;

/// Where the JetStream is, and who logs in there.
#[derive(Debug, Args)]
pub(crate) struct NatsArguments {
    /// Keep the records in a JetStream of the NATS server there instead of a directory.
    ///
    /// They are then as durable as that server makes them: by default it syncs every two minutes;
    /// set `sync_interval: always`, or replicate the stream. The client of NATS runs on a thread
    /// of its own, in a Tokio runtime beside the server's; with --dir there is none.
    #[arg(long, value_name = "HOST:PORT", conflicts_with = "dir")]
    nats: Option<String>,
    /// The JetStream's name; it is created if necessary.
    ///
    /// One that exists has to keep records as a log does, and as --keep-bytes, --keep-records and
    /// --keep-seconds say; otherwise the server does not start, and says which settings to change.
    #[arg(long, value_name = "NAME", default_value = "txlog", requires = "nats")]
    stream: String,
    /// Serve logs with names from streams: that of the log NAME is called PREFIX and NAME.
    ///
    /// Such streams are made only if a client asks for one, and --create-logs is given. Names of
    /// these logs have no dots.
    #[arg(long, value_name = "PREFIX", requires = "nats")]
    stream_prefix: Option<String>,
    /// The user to log in to NATS as.
    #[arg(
        long,
        value_name = "NAME",
        requires_all = ["nats", "nats_password_file"],
        conflicts_with_all = ["nats_token_file", "nats_creds"]
    )]
    nats_user: Option<String>,
    /// The file with that user's password.
    ///
    /// This and the files below are read again for each connection, so that a secret can be
    /// replaced while the server runs.
    #[arg(long, value_name = "FILE", requires = "nats_user")]
    nats_password_file: Option<PathBuf>,
    /// The file with the token to log in to NATS with.
    #[arg(
        long,
        value_name = "FILE",
        requires = "nats",
        conflicts_with = "nats_creds"
    )]
    nats_token_file: Option<PathBuf>,
    /// The file of credentials to log in to NATS with, as `nsc` writes it: a JWT and a seed.
    #[arg(long, value_name = "FILE", requires = "nats")]
    nats_creds: Option<PathBuf>,
    /// Encrypt the connection to NATS, and trust the certificates in this file, as PEM.
    #[arg(long, value_name = "FILE", requires = "nats")]
    nats_ca: Option<PathBuf>,
    /// Encrypt the connection to NATS, and trust the system's certificates.
    ///
    /// It is encrypted as well if NATS demands it.
    #[arg(long, requires = "nats")]
    nats_tls: bool,
}

impl NatsArguments {
    pub(crate) fn is_asked_for(&self) -> bool {
        self.nats.is_some()
    }
}

/// The runtime of the server; with a Tokio runtime beside it if the store needs one.
pub(crate) fn runtime(arguments: &ServeArguments) -> Result<Runtime, BuildError> {
    let mut builder = Builder::new();
    builder.hog_stacks(!arguments.no_hog_names);
    // Strangers can ask for handshakes without end.
    builder.class(HANDSHAKE_CLASS, ClassConfig::new().share(HANDSHAKE_SHARE));
    if cfg!(feature = "nats") && arguments.nats.is_asked_for() {
        with_tokio(&mut builder);
    }
    builder.build()
}

#[cfg(feature = "nats")]
fn with_tokio(builder: &mut Builder) {
    builder.tokio_context(true);
}

#[cfg(not(feature = "nats"))]
fn with_tokio(_: &mut Builder) {}

#[cfg(feature = "nats")]
pub(crate) async fn connect(
    arguments: &ServeArguments,
    retention: Retention,
) -> Result<(NatsStore, Option<Box<dyn LogSource<NatsStore>>>), Failure> {
    let given = &arguments.nats;
    let user = given
        .nats_user
        .clone()
        .zip(given.nats_password_file.clone());
    let login = match (user, &given.nats_token_file, &given.nats_creds) {
        (Some((name, password)), ..) => NatsLogin::User { name, password },
        (_, Some(token), _) => NatsLogin::Token(token.clone()),
        (.., Some(credentials)) => NatsLogin::Credentials(credentials.clone()),
        _ => NatsLogin::None,
    };
    let config = NatsConfig {
        address: given.nats.clone().unwrap_or_default(),
        login,
        tls: given.nats_tls,
        ca: given.nats_ca.clone(),
        stream: given.stream.clone(),
        record_bytes_max: arguments.record_bytes_max,
        retention,
        ..NatsConfig::default()
    };
    let named: Option<Box<dyn LogSource<NatsStore>>> = match &given.stream_prefix {
        None => None,
        Some(prefix) => {
            let logs = &arguments.logs;
            let (prefix, settings) = (prefix.clone(), logs.log_settings.clone());
            let streams = NatsStreams::open(prefix, config.clone(), logs.logs_max, settings);
            Some(Box::new(streams.await?))
        }
    };
    Ok((NatsStore::connect(config).await?, named))
}

/// Never succeeds, so the type of the store does not matter.
#[cfg(not(feature = "nats"))]
pub(crate) async fn connect(
    _: &ServeArguments,
    _: Retention,
) -> Result<(Log<LocalDisk>, Option<Box<dyn LogSource<Log<LocalDisk>>>>), Failure> {
    let text = "this txlog was built without its feature `nats`, so it cannot serve --nats: give \
                --dir, or build it with `--features nats`";
    Err(text.into())
}
