//! A client of PostgreSQL: `postgres CONFIGURATION` with the table `note`, which it fills.

use std::future::poll_fn;
use std::time::Duration;

use programs::Error;
use tokio::sync::mpsc;
use tokio_postgres::{AsyncMessage, Client, Config, NoTls, error::SqlState};

/// So many rows, and so many connections.
const ROWS: i32 = 200;
const CONNECTIONS: usize = 8;

#[tokio::main]
async fn main() -> Result<(), Error> {
    let config: Config = std::env::args()
        .nth(1)
        .ok_or("postgres CONFIGURATION")?
        .parse()?;
    let (mut client, mut notices) = connect(&config).await?;
    client.batch_execute("LISTEN filled").await?;
    let inserted = fill(&mut client).await?;
    notices.recv().await.ok_or("no notification has come")?;
    let read = read(&config).await?;
    let cancelled = cancelled(&client).await?;
    println!("{inserted} inserted, {read} read, 1 notification, cancelled: {cancelled}");
    Ok(())
}

/// A connection, and the notifications that it receives.
async fn connect(config: &Config) -> Result<(Client, mpsc::UnboundedReceiver<String>), Error> {
    let (client, mut connection) = config.connect(NoTls).await?;
    let (send, notices) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
            if let AsyncMessage::Notification(notice) = message {
                _ = send.send(notice.payload().to_owned());
            }
        }
    });
    Ok((client, notices))
}

/// Rows in a transaction that is committed, and others in one that is not.
async fn fill(client: &mut Client) -> Result<i64, Error> {
    let insert = "INSERT INTO note (id, body) VALUES ($1, $2)";
    for (commits, first) in [(true, 0), (false, ROWS)] {
        let transaction = client.transaction().await?;
        let statement = transaction.prepare(insert).await?;
        for id in first..first + ROWS {
            let body = format!("note {id}");
            transaction.execute(&statement, &[&id, &body]).await?;
        }
        transaction.batch_execute("NOTIFY filled").await?;
        if commits {
            transaction.commit().await?;
        } else {
            transaction.rollback().await?;
        }
    }
    let count = client.query_one("SELECT count(*) FROM note", &[]).await?;
    Ok(count.try_get(0)?)
}

/// How many rows are right, read over several connections at once.
async fn read(config: &Config) -> Result<usize, Error> {
    let mut readers = Vec::new();
    for _ in 0..CONNECTIONS {
        let (client, _) = connect(config).await?;
        readers.push(tokio::spawn(async move {
            let rows = client.query("SELECT id, body FROM note", &[]).await?;
            let is_right = |row: &tokio_postgres::Row| {
                row.get::<_, String>(1) == format!("note {}", row.get::<_, i32>(0))
            };
            Ok::<_, tokio_postgres::Error>(rows.iter().filter(|row| is_right(row)).count())
        }));
    }
    let mut right = 0;
    for reader in readers {
        right += reader.await??;
    }
    Ok(right)
}

/// Whether a query that would take a minute ends when it is cancelled.
async fn cancelled(client: &Client) -> Result<bool, Error> {
    let token = client.cancel_token();
    let cancel = tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(100)).await;
        token.cancel_query(NoTls).await
    });
    let slept = client.batch_execute("SELECT pg_sleep(60)").await;
    cancel.await??;
    let code = slept.err().and_then(|error| error.code().cloned());
    Ok(code == Some(SqlState::QUERY_CANCELED))
}
