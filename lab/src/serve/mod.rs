//! `evenkeel-lab serve`: the server side of every experiment, the same code on each runtime.
//!
//! - [`args`]: the flags
//! - [`platform`]: what the services ask of a runtime, and the runtimes that give it
//! - [`services`]: start what was asked for, say `ready`
//! - [`echo`], [`sink`], [`camera`], [`http`], [`api`], [`proxy`], [`relay`], [`log`],
//!   [`hogs`], [`disk`]: the services, and what goes on beside them
//! - [`mixed`]: handlers that answer at once and handlers that compute, over one service
//! - [`fresh`]: short tasks at a steady rate and how long each waited, and tasks that block
//! - [`work`]: computing for so many microseconds, and counting it
//! - [`meter`]: telling how much was computed, beside the runtime
//! - [`stats`]: what a runtime says of itself, in one form for all
//! - [`lifetime`]: signals, the parent's end, statistics at intervals, all beside the runtime
//! - [`os_thread`]: the kernel's own limit, one thread that echoes beside spinning ones

mod api;
mod args;
mod camera;
mod disk;
mod disk_threads;
mod echo;
mod fresh;
pub(crate) mod hogs;
mod http;
mod lifetime;
mod log;
mod meter;
mod mixed;
mod os_thread;
mod platform;
mod proxy;
mod relay;
mod services;
mod sink;
mod stats;
mod work;

pub(crate) use args::{
    Burn, BusyWait, CLASSES_MAX, ClassName, Deliveries, Delivery, HogPoll, HogYield, RuntimeArgs,
    RuntimeName, SHARE_MAX, ServeArgs, Shares, within,
};
pub(crate) use camera::{CameraStats, RING_LEN, bucket_end_us};
pub(crate) use disk::DiskStats;
pub(crate) use fresh::{Fresh, Waits};
pub(crate) use meter::Work;
pub(crate) use platform::{Evenkeel, Platform, Tokio};
pub(crate) use services::run;
pub(crate) use stats::RuntimeStats;
pub(crate) use work::{Done, calibrate};
