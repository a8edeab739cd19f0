//! Places: the logs of a server, and the records of a time.

use std::time::{SystemTime, UNIX_EPOCH};

use super::{Asked, Client, unexpected};
use crate::error::ClientError;
use crate::frame::{LogInfo, Request, Response};

/// The version that has these requests.
const VERSION_NEEDED: u16 = 3;

impl Client {
    /// The server's logs, by their names in order; the one without a name is the first, if there is
    /// one.
    ///
    /// # Errors
    ///
    /// [`ClientError`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn logs(&self) -> Result<Vec<LogInfo>, ClientError> {
        self.needs_version(VERSION_NEEDED, "lists of logs")?;
        let mut all: Vec<LogInfo> = Vec::new();
        loop {
            let after = all.last().map_or_else(String::new, |log| log.name.clone());
            let request = |id| Request::Logs { id, after };
            match self.ask(request).await? {
                Response::Logs { more, logs, .. } => {
                    let is_last = !more || logs.is_empty();
                    all.extend(logs);
                    if is_last {
                        return Ok(all);
                    }
                }
                other => return Err(unexpected(&other)),
            }
        }
    }

    /// The number of the first record that the server took at this time or later, or of the next
    /// one to come, if there is none.
    ///
    /// The server goes by its own clock. If that was put back, times of records step back as well:
    /// the answer is then a record of this time or later whose predecessor in its file is older,
    /// and records of that time or later may be before it as well.
    ///
    /// # Errors
    ///
    /// [`ClientError`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn seek(&self, time: SystemTime) -> Result<u64, ClientError> {
        self.needs_version(VERSION_NEEDED, "seeking by time")?;
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        let time_ms = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
        match self.ask(|id| Request::Seek { id, time_ms }).await? {
            Response::Sought { sequence, .. } => Ok(sequence),
            other => Err(unexpected(&other)),
        }
    }

    /// Asks, and waits for the answer.
    pub(super) async fn ask(
        &self,
        request: impl FnOnce(u64) -> Request,
    ) -> Result<Response, ClientError> {
        let mut asked = Asked::new(&self.inner);
        let answer = asked.send(None, request).await?;
        asked.answer(answer).await
    }
}
