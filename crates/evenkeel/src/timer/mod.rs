//! Timers, below what users see of time: `wheel` is the data structure, `timers` are one worker's,
//! and say how long it may sleep.

pub(crate) mod timers;
pub(crate) mod wheel;
