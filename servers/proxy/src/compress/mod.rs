//! Answers that are compressed for clients who take that.
//!
//! - `accept`: which coding a client takes.
//! - `answer`: which answers are compressed, and what their heads say then.
//! - `apart`: a piece of a body, compressed where no worker waits for it.
//! - `encoder`: the codings, in slices so short that nothing waits long for one.

mod accept;
mod answer;
mod apart;
mod encoder;

pub use accept::{Coding, accepted};
pub use answer::{Compress, Form, Offer, Squeeze, weak};
pub(crate) use apart::push;
pub use encoder::Encoder;
pub(crate) use encoder::SLICE_BYTES;
