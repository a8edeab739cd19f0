//! A connection on which a camera is asked, and answers.

use std::time::Duration;

use evenkeel::time::timeout;
use rtsp_types::Message;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::IngestError;
use super::session::make_room;
use crate::rtsp::{Frame, Wire};
use crate::tls::Stream;

/// The connection.
pub(super) struct Talk {
    pub(super) stream: Stream,
    pub(super) wire: Wire,
    /// For each answer.
    pub(super) patience: Duration,
}

impl Talk {
    /// Sends a request, and waits for its answer.
    pub(super) async fn ask(
        &mut self,
        bytes: &[u8],
    ) -> Result<rtsp_types::Response<Vec<u8>>, IngestError> {
        self.send(bytes).await?;
        self.response().await
    }

    pub(super) async fn response(&mut self) -> Result<rtsp_types::Response<Vec<u8>>, IngestError> {
        let patience = self.patience;
        let answered = timeout(patience, async {
            loop {
                match self.wire.frame()? {
                    Some(Frame::Message(Message::Response(response))) => return Ok(response),
                    Some(Frame::Message(Message::Request(request))) => {
                        self.stream.write_all(&answer_to(&request)).await?;
                        self.stream.flush().await?;
                    }
                    // Packets of a session that was, or that begins before its answer.
                    Some(_) => {}
                    None => {
                        make_room(&mut self.wire);
                        if self.stream.read_buf(self.wire.buffer()).await? == 0 {
                            return Err(IngestError::Ended);
                        }
                    }
                }
            }
        });
        answered.await.unwrap_or(Err(IngestError::Slow {
            what: "a request",
            patience,
        }))
    }

    pub(super) async fn send(&mut self, bytes: &[u8]) -> Result<(), IngestError> {
        let patience = self.patience;
        let sent = timeout(patience, async {
            self.stream.write_all(bytes).await?;
            self.stream.flush().await
        });
        let sent = sent.await;
        Ok(sent.map_err(|_| IngestError::Slow {
            what: "the sending of a request",
            patience,
        })??)
    }
}

/// The answer to what a camera asks us: that it is not supported, or that we are here.
pub(super) fn answer_to(request: &rtsp_types::Request<Vec<u8>>) -> Vec<u8> {
    use rtsp_types::{Method, Response, StatusCode, Version, headers};
    let status = match request.method() {
        Method::Options | Method::GetParameter | Method::SetParameter => StatusCode::Ok,
        _ => StatusCode::NotImplemented,
    };
    let cseq = request
        .header(&headers::CSEQ)
        .map_or("0", |value| value.as_str());
    let response = Response::builder(Version::V1_0, status).header(headers::CSEQ, cseq);
    let mut bytes = Vec::new();
    // Writing into memory does not fail.
    let _ = response.empty().write(&mut bytes);
    bytes
}
