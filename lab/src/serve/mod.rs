//! `evenkeel-lab serve`: the server side of every experiment, the same code on each runtime.
//!
//! - [`args`]: the flags
//! - [`platform`]: what the services ask of a runtime, and the runtimes that give it
//! - [`services`]: start what was asked for, say `ready`; [`os_thread`]: the same without a runtime
//! - [`lifetime`], [`meter`]: what plain threads do beside the runtime
//! - [`work`]: computing for so many microseconds; [`stats`]: what a runtime says of itself
//! - the others: the services, and what goes on beside them

mod api;
mod args;
mod camera;
mod disk;
mod echo;
mod fresh;
pub(crate) mod hogs;
mod http;
mod lifetime;
mod log;
mod meter;
mod os_thread;
mod platform;
mod relay;
mod services;
mod sink;
mod stats;
mod work;

pub(crate) use args::{
    Burn, BusyWait, CLASSES_MAX, ClassName, Deliveries, Delivery, HogPoll, HogYield, RuntimeArgs,
    RuntimeName, SHARE_MAX, ServeArgs, Shares, joined, within,
};
pub(crate) use camera::{CameraStats, RING_LEN, bucket_end_us};
pub(crate) use disk::DiskStats;
pub(crate) use fresh::{Fresh, Waits};
pub(crate) use meter::Work;
pub(crate) use platform::{Evenkeel, Platform, Tokio};
pub(crate) use services::run;
pub(crate) use stats::RuntimeStats;
pub(crate) use work::{Done, calibrate};
