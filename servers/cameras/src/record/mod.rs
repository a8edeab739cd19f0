//! Recording: groups of pictures as fragments of MP4 files, without a database. Directories and
//! indexes are the truth.
//!
//! ```text
//!  hub ──▶ backlog, with budgets ──▶ writer of the camera, in BULK ──▶ segment ┐
//!                                                                              ├▶ volume
//!                       rounds of syncing and trimming, one of each a volume ──┘
//! ```
//!
//! - [`names`]: what names of files say; [`index`](mod@index): what is beside each file.
//! - [`timeline`]: which segment a group belongs to; [`gap`]: what is missing.
//! - [`backlog`] and [`queues`]: what waits for disks, and what goes if it is too much.
//! - [`retention`]: what is deleted next; [`protect`]: what is kept.
//! - [`disk`]: the seam to the disk; [`volume`]: a disk with its rounds; [`sole`]: whose it is.
//! - `takes`: from the hub into the backlog; [`segment`] and `writer`: how files are written;
//!   [`recover`]: what a crash leaves.
//! - [`listing`] and [`clip`]: what was recorded, and a part of it as one file.
//! - [`tier`]: copies of segments in a store.
//! - [`recordings`]: all of it together; [`report`] and [`metrics`]: how it is doing.

pub mod backlog;
pub mod clip;
pub mod disk;
pub mod gap;
pub mod index;
pub mod listing;
pub mod metrics;
pub mod names;
pub mod protect;
pub mod queues;
pub mod recordings;
pub mod recover;
pub mod report;
pub mod retention;
pub mod segment;
pub mod sole;
mod takes;
pub mod tier;
pub mod timeline;
pub mod volume;
mod writer;

pub use recordings::{Recordings, Settings};
