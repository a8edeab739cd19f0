//! Packets to viewers as datagrams. All viewers share two sockets, one for packets and one for
//! reports, so that their number costs no descriptors.
//!
//! Datagrams go to the address from which the viewer asks for them and nowhere else, so that nobody
//! can have them sent to others. What viewers report is not read.

use std::io;
use std::net::{IpAddr, SocketAddr};

use servers_common::counters::Counter;

use crate::ingest::datagrams::Pair;

/// What stands before a packet that goes in the connection: `$`, a channel and a length.
const FRAME: usize = 4;

/// The sockets.
#[derive(Debug)]
pub(super) struct Datagrams {
    pair: Pair,
    /// Datagrams that the system did not take.
    pub(super) unsent: Counter,
}

/// Where a viewer takes one track.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target {
    /// The channels that stand for it in what was written: of packets, and of reports.
    pub(super) channels: (u8, u8),
    /// Its ports for the same.
    pub(super) ports: (u16, u16),
}

impl Datagrams {
    /// Opens them.
    ///
    /// # Errors
    ///
    /// No pair of ports is free.
    pub(super) async fn open(local: IpAddr) -> io::Result<Self> {
        Ok(Self {
            pair: Pair::open(local).await?,
            unsent: Counter::default(),
        })
    }

    /// Their ports.
    pub(super) fn ports(&self) -> (u16, u16) {
        (self.pair.port, self.pair.port + 1)
    }

    /// Sends what was written for connections, packet by packet. What is of no target is left for
    /// the connection, and returned.
    pub(super) async fn send(&self, viewer: IpAddr, targets: &[Target], written: &[u8]) -> Vec<u8> {
        let (mut rest, mut left) = (written, Vec::new());
        while let Some((head, after)) = rest.split_at_checked(FRAME) {
            let len = usize::from(u16::from_be_bytes([head[2], head[3]]));
            let Some((packet, after)) = after.split_at_checked(len) else {
                break;
            };
            let found = targets.iter().find_map(|target| match head[1] {
                channel if channel == target.channels.0 => {
                    Some((&self.pair.packets, target.ports.0))
                }
                channel if channel == target.channels.1 => {
                    Some((&self.pair.reports, target.ports.1))
                }
                _ => None,
            });
            match found {
                None => left.extend_from_slice(&rest[..FRAME + len]),
                Some((socket, port)) => {
                    let sent = socket.send_to(packet, SocketAddr::new(viewer, port)).await;
                    if sent.is_err() {
                        self.unsent.one();
                    }
                }
            }
            rest = after;
        }
        left
    }
}
