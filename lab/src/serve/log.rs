//! A log that syncs each record by itself before it acknowledges it: what a log server is compared
//! with. It takes appends in the log server's own protocol.

use std::path::PathBuf;

use bytes::BytesMut;
use tokio::io::AsyncWriteExt;
use tokio::sync::Mutex;
use txlog_client::frame::{APPEND_OVERHEAD, Request, Response, VERSION};
use txlog_client::wire::FrameReader;

use super::platform::Platform;
use super::stats::Count;

/// The file is cut back when it has become so long: a run of any length costs a disk no more.
const FILE_LEN_MAX: u64 = 256 * 1024 * 1024;
/// The largest record that is taken.
const RECORD_MAX: usize = 1_048_576;

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
    stream: P::Stream,
    log: &Log<P>,
) -> std::io::Result<()> {
    let (reader, mut writer) = tokio::io::split(stream);
    let mut frames = FrameReader::new(reader, APPEND_OVERHEAD + RECORD_MAX);
    let (mut is_greeted, mut answer) = (false, BytesMut::new());
    while let Ok(Some(frame)) = frames.next().await {
        match (Request::decode(frame), is_greeted) {
            (Ok(Request::Hello { .. }), false) => Response::Welcome {
                version: VERSION,
                record_bytes_max: RECORD_MAX as u32,
                appends_max: 1,
                first: 0,
                next: 0,
                of: None,
                batch_bytes_max: None,
            },
            (Ok(Request::Append { id, payload }), true) => Response::Appended {
                id,
                sequence: log.append(payload.into()).await?,
            },
            _ => break,
        }
        .encode(&mut answer);
        is_greeted = true;
        writer.write_all_buf(&mut answer).await?;
    }
    Ok(())
}
