//! HTTP: heads that have one meaning, bodies, and their forwarding.
//!
//! Two programs that read the same bytes differently can be made to disagree on where a request
//! ends: what one takes for a body is a request to the other one. So whatever is ambiguous is
//! refused here with 400, and the connection is closed; and what is passed on is written anew, in
//! the one form that everybody reads alike.
//!
//! - `head`: what requests and answers say, or why they cannot be taken.
//! - `framing`: where a body ends.
//! - `chunks`: bodies in chunks, read strictly and written anew.
//! - `rewrite`: the heads that are passed on.
//! - `patience`: how long somebody may take.
//! - `body`: forwards a body; `squeeze` compresses it on its way.
//! - `exchange`: one request and its answer, whose head `answer` reads.
//! - `connection`: one request after the other; `waits` has what it waits for between two.
//! - `fetch`: what the proxy itself asks.
//! - `refusal`: answers of the proxy itself.
//! - `two`: HTTP/2, with clients, servers or both.

mod answer;
mod body;
mod chunks;
mod connection;
mod exchange;
mod fetch;
mod framing;
mod head;
mod patience;
mod refusal;
mod rewrite;
mod squeeze;
mod two;
mod waits;

pub use chunks::{BadChunk, Decoder, Recode};
pub use connection::serve;
pub(crate) use connection::{linger, of_client};
pub use fetch::{FetchError, fetch};
pub use framing::Framing;
pub use head::{BadHead, HEADERS_MAX, HeadEnd, Request, Response, Storage, storage};
pub use refusal::Refusal;
pub(crate) use refusal::reason;
pub use rewrite::{OfRequest, OfResponse};
pub use two::{All, GrpcFailed, Lines};
pub(crate) use two::{Place, answered, place, serving};
