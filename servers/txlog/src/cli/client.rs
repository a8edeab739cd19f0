//! `txlog append`, `txlog read` and `txlog ping`.

use std::collections::VecDeque;
use std::io::{BufRead, Write};
use std::process::ExitCode;
use std::time::Duration;

use tokio::sync::mpsc;
use txlog_client::{Client, Follower, ReadFrom, Submitted};

use super::{AppendArguments, Outcome, PingArguments, ReadArguments};

/// How many lines are read ahead.
const LINES_QUEUED_MAX: usize = 1_024;

/// The time between two pings.
const PING_PAUSE: Duration = Duration::from_millis(200);

pub(crate) async fn append(arguments: AppendArguments) -> Outcome {
    let client = Client::connect(arguments.server.server.as_str()).await?;
    if !arguments.records.is_empty() {
        for record in arguments.records {
            println!("{}", client.append(record).await?);
        }
        return Ok(ExitCode::SUCCESS);
    }
    let (lines, mut records) = mpsc::channel(LINES_QUEUED_MAX);
    // Reading the input blocks.
    let reading = evenkeel::spawn_blocking(move || {
        for line in std::io::stdin().lock().split(b'\n') {
            let line = line?;
            let task = lines.blocking_send(line);
            if task.is_err() {
                break;
            }
        }
        Ok::<_, std::io::Error>(())
    });
    let mut under_way = VecDeque::new();
    while let Some(record) = records.recv().await {
        under_way.push_back(client.submit(record).await?);
        if under_way.len() >= client.info().appends_max.min(LINES_QUEUED_MAX) {
            report_first(&mut under_way).await?;
        }
    }
    while !under_way.is_empty() {
        report_first(&mut under_way).await?;
    }
    reading.await??;
    Ok(ExitCode::SUCCESS)
}

async fn report_first(
    under_way: &mut VecDeque<Submitted>,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    if let Some(first) = under_way.pop_front() {
        writeln!(std::io::stdout(), "{}", first.await?)?;
    }
    Ok(())
}

pub(crate) async fn read(arguments: ReadArguments) -> Outcome {
    let client = Client::connect(arguments.server.server.as_str()).await?;
    let mut follower = client.follow(match arguments.from {
        0 => ReadFrom::Oldest,
        sequence => ReadFrom::Sequence(sequence),
    });
    let count = arguments.count.unwrap_or(u64::MAX);
    tokio::select! {
        printed = print(&mut follower, arguments.follow, count) => printed?,
        interrupted = evenkeel::signal::ctrl_c() => interrupted?,
    }
    Ok(ExitCode::SUCCESS)
}

async fn print(
    follower: &mut Follower,
    follow: bool,
    count: u64,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let mut output = std::io::stdout();
    for _ in 0..count {
        let record = if follow {
            follower.next().await?
        } else {
            match follower.try_next().await? {
                Some(record) => record,
                None => break,
            }
        };
        write!(output, "{}\t", record.sequence)?;
        output.write_all(&record.payload)?;
        output.write_all(b"\n")?;
        output.flush()?;
    }
    Ok(())
}

pub(crate) async fn ping(arguments: PingArguments) -> Outcome {
    let server = arguments.server.server;
    let client = Client::connect(server.as_str()).await?;
    for number in 0..arguments.count {
        if number > 0 {
            evenkeel::time::sleep(PING_PAUSE).await;
        }
        let took = client.ping().await?;
        println!("{server} answered in {:.3} ms", took.as_secs_f64() * 1e3);
    }
    Ok(ExitCode::SUCCESS)
}
