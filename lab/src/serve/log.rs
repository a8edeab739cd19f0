//! A log that syncs each record by itself before it acknowledges it: what a log server is compared
//! with. It takes appends in the log server's own protocol.

use std::path::PathBuf;
use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Mutex;

use super::platform::Platform;
use super::stats::Count;
use crate::appends::{APPEND_HEAD_LEN, HELLO, appended, read_append, welcome};

/// The file is cut back when it has become so long: a run of any length costs a disk no more.
const FILE_LEN_MAX: u64 = 256 * 1024 * 1024;

/// One file and how far it is written, by one at a time.
pub(crate) struct Log<P: Platform> {
    end: Mutex<(P::File, u64)>,
    records: Count,
}

impl<P: Platform> Log<P> {
    pub(crate) async fn create(path: PathBuf) -> std::io::Result<Self> {
        let file = P::create(path).await?;
        Ok(Log {
            end: Mutex::new((file, 0)),
            records: Count::default(),
        })
    }

    /// The record's number, once it is durable.
    async fn append(&self, record: Vec<u8>) -> std::io::Result<u64> {
        let mut end = self.end.lock().await;
        let (file, at) = &mut *end;
        let len = record.len() as u64;
        P::write_at(file, record, *at).await?;
        P::sync_data(file).await?;
        *at = (*at + len) % FILE_LEN_MAX;
        Ok(self.records.next())
    }
}

/// A client that says what is no append is hung up on.
pub(crate) async fn connection<P: Platform>(
    mut stream: P::Stream,
    log: Arc<Log<P>>,
) -> std::io::Result<()> {
    let mut hello = [0; HELLO.len()];
    stream.read_exact(&mut hello).await?;
    if hello != HELLO {
        return Ok(());
    }
    stream.write_all(&welcome()).await?;
    let mut head = [0; APPEND_HEAD_LEN];
    loop {
        stream.read_exact(&mut head).await?;
        let Some((id, len)) = read_append(head) else {
            return Ok(());
        };
        let mut record = vec![0; len];
        stream.read_exact(&mut record).await?;
        let sequence = log.append(record).await?;
        stream.write_all(&appended(id, sequence)).await?;
    }
}
