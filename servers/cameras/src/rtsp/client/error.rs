//! Why a camera cannot be used, and what to do about it.

use super::REDIRECTS_MAX;
use crate::rtsp::sdp::SdpError;

/// Why a camera cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The camera wants to know who asks.
    #[error(
        "the camera asks for a user and a password; write `user` and `password` beside its url"
    )]
    Credentials,
    /// It refused those that it was given.
    #[error("the camera refuses user {0:?} or the password")]
    Refused(String),
    /// It asks for what is not understood.
    #[error("the camera asks for authentication that is not supported: {0}")]
    Challenge(String),
    /// It refused a request.
    #[error("the camera answers {method} with {status} {reason}{hint}")]
    Status {
        /// The request.
        method: &'static str,
        /// The number.
        status: u16,
        /// What it says.
        reason: String,
        /// What may be the cause.
        hint: &'static str,
    },
    /// An answer does not fit the request.
    #[error("the camera's answer to {method} {what}")]
    Answer {
        /// The request.
        method: &'static str,
        /// What is wrong with it.
        what: &'static str,
    },
    /// It sends viewers elsewhere, again and again.
    #[error("the camera redirects more than {REDIRECTS_MAX} times, at last to {0}")]
    Redirects(String),
    /// It sends viewers to an address that is none.
    #[error("the camera redirects to {0:?}, which is no address of RTSP")]
    Location(String),
    /// Its description.
    #[error(transparent)]
    Sdp(#[from] SdpError),
}
