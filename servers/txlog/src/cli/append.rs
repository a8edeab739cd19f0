//! `txlog append`: records from the arguments or the input, each with its outcome.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::future::{Future, poll_fn};
use std::io::{BufRead, Read, Write};
use std::ops::RangeInclusive;
use std::pin::Pin;
use std::process::ExitCode;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use txlog_client::{AppendError, Appending, LogChange, Session, SessionOptions};

use super::client::say_trouble;
use super::{AppendArguments, Outcome};

/// How many lines are read ahead.
const LINES_QUEUED_MAX: usize = 1_024;

/// How many records are pending; more would not be faster, and be in doubt after a failure.
const PENDING_MAX: usize = 4_096;

/// How long answers are waited for after ctrl-c.
const LAST_WAIT: Duration = Duration::from_secs(3);

pub(crate) async fn append(arguments: AppendArguments) -> Outcome {
    let options = SessionOptions {
        give_up_after: Duration::from_secs(arguments.give_up_after),
        pending_max: PENDING_MAX,
        // Somebody has to do something about it.
        wait_for_failed_log: false,
        ..SessionOptions::default()
    };
    let session = arguments.server.session(options).await?;
    // What is wrong from the beginning is said at once.
    let bytes_max = session.connect().await?.record_bytes_max;
    evenkeel::spawn(say_trouble(session.trouble(), options.give_up_after));
    let (queue, mut records) = mpsc::channel(LINES_QUEUED_MAX);
    let given = arguments.records;
    // Reading the input blocks.
    let reading = evenkeel::spawn_blocking(move || match given.is_empty() {
        true => queue_lines(&queue, bytes_max),
        false => {
            let mut given = given
                .into_iter()
                .map(|text| Input::Record(text.into_bytes()));
            let _ = given.try_for_each(|record| queue.blocking_send(record));
            Ok(())
        }
    });
    let mut book = Book::default();
    let mut change = session.log_change();
    let ended = tokio::select! {
        ended = append_all(&session, &mut records, &mut book, &mut change) => ended,
        interrupted = evenkeel::signal::ctrl_c() => {
            interrupted?;
            Err("it was interrupted".to_owned())
        }
    };
    drop(records);
    if ended.is_err() {
        // Some answers are on their way; what has none after that is given up.
        let _ = evenkeel::time::timeout(LAST_WAIT, session.flush()).await;
        session.give_up().await;
        book.settle_all().await;
    }
    if change.has_changed().unwrap_or(false) {
        say_change(&mut change);
    }
    ended.map_err(|error| format!("{error}; {}", book.summary()))?;
    let read = reading.await?;
    read.map_err(|error| format!("cannot read the input: {error}; {}", book.summary()))?;
    Ok(ExitCode::SUCCESS)
}

/// What the input has.
enum Input {
    Record(Vec<u8>),
    /// A line of more than so many bytes, which was not read to its end.
    TooLong(usize),
}

/// Each line of the input, until there are no more, or one is longer than the server takes, or the
/// receiver is dropped.
fn queue_lines(queue: &mpsc::Sender<Input>, bytes_max: usize) -> std::io::Result<()> {
    let mut input = std::io::stdin().lock();
    // The line's end comes on top.
    let read_max = bytes_max as u64 + 1;
    loop {
        let mut line = Vec::new();
        if (&mut input).take(read_max).read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        if line.last() == Some(&b'\n') {
            line.pop();
        }
        let is_too_long = line.len() > bytes_max;
        let next = match is_too_long {
            true => Input::TooLong(bytes_max),
            false => Input::Record(line),
        };
        if queue.blocking_send(next).is_err() || is_too_long {
            return Ok(());
        }
    }
}

/// Says that records which were acknowledged may be gone.
fn say_change(change: &mut watch::Receiver<Option<LogChange>>) {
    if let Some(change) = *change.borrow_and_update() {
        eprintln!("txlog: {change}");
    }
}

/// Appends records until there are no more, or one has failed.
async fn append_all(
    session: &Session,
    records: &mut mpsc::Receiver<Input>,
    book: &mut Book,
    change: &mut watch::Receiver<Option<LogChange>>,
) -> Result<(), String> {
    let mut has_more = true;
    while has_more || !book.pending.is_empty() {
        tokio::select! {
            record = records.recv(), if has_more && book.pending.len() < PENDING_MAX => {
                match record {
                    Some(Input::TooLong(bytes_max)) => {
                        book.too_long = Some(bytes_max);
                        has_more = false;
                    }
                    Some(Input::Record(record)) => {
                        let submitted = session.submit(record).await;
                        book.submitted(submitted);
                        // One that was refused at once is known by now, and those before it are
                        // to be known first.
                        has_more = book.refused.is_none();
                    }
                    None => has_more = false,
                }
            }
            Ok(()) = change.changed() => say_change(change),
            settled = book.settle_first(), if !book.pending.is_empty() => settled?,
        }
    }
    book.last()
}

