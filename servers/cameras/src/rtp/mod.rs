//! Media in packets (RFC 3550), without I/O.
//!
//! ```text
//!  datagram ──▶ Packet ──▶ Order ──────────▶ Depacketizer ──▶ Unit ──▶ Timeline ──▶ Sample
//!  or frame     header     sequence, loss     by codec         picture   64 bits, dts
//! ```
//!
//! - [`packet`]: the header.
//! - [`order`]: sequence numbers: what comes late, twice or never.
//! - [`depacketizer`]: from payloads to pictures and sound, by codec, in slices of what came.
//! - [`timeline`]: times that do not wrap, and the order of decoding.
//! - [`receiver`]: all of these for one track.
//! - [`packetizer`]: the way back, for viewers.
//! - [`rtcp`]: the reports of both sides.

mod aac;
pub mod depacketizer;
mod jpeg;
pub mod order;
pub mod packet;
pub mod packetizer;
pub mod receiver;
pub mod rtcp;
mod simple;
pub mod timeline;
mod video;

pub use depacketizer::{Depacketizer, Malformed, Unit};
pub use order::Order;
pub use packet::{Packet, PacketError};
pub use packetizer::Packetizer;
pub use receiver::Receiver;
pub use timeline::Timeline;
