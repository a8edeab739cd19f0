//! Logs with names: the arguments of `txlog serve`, and `txlog logs`.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use txlog::log::{LocalDisk, Log, LogConfig};
use txlog::named::Directories;
use txlog::server::{LogSource, ServerConfig};

use super::{Outcome, ServerArgument, numbers};

/// Where the logs with names are, and how many of them there may be.
#[derive(Debug, Args)]
pub(crate) struct LogsArguments {
    /// A directory of further logs, each a directory in it whose name is the log's.
    ///
    /// A client names its log, as by `txlog append --log NAME`; it is opened then, and closed when
    /// nobody has had it for a minute. Names have letters, digits, `.`, `_` and `-`, up to 64, and
    /// begin with a letter, a digit or `_`. To take a log away, move its directory while no client
    /// has it.
    #[arg(long, value_name = "PATH", conflicts_with = "nats")]
    pub(crate) logs: Option<PathBuf>,
    /// A file that says what single logs keep; by default `txlog.toml` in the directory of --logs,
    /// if there is one.
    ///
    /// For a log it has a table such as `[logs.orders]`, with any of `keep_bytes`, `keep_records`,
    /// `keep_seconds`, `record_bytes_max` and `segment_bytes`; what is missing is as the options
    /// here say. It is read again whenever a log is opened, and at SIGHUP, when it also holds for
    /// logs that are open, except for `record_bytes_max`.
    #[arg(long, value_name = "FILE")]
    pub(crate) log_settings: Option<PathBuf>,
    /// Let clients create logs, as `txlog append --log NAME --create` does.
    #[arg(long)]
    pub(crate) create_logs: bool,
    /// How many logs with names there may be when a client creates one.
    #[arg(long, value_name = "COUNT", default_value_t = 4_096)]
    pub(crate) logs_max: usize,
    /// How many logs with names are open at a time.
    ///
    /// 1 MiB of --memory-bytes and 12 descriptors are set aside for each. One that no client has is
    /// closed when another needs its place.
    #[arg(long, value_name = "COUNT", default_value_t = 128)]
    pub(crate) open_logs_max: usize,
}

impl LogsArguments {
    /// The server's configuration, with these arguments.
    pub(crate) fn applied(&self, config: ServerConfig) -> ServerConfig {
        ServerConfig {
            open_logs_max: self.open_logs_max,
            create_logs: self.create_logs,
            ..config
        }
    }

    /// The directories that are served, if there are any.
    pub(crate) async fn directories(
        &self,
        config: LogConfig,
    ) -> Result<Option<Box<dyn LogSource<Log<LocalDisk>>>>, String> {
        let Some(path) = &self.logs else {
            return Ok(None);
        };
        let opened =
            Directories::open(path, config, self.logs_max, self.log_settings.clone()).await;
        Ok(Some(Box::new(opened?)))
    }
}

/// List the logs of a server: the name of each, and which records it has.
///
/// The log without a name, if there is one, is the empty line's. Logs that are not open are listed
/// by their files, without being opened: one whose server was killed may have more records.
#[derive(Debug, Args)]
pub(crate) struct ListArguments {
    #[command(flatten)]
    server: ServerArgument,
}

pub(crate) async fn list(arguments: ListArguments) -> Outcome {
    let client = arguments.server.connect().await?;
    let mut output = std::io::stdout();
    for log in client.logs().await? {
        let has = match log.bounds {
            Some(bounds) => numbers(bounds.first, bounds.next),
            None => "not known before it is opened".to_owned(),
        };
        let open = if log.is_open { "open" } else { "" };
        writeln!(output, "{}\t{open}\t{has}", log.name)?;
    }
    Ok(ExitCode::SUCCESS)
}
