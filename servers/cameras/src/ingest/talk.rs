//! A connection on which a camera is asked, and answers.

use std::time::Duration;

use evenkeel::time::timeout;
use rtsp_types::{Message, StatusCode};
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
                    // Before the final one, which is waited for no longer because of it.
                    Some(Frame::Message(Message::Response(response)))
                        if response.status() == StatusCode::Continue => {}
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
    use rtsp_types::{Method, Response, Version, headers};
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

#[cfg(test)]
mod tests {
    use std::io::Write;

    use evenkeel::net::TcpStream;
    use evenkeel::runtime::Builder;

    use super::*;

    #[test]
    fn a_camera_that_puts_off_its_answer_is_given_up() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let camera = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            while stream
                .write_all(b"RTSP/1.0 100 Continue\r\nCSeq: 1\r\n\r\n")
                .is_ok()
            {
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        let runtime = Builder::new().workers(1).build().unwrap();
        runtime.block_on(async {
            let mut talk = Talk {
                stream: Stream::plain(TcpStream::connect(address).await.unwrap()),
                wire: Wire::default(),
                patience: Duration::from_millis(50),
            };
            let answered = talk.ask(b"OPTIONS * RTSP/1.0\r\nCSeq: 1\r\n\r\n").await;
            assert!(
                matches!(answered, Err(IngestError::Slow { .. })),
                "{answered:?}"
            );
        });
        camera.join().unwrap();
    }
}
