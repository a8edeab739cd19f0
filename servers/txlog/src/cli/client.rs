//! `txlog read` and `txlog ping`.

use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use tokio::sync::watch;
use txlog_client::{ClientError, Record, SessionFollower, SessionOptions};

use super::{Outcome, PingArguments, ReadArguments, consume};

pub(super) const SUCCESS: ExitCode = ExitCode::SUCCESS;

/// How long a reader that follows tries to connect again.
const FOR_EVER: Duration = Duration::MAX;

/// The time between two pings.
const PING_PAUSE: Duration = Duration::from_millis(200);

pub(crate) async fn read(arguments: ReadArguments) -> Outcome {
    let options = SessionOptions {
        // Who follows goes on when the server is back; who does not hears at once.
        give_up_after: match arguments.follow {
            true => arguments
                .give_up_after
                .map_or(FOR_EVER, Duration::from_secs),
            false => Duration::ZERO,
        },
        ..SessionOptions::default()
    };
    let count = arguments.count.unwrap_or(u64::MAX);
    if let Some(name) = &arguments.place.consumer {
        let session = arguments.server.session(options).await?;
        let give_up_after = options.give_up_after;
        return consume::read(session, name, (arguments.follow, count), give_up_after).await;
    }
    let client = arguments.server.connect().await?;
    let follower = arguments.place.follower(&client).await?;
    let from = follower.position().max(1);
    let session = arguments.server.session(options).await?;
    let mut follower = session.adopt(follower);
    if arguments.follow {
        evenkeel::spawn(say_trouble(follower.trouble(), options.give_up_after));
    }
    let printed = tokio::select! {
        printed = print(&mut follower, arguments.follow, count) => printed,
        interrupted = evenkeel::signal::ctrl_c() => {
            interrupted?;
            show_cursor(&follower, arguments.show_cursor);
            return Ok(SUCCESS);
        }
    };
    match printed {
        Ok(0) if count > 0 => {
            let next = client.info().next;
            eprintln!("txlog: no record from {from} on; the next one to come is {next}");
        }
        Ok(_) => {}
        Err(error) if reader_is_gone(&*error) => {}
        Err(error) => return Err(error),
    }
    show_cursor(&follower, arguments.show_cursor);
    Ok(SUCCESS)
}

/// Says that nothing goes on for now, why, how long it is tried again for, and that it goes on.
pub(super) async fn say_trouble(
    mut trouble: watch::Receiver<Option<ClientError>>,
    give_up_after: Duration,
) {
    let how_long = match give_up_after {
        FOR_EVER => "for ever; --give-up-after SECONDS would limit that".to_owned(),
        time => format!("for {} s, as --give-up-after says", time.as_secs()),
    };
    let mut was_lost = false;
    while trouble.changed().await.is_ok() {
        let now = trouble.borrow_and_update().clone();
        match (&now, was_lost) {
            (Some(error), false) => {
                eprintln!("txlog: {error} (trying again {how_long})");
            }
            (None, true) => eprintln!("txlog: going on"),
            _ => {}
        }
        was_lost = now.is_some();
    }
}

fn show_cursor(follower: &SessionFollower, wanted: bool) {
    match follower.cursor() {
        Some(cursor) if wanted => eprintln!("cursor: {cursor}"),
        None if wanted => eprintln!("txlog: the server is too old to have cursors"),
        _ => {}
    }
}

/// Whether the reader of the output has closed it, as `head` does: then the read has not failed.
pub(super) fn reader_is_gone(error: &(dyn std::error::Error + 'static)) -> bool {
    let error = error.downcast_ref::<std::io::Error>();
    error.is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}

/// Prints up to this many records, and returns how many there were.
async fn print(
    follower: &mut SessionFollower,
    follow: bool,
    count: u64,
) -> Result<u64, Box<dyn std::error::Error + Send + Sync>> {
    let mut output = std::io::stdout();
    for printed in 0..count {
        let record = if follow {
            follower.next().await?
        } else {
            match follower.try_next().await? {
                Some(record) => record,
                None => return Ok(printed),
            }
        };
        print_record(&mut output, &record)?;
    }
    Ok(count)
}

pub(super) fn print_record(output: &mut impl Write, record: &Record) -> std::io::Result<()> {
    write!(output, "{}\t", record.sequence)?;
    output.write_all(&record.payload)?;
    output.write_all(b"\n")?;
    output.flush()
}

pub(crate) async fn ping(arguments: PingArguments) -> Outcome {
    let client = arguments.server.connect().await?;
    let server = arguments.server.server;
    for number in 0..arguments.count {
        if number > 0 {
            evenkeel::time::sleep(PING_PAUSE).await;
        }
        if arguments.writable {
            let health = client
                .health(Duration::from_millis(arguments.within))
                .await?;
            if !health.writable {
                return Err(format!("{server} is not writable: {}", health.text).into());
            }
            println!("{server} is writable: {}", health.text);
            continue;
        }
        let took = client.ping().await?;
        println!("{server} answered in {:.3} ms", took.as_secs_f64() * 1e3);
    }
    Ok(SUCCESS)
}
