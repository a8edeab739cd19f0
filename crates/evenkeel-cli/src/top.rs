//! `evenkeel top`.

use std::io::{IsTerminal, Write, stdout};
use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant};

use clap::Args;
use evenkeel_admin::Snapshot;

use crate::error::TopError;
use crate::source::Source;
use crate::view::View;
use crate::{plain, screen};

/// Shows what a process does: workers, classes, hogs, lanes and I/O.
///
/// The process has to serve its figures: evenkeel_admin::listen("127.0.0.1:7070").await?
///
/// Keys: q quits, space pauses (`--record` goes on), s sorts the hogs by another figure, t shows
/// the busiest tasks instead of the hogs, up and down choose a class, and + and - change its share.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Where the admin server listens: HOST:PORT, or unix: and a path.
    #[arg(default_value = "127.0.0.1:7070")]
    pub(crate) address: String,
    /// The server's token, if it asks for one.
    #[arg(long, env = "EVENKEEL_ADMIN_TOKEN", hide_env_values = true)]
    pub(crate) token: Option<String>,
    /// The time between two looks, in seconds, from 0.1 to 3600.
    #[arg(long, default_value = "1", value_parser = interval)]
    pub(crate) interval: Duration,
    /// Prints a line for each interval, as for a log: the time between two I/O checks of a worker
    /// (loop), polls, switches of threads, deliveries (in) and writes (out) a second, tasks that
    /// are ready (queue), processors in use, utilisation, occupancy, memory, tasks, descriptors
    /// (conns).
    /// This is also what is done where the output is no terminal.
    #[arg(long)]
    pub(crate) plain: bool,
    /// Ends after so many lines of `--plain`.
    #[arg(long, value_name = "LINES")]
    pub(crate) count: Option<usize>,
    /// Appends each snapshot to this file, to be looked at later.
    #[arg(long, value_name = "FILE", conflicts_with = "replay")]
    pub(crate) record: Option<PathBuf>,
    /// Shows the snapshots of a file instead of a process, at the pace of `--interval`; with
    /// `--plain`, all at once.
    #[arg(long, value_name = "FILE")]
    pub(crate) replay: Option<PathBuf>,
}

fn interval(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "it is no number".to_owned())?;
    if (0.1..=3600.0).contains(&seconds) {
        Ok(Duration::from_secs_f64(seconds))
    } else {
        Err("use 0.1 to 3600".to_owned())
    }
}

pub(crate) fn run(options: &Options) -> Result<(), TopError> {
    let mut source = Source::open(options)?;
    if options.plain || !stdout().is_terminal() {
        return print(&mut source, options);
    }
    // A process that cannot be asked is an error in a line, and not a screen that flickers.
    let first = source.next()?;
    screen::run(source, options.interval, first)
}

fn print(source: &mut Source, options: &Options) -> Result<(), TopError> {
    let mut before: Option<Snapshot> = None;
    let mut line = 0;
    loop {
        let began = Instant::now();
        let Some(now) = source.next()? else {
            return Ok(());
        };
        if let Some(before) = &before {
            let text = match View::new(before, &now) {
                Some(view) => plain::line(&view),
                None => "the process was started anew".to_owned(),
            };
            match put(line, &text) {
                // Whoever read this has enough.
                Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => return Ok(()),
                written => written.map_err(TopError::Output)?,
            }
            line += 1;
        }
        before = Some(now);
        if options.count.is_some_and(|count| line >= count) {
            return Ok(());
        }
        if source.is_live() {
            sleep(options.interval.saturating_sub(began.elapsed()));
        }
    }
}

fn put(line: usize, text: &str) -> std::io::Result<()> {
    let mut out = stdout().lock();
    if let Some(head) = plain::head(line) {
        writeln!(out, "{head}")?;
    }
    writeln!(out, "{text}")?;
    out.flush()
}
