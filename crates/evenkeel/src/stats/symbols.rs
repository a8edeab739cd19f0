//! The functions that addresses of code belong to.

#[cfg(any(feature = "hog-stacks", test))]
mod bare;
#[cfg(all(feature = "hog-stacks", target_os = "linux"))]
mod debug_info;
#[cfg(all(feature = "hog-stacks", target_os = "linux"))]
mod entry;
#[cfg(all(feature = "hog-stacks", target_os = "linux"))]
mod file;
#[cfg(all(feature = "hog-stacks", target_os = "linux"))]
mod lines;
#[cfg(all(feature = "hog-stacks", target_os = "linux"))]
mod objects;
#[cfg(all(feature = "hog-stacks", target_os = "linux"))]
mod ranges;

use std::collections::HashMap;

use crate::sync::Arc;

use super::dump::DumpFrame;

/// Finds functions by addresses, and remembers them: stacks have most of them in common.
#[derive(Debug, Default)]
pub(super) struct Symbols {
    /// One address belongs to several functions if they were inlined; the innermost comes first.
    known: HashMap<usize, Arc<[DumpFrame]>>,
    #[cfg(all(feature = "hog-stacks", target_os = "linux"))]
    objects: objects::Objects,
}

/// How many addresses are remembered at most. Most stacks of a program share a few hundred.
const KNOWN_MAX: usize = 4096;

/// What begins with these is inside the standard library or the runtime. The runtime's futures that
/// users name, such as those of sockets and timers, are not among them.
#[cfg(any(feature = "hog-stacks", test))]
const INTERNAL: [&str; 12] = [
    "alloc::",
    "backtrace::",
    "core::",
    "core_arch::",
    "std::",
    "evenkeel::blocking::work::",
    "evenkeel::io::readiness::",
    "evenkeel::net::source::",
    "evenkeel::sched::",
    "evenkeel::sync::",
    "evenkeel::timer::",
    "tokio::evenkeel::",
];
/// An exception, as it is a future that users name.
#[cfg(any(feature = "hog-stacks", test))]
const JOIN_HANDLE: &str = "evenkeel::sched::task::join::JoinHandle";
/// The function that takes a stack when a waker is cloned.
const CLONE: &str = "sched::task::cell::clone_traced";
/// The function that polls a task's future: by its type, or by its file if that is all there is.
const POLL: &str = "sched::task::cell::Cell<";
const POLL_IN: &str = "evenkeel::sched::task::cell::";

impl Symbols {
    /// From the function that cloned the waker, if one did, to the task's own.
    pub(super) fn frames(&mut self, stack: &[usize]) -> Vec<DumpFrame> {
        #[cfg(all(feature = "hog-stacks", target_os = "linux"))]
        if self.objects.refresh() {
            self.known.clear();
        }
        let frames = stack.iter().flat_map(|&address| self.at(address).to_vec());
        let mut frames: Vec<DumpFrame> = frames.collect();
        let is_clone = |frame: &DumpFrame| frame.function.contains(CLONE);
        if let Some(clone) = frames.iter().position(is_clone) {
            frames.drain(..=clone);
        }
        let is_poll = |frame: &DumpFrame| {
            let name = &frame.function;
            name.contains(POLL) || (name.starts_with(POLL_IN) && name.ends_with("::poll_future"))
        };
        if let Some(poll) = frames.iter().position(is_poll) {
            frames.truncate(poll);
        }
        frames
    }

    fn at(&mut self, address: usize) -> Arc<[DumpFrame]> {
        if self.known.len() >= KNOWN_MAX {
            self.known.clear();
        }
        if let Some(known) = self.known.get(&address) {
            return Arc::clone(known);
        }
        let frames: Arc<[DumpFrame]> = self.resolve(address).into();
        self.known.insert(address, Arc::clone(&frames));
        frames
    }

    #[cfg(all(feature = "hog-stacks", target_os = "linux"))]
    fn resolve(&mut self, address: usize) -> Vec<DumpFrame> {
        if !crate::sys::stack::SUPPORTED {
            return frames_of(address, found_by_backtrace(address));
        }
        let found = self.objects.find(address as u64);
        self.objects.forget_pages();
        frames_of(address, found)
    }

    #[cfg(all(feature = "hog-stacks", not(target_os = "linux")))]
    fn resolve(&mut self, address: usize) -> Vec<DumpFrame> {
        frames_of(address, found_by_backtrace(address))
    }

    #[cfg(not(feature = "hog-stacks"))]
    fn resolve(&mut self, _address: usize) -> Vec<DumpFrame> {
        Vec::new()
    }
}

