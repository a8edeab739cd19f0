//! The functions that addresses of code belong to.

use std::collections::HashMap;

use crate::sync::Arc;

use super::dump::DumpFrame;

/// Finds functions by addresses, and remembers them: stacks have most of them in common.
#[derive(Debug, Default)]
pub(super) struct Symbols {
    /// One address belongs to several functions if they were inlined; the innermost comes first.
    known: HashMap<usize, Arc<[DumpFrame]>>,
}

/// How many addresses are remembered at most. Most stacks of a program share a few hundred.
const KNOWN_MAX: usize = 4096;

/// What begins with these is inside the standard library or the runtime. The runtime's futures that
/// users name, such as those of sockets and timers, are not among them.
#[cfg(any(feature = "hog-stacks", test))]
const INTERNAL: [&str; 10] = [
    "alloc::",
    "backtrace::",
    "core::",
    "std::",
    "evenkeel::blocking::work::",
    "evenkeel::io::readiness::",
    "evenkeel::net::source::",
    "evenkeel::sched::",
    "evenkeel::sync::",
    "evenkeel::timer::",
];
/// An exception, as it is a future that users name.
#[cfg(any(feature = "hog-stacks", test))]
const JOIN_HANDLE: &str = "evenkeel::sched::task::join::JoinHandle";
/// The function that takes a stack when a waker is cloned.
const CLONE: &str = "sched::task::cell::clone_traced";
/// The function that polls a task's future.
const POLL: &str = "sched::task::cell::Cell<";

impl Symbols {
    /// From the function that cloned the waker, if one did, to the task's own.
    pub(super) fn frames(&mut self, stack: &[usize]) -> Vec<DumpFrame> {
        let frames = stack.iter().flat_map(|&address| self.at(address).to_vec());
        let mut frames: Vec<DumpFrame> = frames.collect();
        let is = |part| move |frame: &DumpFrame| frame.function.contains(part);
        if let Some(clone) = frames.iter().position(is(CLONE)) {
            frames.drain(..=clone);
        }
        if let Some(poll) = frames.iter().position(is(POLL)) {
            frames.truncate(poll);
        }
        frames
    }

    fn at(&mut self, address: usize) -> Arc<[DumpFrame]> {
        if self.known.len() >= KNOWN_MAX {
            self.known.clear();
        }
        let known = self.known.entry(address);
        Arc::clone(known.or_insert_with(|| resolve(address).into()))
    }
}

#[cfg(feature = "hog-stacks")]
fn resolve(address: usize) -> Vec<DumpFrame> {
    use super::site::Site;

    let mut frames = Vec::new();
    backtrace::resolve(std::ptr::without_provenance_mut(address), |symbol| {
        // Without the hash.
        let name = symbol.name().map(|name| format!("{name:#}"));
        let site = symbol.filename().map(|file| Site {
            file: file.display().to_string().into(),
            line: symbol.lineno().unwrap_or(0),
            column: symbol.colno().unwrap_or(0),
        });
        frames.push(frame(
            &name.unwrap_or_else(|| format!("{address:#x}")),
            site,
        ));
    });
    if frames.is_empty() {
        frames.push(frame(&format!("{address:#x}"), None));
    }
    frames
}

#[cfg(not(feature = "hog-stacks"))]
fn resolve(_address: usize) -> Vec<DumpFrame> {
    Vec::new()
}

#[cfg(any(feature = "hog-stacks", test))]
fn frame(name: &str, site: Option<super::site::Site>) -> DumpFrame {
    DumpFrame {
        function: without_closures(name).to_owned(),
        site,
        is_internal: is_internal(name),
    }
}

/// An async function is a closure inside the function that is called; its reader knows it by the
/// latter's name.
#[cfg(any(feature = "hog-stacks", test))]
fn without_closures(name: &str) -> &str {
    let mut name = name;
    while let Some((outer, last)) = name.rsplit_once("::") {
        if last != "{{closure}}" && !last.starts_with("{closure#") {
            break;
        }
        name = outer;
    }
    name
}

/// Of a trait's function, the type that has it decides.
#[cfg(any(feature = "hog-stacks", test))]
fn is_internal(name: &str) -> bool {
    let path = name.trim_start_matches(['<', '&', '*']);
    let path = path.trim_start_matches("mut ");
    let is_inside = || INTERNAL.iter().any(|begin| path.starts_with(begin));
    !path.contains("::") || (is_inside() && !path.starts_with(JOIN_HANDLE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_named_as_their_authors_do() {
        for (symbol, name) in [
            ("app::serve::{{closure}}", "app::serve"),
            ("app::serve::{closure#0}::{closure#1}", "app::serve"),
            ("app::serve::inner", "app::serve::inner"),
            ("main", "main"),
        ] {
            assert_eq!(frame(symbol, None).function, name);
        }
    }

    #[test]
    fn what_is_inside_the_runtime_is_told_from_what_users_name() {
        for name in [
            "<core::pin::Pin<P> as core::future::future::Future>::poll",
            "<&mut core::task::wake::Waker as core::clone::Clone>::clone",
            "std::panicking::try",
            "evenkeel::sched::coop::poll_proceed",
            "__rust_try",
        ] {
            assert!(frame(name, None).is_internal, "{name}");
        }
        for name in [
            "app::serve",
            "<evenkeel::time::sleep::Sleep as core::future::future::Future>::poll",
            "<tokio::sync::batch_semaphore::Acquire as core::future::future::Future>::poll",
            "evenkeel::net::udp::UdpSocket::recv_from",
            "<evenkeel::sched::task::join::JoinHandle<T> as core::future::future::Future>::poll",
        ] {
            assert!(!frame(name, None).is_internal, "{name}");
        }
    }
}
