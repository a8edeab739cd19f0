//! The disk in memory of the camera server's tests.
#![allow(dead_code, reason = "the tests have more done to it")]

pub(crate) use cameras::record::disk::{Disk, DiskFile};

#[path = "../../src/record/disk/memory.rs"]
pub(crate) mod memory;
