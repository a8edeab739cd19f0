//! `txlog append`, `txlog read` and `txlog ping`.

use std::collections::VecDeque;
use std::io::{BufRead, Write};
use std::process::ExitCode;
use std::time::Duration;

use tokio::sync::mpsc;
use txlog_client::{ClientError, Follower, Submitted};

use super::{AppendArguments, Outcome, PingArguments, ReadArguments};

const SUCCESS: ExitCode = ExitCode::SUCCESS;

/// How many lines are read ahead.
const LINES_QUEUED_MAX: usize = 1_024;

/// The time between two pings.
const PING_PAUSE: Duration = Duration::from_millis(200);

pub(crate) async fn append(arguments: AppendArguments) -> Outcome {
    let client = arguments.server.connect().await?;
    let (queue, mut records) = mpsc::channel(LINES_QUEUED_MAX);
    let given = arguments.records;
    // Reading the input blocks.
    let reading = evenkeel::spawn_blocking(move || match given.is_empty() {
        true => queue_lines(&queue),
        false => {
            let mut given = given.into_iter().map(String::into_bytes);
            let _ = given.try_for_each(|record| queue.blocking_send(record));
            Ok(())
        }
    });
    let under_way_max = client.info().appends_max.min(LINES_QUEUED_MAX);
    let mut appends = Appends::default();
    while let Some(record) = records.recv().await {
        match client.submit(record).await {
            Ok(submitted) => appends.under_way.push_back(submitted),
            Err(error) => {
                // Records before it may be durable.
                appends.report_all().await?;
                return Err(appends.failed(&error).into());
            }
        }
        if appends.under_way.len() >= under_way_max {
            appends.report_first().await?;
        }
    }
    appends.report_all().await?;
    let read = reading.await?;
    read.map_err(|error| format!("cannot read the input: {error}; {}", appends.durable()))?;
    Ok(SUCCESS)
}

/// Each line of the input, until there are no more, or the receiver is dropped.
fn queue_lines(queue: &mpsc::Sender<Vec<u8>>) -> std::io::Result<()> {
    for line in std::io::stdin().lock().split(b'\n') {
        if queue.blocking_send(line?).is_err() {
            break;
        }
    }
    Ok(())
}

/// Pending records, in order, and their number.
#[derive(Default)]
struct Appends {
    under_way: VecDeque<Submitted>,
    acknowledged: u64,
}

impl Appends {
    async fn report_all(&mut self) -> Result<(), String> {
        while !self.under_way.is_empty() {
            self.report_first().await?;
        }
        Ok(())
    }

    async fn report_first(&mut self) -> Result<(), String> {
        let Some(first) = self.under_way.pop_front() else {
            return Ok(());
        };
        let sequence = first.await.map_err(|error| self.failed(&error))?;
        self.acknowledged += 1;
        let printed = writeln!(std::io::stdout(), "{sequence}");
        printed.map_err(|error| format!("cannot print: {error}; {}", self.durable()))
    }

    /// Reports the first record that failed, and the state of those before it.
    fn failed(&self, error: &ClientError) -> String {
        let number = self.acknowledged + 1;
        format!("record {number} of the input: {error}; {}", self.durable())
    }

    fn durable(&self) -> String {
        match self.acknowledged {
            0 => "none of them is known to be durable".to_owned(),
            1 => "only the first is known to be durable".to_owned(),
            count => format!("the first {count} are durable"),
        }
    }
}

pub(crate) async fn read(arguments: ReadArguments) -> Outcome {
    let client = arguments.server.connect().await?;
    let mut follower = arguments.place.follower(&client).await?;
    let count = arguments.count.unwrap_or(u64::MAX);
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
            let (from, next) = (follower.position().max(1), client.info().next);
            eprintln!("txlog: no record from {from} on; the next one to come is {next}");
        }
        Ok(_) => {}
        Err(error) if reader_is_gone(&*error) => {}
        Err(error) => return Err(error),
    }
    show_cursor(&follower, arguments.show_cursor);
    Ok(SUCCESS)
}

fn show_cursor(follower: &Follower, wanted: bool) {
    match follower.cursor() {
        Some(cursor) if wanted => eprintln!("cursor: {cursor}"),
        None if wanted => eprintln!("txlog: the server is too old to have cursors"),
        _ => {}
    }
}

/// Whether the reader of the output has closed it, as `head` does: then the read has not failed.
fn reader_is_gone(error: &(dyn std::error::Error + 'static)) -> bool {
    let error = error.downcast_ref::<std::io::Error>();
    error.is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}

/// Prints up to this many records, and returns how many there were.
async fn print(
    follower: &mut Follower,
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
        write!(output, "{}\t", record.sequence)?;
        output.write_all(&record.payload)?;
        output.write_all(b"\n")?;
        output.flush()?;
    }
    Ok(count)
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
