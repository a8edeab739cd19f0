//! The stack of another thread, taken while that thread goes on.
//!
//! A thread that computes is asked by a signal: its handler copies the registers and the stack into
//! a slot (`slots`), and returns. A thread that is blocked in a system call is not signalled, as
//! many calls would then fail with `EINTR`, which not all code expects. The kernel tells where such
//! a thread stands, and its stack is copied from outside.
//!
//! A copy is only bytes; `stats::hogs` makes functions of them.
#![cfg_attr(
    not(feature = "hog-stacks"),
    allow(dead_code, reason = "no stacks are taken without the feature")
)]

use std::ops::Range;

use crate::sync::atomic::AtomicU64;

/// What finding a thread's functions begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Registers {
    pub(crate) instruction: u64,
    pub(crate) stack: u64,
    /// The frame pointer; `None` where the kernel does not tell it.
    pub(crate) frame: Option<u64>,
    /// The link register, on processors that have one.
    pub(crate) link: u64,
}

/// A thread's registers, and its stack from the newest byte on.
#[derive(Clone, Debug)]
pub(crate) struct Stack {
    pub(crate) registers: Registers,
    pub(crate) bytes: Vec<u8>,
}

/// The program or a library, as it is loaded.
#[derive(Clone, Debug)]
pub(crate) struct Module {
    /// The path of its file; empty for the program itself.
    pub(crate) name: String,
    pub(crate) memory: Range<u64>,
    /// Where its address 0 is.
    pub(crate) base: u64,
    /// The table of its functions' frames (`.eh_frame`), and that one's index.
    pub(crate) frames: Vec<u8>,
    pub(crate) frames_at: Range<u64>,
    pub(crate) index: Vec<u8>,
    pub(crate) index_at: Range<u64>,
}

/// The program or a library, as it is loaded: where its code is.
#[derive(Clone, Debug)]
pub(crate) struct LoadedObject {
    /// The path of its file; empty for the program itself.
    pub(crate) name: String,
    /// Where its address 0 is.
    pub(crate) base: u64,
    /// What is loaded of it.
    pub(crate) parts: Vec<Range<u64>>,
}

impl LoadedObject {
    pub(crate) fn has(&self, address: u64) -> bool {
        self.parts.iter().any(|part| part.contains(&address))
    }
}

/// Something that can be over before a signal arrives.
pub(crate) trait Ends: Send + Sync {
    /// A number that changes when it is over. The thread that is asked stores it, and no other.
    fn number(&self) -> &AtomicU64;
}

// A handler must not pause, which rules out a build that looks for races, and ThreadSanitizer puts
// signals off.
#[cfg(all(
    feature = "hog-stacks",
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64"),
    not(any(evenkeel_preempt, evenkeel_tsan))
))]
mod linux;

#[cfg(not(all(
    feature = "hog-stacks",
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64"),
    not(any(evenkeel_preempt, evenkeel_tsan))
)))]
mod none;

#[cfg(all(
    feature = "hog-stacks",
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64"),
    not(any(evenkeel_preempt, evenkeel_tsan))
))]
use linux as imp;
#[cfg(not(all(
    feature = "hog-stacks",
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64"),
    not(any(evenkeel_preempt, evenkeel_tsan))
)))]
use none as imp;

pub(crate) use imp::{Asked, SUPPORTED, ask, read_blocked};
#[cfg(feature = "hog-stacks")]
pub(crate) use imp::{changes, copy_memory, modules, objects};
