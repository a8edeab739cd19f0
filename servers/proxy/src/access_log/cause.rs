//! Why a request was not served as it was asked.

use crate::pool::{NoConnection, NoServer};

/// What kept a request from a whole answer of a server, or of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// What it says is refused.
    BadRequest,
    /// No route takes it.
    NoRoute,
    /// A route rejects the connection.
    Rejected,
    /// No server is up.
    NoServer,
    /// The queue for a server was full.
    QueueFull,
    /// It waited there for too long.
    QueueTimeout,
    /// No connection to a server could be made.
    NoConnection,
    /// The server closed the connection without an answer.
    ServerClosed,
    /// What the server answered is no answer.
    ServerBad,
    /// The server did not answer in time.
    ServerSlow,
    /// The server broke off its answer.
    ServerBroke,
    /// The client has gone, or does not take the answer.
    ClientGone,
    /// The client's body came too slowly.
    ClientSlow,
    /// A limit of the proxy's own was reached.
    Limit,
    /// It was ended: by an operator, the end of the proxy, or either side of a connection that is
    /// passed on.
    CutOff,
}

impl Cause {
    /// As it is written.
    pub const fn name(self) -> &'static str {
        match self {
            Self::BadRequest => "bad-request",
            Self::NoRoute => "no-route",
            Self::Rejected => "rejected",
            Self::NoServer => "no-server",
            Self::QueueFull => "queue-full",
            Self::QueueTimeout => "queue-timeout",
            Self::NoConnection => "no-connection",
            Self::ServerClosed => "server-closed",
            Self::ServerBad => "server-bad",
            Self::ServerSlow => "server-slow",
            Self::ServerBroke => "server-broke",
            Self::ClientGone => "client-gone",
            Self::ClientSlow => "client-slow",
            Self::Limit => "limit",
            Self::CutOff => "cut-off",
        }
    }

    /// Of one for which there is no connection to a server.
    pub(super) const fn of(error: &NoConnection) -> Self {
        match error {
            NoConnection::NoServer(NoServer::NoneUp(_)) => Self::NoServer,
            NoConnection::NoServer(NoServer::QueueFull(..)) => Self::QueueFull,
            NoConnection::NoServer(NoServer::QueueTimeout(..)) => Self::QueueTimeout,
            NoConnection::Failed { .. } => Self::NoConnection,
        }
    }

    /// Of a request that is answered with this status before any server was asked.
    pub const fn of_status(status: u16) -> Self {
        match status {
            404 => Self::NoRoute,
            408 => Self::ClientSlow,
            _ => Self::BadRequest,
        }
    }
}
