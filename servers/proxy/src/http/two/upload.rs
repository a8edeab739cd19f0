//! The body of a request on its way, and the answer that may come before its end.

use std::future::pending;
use std::io;
use std::pin::{Pin, pin};
use std::time::Duration;

use h2::RecvStream;

use super::super::exchange::{Fault, Plan};
use super::super::patience::Patience;
use super::answer::{Answer, Awaited, INTERIM_MAX, Trouble};
use super::body::Broken;
use super::reply::Reply;
use crate::server::Front;
use crate::stream::Stream;

/// The body of a request on its way.
pub(super) struct Upload<'u, F> {
    pub(super) future: Pin<&'u mut F>,
    pub(super) is_going: bool,
    pub(super) is_whole: bool,
}

impl<F: Future<Output = Result<(), Broken>>> Upload<'_, F> {
    /// Goes on while the answer is sent. A request that is cut off cuts off its answer.
    pub(super) async fn beside(
        &mut self,
        download: impl Future<Output = Result<(), Broken>>,
    ) -> Result<(), Broken> {
        let mut download = pin!(download);
        loop {
            tokio::select! {
                biased;
                uploaded = &mut self.future, if self.is_going => {
                    self.is_going = false;
                    self.is_whole = uploaded.is_ok();
                    if matches!(uploaded, Err(Broken::From(_) | Broken::Bad(_))) {
                        return Err(Broken::To);
                    }
                }
                result = &mut download => return result,
            }
        }
    }
}

/// Waits for the head of the answer, and passes on those before it.
pub(super) async fn answered<F: Future<Output = Result<(), Broken>>>(
    upload: &mut Upload<'_, F>,
    awaited: &mut Awaited<'_>,
    reply: &mut Reply<'_>,
    front: &Front,
    plan: &Plan,
) -> Result<(Answer, Option<RecvStream>), Trouble> {
    let (mut interim, origin) = (0, awaited.stream());
    let mut late = pin!(None);
    loop {
        tokio::select! {
            biased;
            uploaded = &mut upload.future, if upload.is_going => {
                upload.is_going = false;
                upload.is_whole = sent(uploaded)?;
                late.set(Some(late_after(answer_time(front, plan), origin)));
            }
            next = awaited.next(plan, front.config.head_bytes_max) => {
                let (answer, body) = next?;
                if !answer.is_interim() {
                    return Ok((answer, body));
                }
                interim += 1;
                if interim > INTERIM_MAX {
                    return Err(Fault::Server("sent too many interim answers".to_owned()).into());
                }
                reply.interim(answer, front, plan).await?;
            }
            // After the answer, as h2 takes a lock to look.
            () = reply.gone() => return Err(Fault::ClientGone.into()),
            () = at(late.as_mut()) => return Err(Fault::ServerSlow.into()),
        }
    }
}

/// Whether the whole body was sent, if an answer may still come.
fn sent(uploaded: Result<(), Broken>) -> Result<bool, Trouble> {
    match uploaded {
        Ok(()) => Ok(true),
        // It may have answered before; if not, that is said by what comes of it.
        Err(Broken::To) => Ok(false),
        Err(Broken::From(error)) if error.kind() == io::ErrorKind::TimedOut => {
            Err(Fault::ClientSlow.into())
        }
        Err(Broken::From(_)) => Err(Fault::ClientGone.into()),
        Err(Broken::Bad(why)) => Err(Fault::Bad(why).into()),
        Err(Broken::Full) => Err(Trouble::Full),
    }
}

/// How long a server may take for the head of its answer.
fn answer_time(front: &Front, plan: &Plan) -> Duration {
    let time = plan.pool.config.timeouts.answer;
    match plan.is_grpc {
        // It comes with the first message, which a call may wait for.
        true => time.max(front.config.timeouts.idle),
        false => time,
    }
}

/// Until a server has been silent for so long, and has taken nothing of what waits for it in a
/// connection of its own.
async fn late_after(time: Duration, origin: Option<&Stream>) {
    let mut taken = origin.map(|origin| origin.socket().taken());
    let taken = || taken.as_mut().map_or(0, |taken| taken());
    let mut patience = Patience::each(time);
    // It ends by its time alone.
    let _ = patience
        .wait_while(taken, pending::<io::Result<()>>())
        .await;
}

async fn at(late: Pin<&mut Option<impl Future<Output = ()>>>) {
    match late.as_pin_mut() {
        Some(late) => late.await,
        None => pending().await,
    }
}