/// What became of the records, which are numbered from 1 as they came.
#[derive(Default)]
struct Book {
    pending: VecDeque<Appending>,
    /// The outcome of one that was refused before it was pending.
    refused: Option<AppendError>,
    /// The server's limit, if the line after those that were submitted has more.
    too_long: Option<usize>,
    /// How many have their outcomes; those are the first ones.
    settled: u64,
    stored: Numbers,
    not_stored: Numbers,
    unknown: Numbers,
}

impl Book {
    fn submitted(&mut self, submitted: Result<Appending, AppendError>) {
        match submitted {
            Ok(appending) => self.pending.push_back(appending),
            Err(error) => self.refused = Some(error),
        }
    }

    /// Waits for the first pending record's outcome, prints its number, and notes those of all
    /// others that are known by then. An error if it has failed, or cannot be printed.
    ///
    /// Cancel safe.
    async fn settle_first(&mut self) -> Result<(), String> {
        poll_fn(|cx| match self.pending.front_mut() {
            Some(first) => Pin::new(first).poll(cx).map(Some),
            None => std::task::Poll::Ready(None),
        })
        .await
        .map_or(Ok(()), |outcome| {
            self.pending.pop_front();
            self.note(outcome)
        })
    }

    fn note(&mut self, outcome: Result<u64, AppendError>) -> Result<(), String> {
        match outcome {
            Ok(sequence) => {
                self.settled += 1;
                self.stored.add(self.settled);
                let printed = writeln!(std::io::stdout(), "{sequence}");
                printed.map_err(|error| format!("cannot print: {error}"))
            }
            Err(error) => self.failed(error),
        }
    }

    fn failed(&mut self, error: AppendError) -> Result<(), String> {
        self.settled += 1;
        match error.is_surely_not_stored() {
            true => self.not_stored.add(self.settled),
            false => self.unknown.add(self.settled),
        }
        Err(format!("record {} of the input: {error}", self.settled))
    }

    /// Notes the one that was refused before it was pending.
    fn last(&mut self) -> Result<(), String> {
        if let Some(error) = self.refused.take() {
            return self.failed(error);
        }
        let Some(bytes_max) = self.too_long.take() else {
            return Ok(());
        };
        self.settled += 1;
        self.not_stored.add(self.settled);
        Err(format!(
            "record {} of the input has more than {bytes_max} bytes, which is the most that the \
             server takes: send less, or start it with a larger --record-bytes-max",
            self.settled
        ))
    }

    /// Notes all outcomes after a failure.
    async fn settle_all(&mut self) {
        while let Some(appending) = self.pending.pop_front() {
            // The first failure is the one that is told.
            let _ = self.note(appending.await);
        }
        let _ = self.last();
    }

    fn summary(&self) -> String {
        let mut summary = String::new();
        for (numbers, what) in [
            (&self.stored, "stored"),
            (&self.not_stored, "surely not stored"),
            (&self.unknown, "stored or not, which is unknown"),
        ] {
            let separator = if summary.is_empty() { "" } else { "; " };
            // Writing to a string does not fail.
            let _ = write!(summary, "{separator}{what}: {}", numbers.shown());
        }
        summary
    }
}

/// Numbers that grow, as ranges.
#[derive(Default)]
struct Numbers(Vec<RangeInclusive<u64>>);

/// How many ranges are shown.
const RANGES_SHOWN_MAX: usize = 100;

impl Numbers {
    fn add(&mut self, number: u64) {
        match self.0.last_mut() {
            Some(last) if *last.end() + 1 == number => *last = *last.start()..=number,
            _ => self.0.push(number..=number),
        }
    }

    fn shown(&self) -> String {
        let shown =
            self.0
                .iter()
                .take(RANGES_SHOWN_MAX)
                .map(|range| match range.start() == range.end() {
                    true => format!("{}", range.start()),
                    false => format!("{} to {}", range.start(), range.end()),
                });
        let shown = shown.collect::<Vec<_>>().join(", ");
        match self.0.len() {
            0 => "none".to_owned(),
            1..=RANGES_SHOWN_MAX => shown,
            ranges => format!("{shown} and {} more ranges", ranges - RANGES_SHOWN_MAX),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_shown_as_ranges() {
        let mut numbers = Numbers::default();
        assert_eq!(numbers.shown(), "none");
        for number in [1, 2, 3, 5, 7, 8] {
            numbers.add(number);
        }
        assert_eq!(numbers.shown(), "1 to 3, 5, 7 to 8");
        for number in 10..1_000 {
            numbers.add(2 * number);
        }
        assert!(
            numbers.shown().ends_with(", 212 and 893 more ranges"),
            "{}",
            numbers.shown()
        );
    }
}
