//! Answers that are compressed for clients who take that.
//!
//! - `accept`: which coding a client takes.
//! - `answer`: which answers are compressed, and what their heads say then.
//! - `encoder`: the codings, in slices so short that nothing waits long for one.

mod accept;
mod answer;
mod encoder;

pub use accept::{Coding, accepted};
pub use answer::{Compress, Form, Offer, Squeeze, weak};
pub use encoder::Encoder;
pub(crate) use encoder::SLICE_BYTES;
