//! HTTP/2: what clients may do, and what is spoken with servers.

use serde::Deserialize;

/// The default of what all connections together may hold.
pub(super) const ALL_HELD_BYTES_MAX: usize = 256 << 20;

/// HTTP/2 with the clients of a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ListenerH2 {
    /// Whether it is spoken: over TLS if both sides want it, and without TLS if the client begins
    /// with it.
    pub enabled: bool,
    /// Whether nothing else is spoken, so that clients need not say that they want it.
    pub only: bool,
    /// Requests of a connection at a time.
    pub streams_max: usize,
    /// Bytes of a request's body that may come before the proxy has taken some.
    pub window: usize,
    /// The same of all requests of a connection together.
    pub connection_window: usize,
    /// Bytes of answers that a connection holds which its client has not taken yet.
    pub held_bytes_max: usize,
    /// Requests that a client may take back, in a second.
    pub resets_max: usize,
    /// Frames that are of no request, such as SETTINGS and PING, in a second.
    pub controls_max: usize,
}

impl Default for ListenerH2 {
    fn default() -> Self {
        Self {
            enabled: true,
            only: false,
            streams_max: 100,
            window: 64 << 10,
            connection_window: 1 << 20,
            held_bytes_max: 256 << 10,
            resets_max: 100,
            controls_max: 100,
        }
    }
}

/// What is spoken with the servers of a pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum Protocol {
    /// HTTP/1.1.
    #[default]
    #[serde(rename = "http/1.1")]
    One,
    /// HTTP/2: by ALPN over TLS, and without TLS as both know it.
    #[serde(rename = "h2")]
    Two,
}

/// HTTP/2 with the servers of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PoolH2 {
    /// Requests of a connection at a time, if the server allows as many.
    pub streams_max: usize,
    /// Bytes of an answer's body that may come before its client has taken some. The window of the
    /// connection is that of all its requests, so that no client holds up others.
    pub window: usize,
}

impl Default for PoolH2 {
    fn default() -> Self {
        Self {
            streams_max: 100,
            window: 64 << 10,
        }
    }
}
