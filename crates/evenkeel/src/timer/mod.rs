//! Timers, which `time` builds on: `wheel` is the data structure, `timers` are those of one worker,
//! and decide how long it may sleep.

pub(crate) mod timers;
pub(crate) mod wheel;
