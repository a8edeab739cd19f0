//! What is done with requests beside sending them on, as the configuration of a listener or a route
//! asks for it. What is not asked for costs nothing.
//!
//! - `limit`: rates of requests, for each client or all together.
//! - `edit`: headers, hosts and paths that are changed; `template` has their variables, and
//!   `header_name` the names that may be changed.
//! - `reply`: redirects and fixed answers.
//! - `id`: ids of requests.
//! - `rules`: all of that, and [compression](crate::compress), for a route; [`Rules::admit`] is the
//!   one call of those who read requests, in whatever version of HTTP.

mod edit;
mod header_name;
mod id;
mod limit;
mod reply;
mod rules;
mod template;

pub use edit::{Edits, Lines};
pub use header_name::EditName;
pub use id::RequestIds;
pub use limit::{Key, Limiter};
pub use reply::{Reply, status_has_body};
pub(crate) use rules::kept;
pub use rules::{Asked, OfListener, Passage, Rules, Verdict};
pub use template::{Template, Values};
