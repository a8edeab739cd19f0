//! Stacks on Linux: by a signal, or through `/proc`.

mod blocked;
mod copy;
mod modules;
mod signal;
mod slots;
#[cfg(all(test, not(evenkeel_loom)))]
mod soak;

pub(crate) use blocked::read_blocked;
pub(crate) use copy::copy_memory;
pub(crate) use modules::{changes, modules, objects};
pub(crate) use signal::{Asked, ask};

pub(crate) const SUPPORTED: bool = true;

/// How much of a stack is copied, from its newest end. An optimised program's task seldom has a
/// quarter of that.
const STACK_MAX: usize = 64 << 10;