/// By the crate `backtrace`, where the loaded objects cannot be listed. It keeps its tables for
/// good, and all threads share a lock.
#[cfg(feature = "hog-stacks")]
fn found_by_backtrace(address: usize) -> Vec<(String, Option<super::site::Site>)> {
    use super::site::Site;

    let mut found = Vec::new();
    backtrace::resolve(std::ptr::without_provenance_mut(address), |symbol| {
        // Without the hash.
        let name = symbol.name().map(|name| format!("{name:#}"));
        let site = symbol.filename().map(|file| Site {
            file: file.display().to_string().into(),
            line: symbol.lineno().unwrap_or(0),
            column: symbol.colno().unwrap_or(0),
        });
        found.push((name.unwrap_or_else(|| format!("{address:#x}")), site));
    });
    found
}

#[cfg(feature = "hog-stacks")]
fn frames_of(
    address: usize,
    mut found: Vec<(String, Option<super::site::Site>)>,
) -> Vec<DumpFrame> {
    if found.is_empty() {
        found.push((format!("{address:#x}"), None));
    }
    let frames = found.iter().enumerate().map(|(index, (name, site))| {
        let caller = found.get(index + 1).map(|(name, _)| name.as_str());
        frame(name, site.clone(), caller)
    });
    frames.collect()
}

#[cfg(any(feature = "hog-stacks", test))]
fn frame(name: &str, site: Option<super::site::Site>, caller: Option<&str>) -> DumpFrame {
    let whole = site
        .as_ref()
        .and_then(|site| bare::whole(name, &site.file, caller));
    let name = whole.as_deref().unwrap_or(name);
    DumpFrame {
        function: without_closures(name).to_owned(),
        is_internal: is_internal(name),
        site,
    }
}

/// An async function is a closure inside the function that is called; its reader knows it by the
/// latter's name.
pub(super) fn without_closures(name: &str) -> &str {
    let mut name = name;
    while let Some((outer, last)) = name.rsplit_once("::") {
        let of_closures = ["{{closure}}", "{closure#", "{async_fn#", "{async_block#"];
        if !of_closures.iter().any(|begin| last.starts_with(begin)) {
            break;
        }
        name = outer;
    }
    name
}

/// Of a trait's function, the type that has it decides; the trait, if that is the language's own.
#[cfg(any(feature = "hog-stacks", test))]
fn is_internal(name: &str) -> bool {
    let path = name.trim_start_matches(['<', '&', '*']);
    let path = path.trim_start_matches("mut ");
    let path = match path.split_once(" as ") {
        Some((of_type, of_trait)) if !of_type.contains("::") => of_trait,
        _ => path,
    };
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
            ("app::serve::{async_fn#0}::{async_block#2}", "app::serve"),
            ("app::serve::inner", "app::serve::inner"),
            ("main", "main"),
        ] {
            assert_eq!(frame(symbol, None, None).function, name);
        }
    }

    #[test]
    fn a_bare_name_is_completed_before_it_is_judged() {
        let at = |file: &'static str| {
            Some(crate::stats::site::Site {
                file: file.into(),
                line: 1,
                column: 1,
            })
        };
        let own = frame("compute", at("/home/me/app/src/main.rs"), None);
        assert_eq!((&*own.function, own.is_internal), ("app::compute", false));
        let inside = frame("fold<u8>", at("/rustc/1/library/core/src/iter.rs"), None);
        assert!(inside.is_internal, "{inside:?}");
    }

    #[test]
    fn what_is_inside_the_runtime_is_told_from_what_users_name() {
        for name in [
            "<core::pin::Pin<P> as core::future::future::Future>::poll",
            "<&mut core::task::wake::Waker as core::clone::Clone>::clone",
            "std::panicking::try",
            "evenkeel::sched::coop::poll_proceed",
            "__rust_try",
            "<i64 as core::cmp::PartialOrd>::partial_cmp",
        ] {
            assert!(frame(name, None, None).is_internal, "{name}");
        }
        for name in [
            "app::serve",
            "<evenkeel::time::sleep::Sleep as core::future::future::Future>::poll",
            "<tokio::sync::batch_semaphore::Acquire as core::future::future::Future>::poll",
            "evenkeel::net::udp::UdpSocket::recv_from",
            "<evenkeel::sched::task::join::JoinHandle<T> as core::future::future::Future>::poll",
        ] {
            assert!(!frame(name, None, None).is_internal, "{name}");
        }
    }
}
