//! `txlog read --consumer`, and `txlog cursors`.

use std::io::Write;
use std::process::ExitCode;
use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use txlog_client::frame::Code;
use txlog_client::{ClientError, Consumer, ConsumerOptions, Cursor, Identity, Session};

use super::client::{SUCCESS, print_record, reader_is_gone, say_trouble};
use super::{Outcome, ServerArgument};

/// Prints records from where the consumer is, and acknowledges them.
pub(crate) async fn read(
    session: Session,
    name: &str,
    (follow, count): (bool, u64),
    give_up_after: Duration,
) -> Outcome {
    let options = ConsumerOptions::default();
    let consumer = session.consume(name, options).await;
    let mut consumer = consumer.map_err(|error| advised(name, error))?;
    if follow {
        evenkeel::spawn(say_trouble(consumer.trouble(), give_up_after));
    }
    let printed = tokio::select! {
        printed = print(&mut consumer, name, follow, count) => printed,
        interrupted = evenkeel::signal::ctrl_c() => interrupted.map_err(Into::into),
    };
    // What was printed is known, however it ended.
    let flushed = consumer.flush().await;
    match printed {
        Err(error) if reader_is_gone(&*error) => {}
        printed => printed?,
    }
    flushed?;
    Ok(SUCCESS)
}

/// Prints up to this many records. Each is acknowledged when it was printed, and not before.
async fn print(
    consumer: &mut Consumer,
    name: &str,
    follow: bool,
    count: u64,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let mut output = std::io::stdout();
    for _ in 0..count {
        let record = match follow {
            true => consumer.next().await.map(Some),
            false => consumer.try_next().await,
        };
        let Some(record) = record.map_err(|error| advised(name, error))? else {
            break;
        };
        print_record(&mut output, &record)?;
        consumer.ack(record.sequence).await?;
    }
    Ok(())
}

/// An error, and what helps a consumer whose place means nothing any more.
fn advised(name: &str, error: ClientError) -> Box<dyn std::error::Error + Send + Sync> {
    match error.code() {
        Some(Code::Trimmed | Code::NewEpoch) => format!(
            "{error}; `txlog cursors --set {name} --to oldest` puts the consumer {name} there"
        )
        .into(),
        _ => error.into(),
    }
}

/// List the named cursors of a log, remove one, or put one elsewhere.
///
/// A named cursor is where a consumer is that reads with `txlog read --consumer NAME`, or with the
/// client's `Consumer`. Its line has its name, the cursor, and how many records are behind it, or
/// why its consumer is refused.
///
/// A consumer whose cursor was removed begins again with the oldest record. That helps, too, if the
/// records at a cursor are no longer kept, or the log has a new epoch since.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  txlog cursors                                   all of them
  txlog cursors --log orders --remove billing
  txlog cursors --set billing --to oldest         or: end, or a record's number")]
pub(crate) struct CursorsArguments {
    #[command(flatten)]
    server: ServerArgument,
    /// Remove the cursor of this name.
    #[arg(long, value_name = "NAME", conflicts_with = "set")]
    remove: Option<String>,
    /// Put the cursor of this name where --to says.
    #[arg(long, value_name = "NAME", requires = "to")]
    set: Option<String>,
    /// The oldest record, the end, or the number of the record to be read next.
    #[arg(long, value_name = "oldest|end|NUMBER", requires = "set")]
    to: Option<Place>,
}

#[derive(Clone, Copy, Debug)]
enum Place {
    Oldest,
    End,
    At(u64),
}

impl FromStr for Place {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "oldest" => Ok(Place::Oldest),
            "end" => Ok(Place::End),
            number => number
                .parse()
                .map(Place::At)
                .map_err(|_| "give oldest, end, or the number of a record"),
        }
    }
}

pub(crate) async fn cursors(arguments: CursorsArguments) -> Outcome {
    let client = arguments.server.connect().await?;
    let info = client.info();
    let of = info
        .identity
        .ok_or("the server is too old to have cursors")?;
    let Identity { log, epoch } = of;
    if let Some(name) = arguments.remove {
        if client.cursor(&name).await?.is_none() {
            return Err(format!("there is no cursor {name}; `txlog cursors` lists them").into());
        }
        client.remove_cursor(&name).await?;
        return Ok(SUCCESS);
    }
    if let Some((name, to)) = arguments.set.zip(arguments.to) {
        let sequence = match to {
            Place::Oldest => info.first,
            Place::End => info.next,
            Place::At(number) if number < info.first => {
                let first = info.first;
                return Err(format!(
                    "record {number} is no longer kept: the oldest is {first}; give `oldest`, or a \
                     number from there on"
                )
                .into());
            }
            Place::At(number) => number,
        };
        let cursor = Cursor {
            log,
            epoch,
            sequence,
        };
        client.set_cursor(&name, cursor).await?;
        return Ok(SUCCESS);
    }
    let mut output = std::io::stdout();
    for (name, cursor) in client.cursors().await? {
        // 0 is whatever is the oldest.
        let is_kept = cursor.sequence == 0 || cursor.sequence >= info.first;
        let behind = match (cursor.identity() == of, is_kept) {
            (true, true) => format!(
                "{} records behind",
                info.next.saturating_sub(cursor.sequence.max(info.first))
            ),
            (true, false) => format!(
                "at a record that is no longer kept; the oldest is {}",
                info.first
            ),
            (false, _) => "of an earlier epoch of the log".to_owned(),
        };
        writeln!(output, "{name}\t{cursor}\t{behind}")?;
    }
    Ok(ExitCode::SUCCESS)
}
