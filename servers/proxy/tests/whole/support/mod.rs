//! What the tests share: the program, clients, and servers behind it.

mod authority;
mod client;
pub(crate) mod frames;
mod names;
mod origin;
mod program;
mod secured;
pub(crate) mod two;

pub(crate) use authority::AcmeServer;
pub(crate) use client::{Answer, Client, connected};
pub(crate) use names::Names;
pub(crate) use origin::{Origin, Reply, request};
pub(crate) use program::{Proxy, run_command};
pub(crate) use secured::{Trust, secured};
pub(crate) use servers_common::testing::{Authority, Issued, LIMIT, until};

/// Bytes that show whether some are lost, doubled or out of order.
pub(crate) fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i % 251) as u8).collect()
}

/// A listener for HTTP named `web`, and a pool `app` of these servers. `more` goes into the table
/// of the listener, and `pool` into that of the pool.
pub(crate) fn web(more: &str, pool: &str, servers: &[&Origin]) -> String {
    let mut text = format!(
        "[listener.web]\nbind = \"127.0.0.1:0\"\nmode = \"http\"\npool = \"app\"\n{more}\n\
         [pool.app]\n{pool}\n"
    );
    for (index, server) in servers.iter().enumerate() {
        text += &server.config("app", &format!("s{index}"));
    }
    text
}
