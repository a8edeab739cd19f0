//! The flags of `serve` for what handlers do in a service: answer at once, compute for long, block.

use std::net::SocketAddr;

use super::within;

/// Handlers that answer at once beside handlers that compute or block.
#[derive(Debug, clap::Args)]
pub(crate) struct HandlerArgs {
    /// HTTP/1.1: `GET /` answers at once, `POST /` computes in a single poll, then answers.
    #[arg(long, value_name = "ADDR")]
    pub(crate) mixed: Option<SocketAddr>,
    /// As --mixed, with connections that a line of source of their own spawns.
    #[arg(long, value_name = "ADDR")]
    pub(crate) apart: Option<SocketAddr>,
    /// As --mixed over HTTP/2 without TLS: each request is a task, which the runtime's executor for
    /// hyper spawns.
    #[arg(long, value_name = "ADDR")]
    pub(crate) mixed_h2: Option<SocketAddr>,
    /// As --mixed-h2, with an executor whose tasks a line of source of their own spawns.
    #[arg(long, value_name = "ADDR")]
    pub(crate) apart_h2: Option<SocketAddr>,
    /// Microseconds of computing for each `POST /`.
    #[arg(long, value_name = "U", default_value_t = 20_000)]
    #[arg(value_parser = within(0..=60_000_000_u64))]
    pub(crate) post_us: u64,
    /// So many fresh tasks a second, spawned by one line of source, of which --waits tells.
    #[arg(long, value_name = "RATE", requires = "waits")]
    #[arg(value_parser = within(1..=10_000_u32))]
    pub(crate) fresh: Option<u32>,
    /// Microseconds that one in five of these tasks computes in a single poll; another one in five
    /// is in the class `urgent`, and all others in `normal`.
    #[arg(long, value_name = "U", default_value_t = 0, requires = "fresh")]
    #[arg(value_parser = within(0..=60_000_000_u64))]
    pub(crate) fresh_hog_us: u64,
    /// Another line of source spawns those of these tasks that compute.
    #[arg(long, requires = "fresh")]
    pub(crate) fresh_apart: bool,
    /// How long each fresh task waited for its first poll: a plain thread answers every connection
    /// with a line of JSON.
    #[arg(long, value_name = "ADDR", requires = "fresh")]
    pub(crate) waits: Option<SocketAddr>,
    /// Each connection starts tasks that all block their thread, and is told so by a byte.
    #[arg(long, value_name = "ADDR")]
    pub(crate) block: Option<SocketAddr>,
    /// How many such tasks.
    #[arg(long, value_name = "N", default_value_t = 40, requires = "block")]
    #[arg(value_parser = within(1..=10_000_usize))]
    pub(crate) block_tasks: usize,
    /// For how many microseconds each of them blocks its thread.
    #[arg(long, value_name = "U", default_value_t = 2_000_000)]
    #[arg(requires = "block")]
    #[arg(value_parser = within(0..=60_000_000_u64))]
    pub(crate) block_us: u64,
}

impl HandlerArgs {
    /// The flags that ask for something, and whether they were given.
    pub(crate) fn asked(&self) -> [(&'static str, bool); 6] {
        [
            ("--mixed", self.mixed.is_some()),
            ("--apart", self.apart.is_some()),
            ("--mixed-h2", self.mixed_h2.is_some()),
            ("--apart-h2", self.apart_h2.is_some()),
            ("--fresh", self.fresh.is_some()),
            ("--block", self.block.is_some()),
        ]
    }
}
