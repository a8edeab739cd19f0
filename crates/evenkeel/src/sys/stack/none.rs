//! Where no stacks can be taken.

use std::convert::Infallible;
use std::io;

use crate::sync::Arc;
use crate::sys::thread::ThreadId;

use super::{Ends, LoadedObject, Module, Stack};

pub(crate) const SUPPORTED: bool = false;

/// There are none of these here.
#[derive(Debug)]
pub(crate) struct Asked(Infallible);

impl Asked {
    pub(crate) fn collect(&self) -> Option<Option<Stack>> {
        match self.0 {}
    }

    pub(crate) fn give_up(&self) -> bool {
        match self.0 {}
    }
}

pub(crate) fn ask(_: ThreadId, watched: Arc<dyn Ends>, _: u64) -> io::Result<Asked> {
    let _ = watched.number();
    Err(io::ErrorKind::Unsupported.into())
}

pub(crate) fn read_blocked(_: ThreadId) -> Option<Stack> {
    None
}

pub(crate) fn copy_memory(_: u64, _: &mut [u8]) -> usize {
    0
}

pub(crate) fn modules() -> Vec<Module> {
    Vec::new()
}

pub(crate) fn objects() -> Vec<LoadedObject> {
    Vec::new()
}

pub(crate) fn changes() -> u64 {
    0
}
