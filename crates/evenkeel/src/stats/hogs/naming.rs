//! Which of the functions on a stack a hog is named by.
//!
//! The innermost one of the program's own: what its owner can change. With debug information the
//! file of a function says whose it is: cargo keeps packages of others in folders of its own.
//! Without, the name of a function's crate has to do: that of the program's file, or of a future
//! that the program spawned itself. If none is the program's own, all of them may be inlined into
//! the future, which then names the hog if it is; and if not, the innermost function of a library,
//! or else the future whosever it is.

use std::collections::HashSet;
use std::sync::LazyLock;

use crate::sched::task::kind::Kind;

use crate::stats::dump::DumpFrame;
use crate::stats::symbols::without_closures;

/// What a hog was doing.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Name {
    pub(super) function: String,
    /// What the function had called, if it is the program's own and called something else.
    pub(super) callee: Option<String>,
}

/// A name is cut here: those of generic functions have no end.
const NAME_MAX: usize = 200;

/// Parts of paths below which the source of others is.
const OTHERS: [&str; 4] = ["/rustc/", "/.cargo/", "/registry/src/", "/git/checkouts/"];

/// The crate of the program, by the name of its file. A test's has a hash at its end.
static PROGRAM: LazyLock<Option<String>> = LazyLock::new(|| {
    let path = std::env::current_exe().ok()?;
    let name = path.file_stem()?.to_str()?.replace('-', "_");
    let is_hash = |end: &str| end.len() == 16 && end.bytes().all(|byte| byte.is_ascii_hexdigit());
    Some(match name.rsplit_once('_') {
        Some((name, end)) if is_hash(end) => name.to_owned(),
        _ => name,
    })
});

/// The crates that are known to be the program's own.
#[derive(Debug, Default)]
pub(super) struct OwnCrates(HashSet<String>);

impl OwnCrates {
    /// Learns from who spawned a task.
    pub(super) fn learn(&mut self, kind: &Kind) {
        if is_others(kind.spawned_at.file()) || self.0.len() > 64 {
            return;
        }
        if let Some(own) = crate_of(kind.future.name()).filter(|own| !is_std(own))
            && !self.0.contains(own)
        {
            self.0.insert(own.to_owned());
        }
    }

    fn has(&self, name: &str) -> bool {
        let is_own = |own: &str| self.0.contains(own) || PROGRAM.as_deref() == Some(own);
        crate_of(name).is_some_and(|own| own != "evenkeel" && is_own(own))
    }

    fn owns(&self, frame: &DumpFrame) -> bool {
        match &frame.site {
            _ if frame.is_internal => false,
            Some(site) if is_others(&site.file) => false,
            Some(_) => crate_of(&frame.function).is_none_or(|own| own != "evenkeel"),
            None => self.has(&frame.function),
        }
    }

    /// The name of a stack of a poll of this type of future. The stack's innermost frame comes
    /// first. `None` if it has no frame.
    pub(super) fn name(&self, frames: &[DumpFrame], future: &str, blocked: bool) -> Option<Name> {
        let own = frames.iter().position(|frame| self.owns(frame));
        let (own, function) = match own {
            Some(own) => (own, frames[own].function.as_str()),
            None if self.has(future) => (frames.len(), without_closures(future)),
            None => {
                frames.first()?;
                let library = frames.iter().find(|frame| !frame.is_internal);
                let function = library.map_or(without_closures(future), |it| &it.function);
                return Some(Name {
                    function: cut(function),
                    callee: None,
                });
            }
        };
        // What blocks is often a function of the standard library, which says what it waits for.
        let says = |frame: &&DumpFrame| {
            (blocked && frame.function.contains("::") || !frame.is_internal)
                && frame.function != function
        };
        let callee = frames[..own].iter().rev().find(says);
        Some(Name {
            function: cut(function),
            callee: callee.map(|frame| cut(&frame.function)),
        })
    }
}

fn is_others(file: &str) -> bool {
    OTHERS.iter().any(|part| file.contains(part))
}

fn is_std(name: &str) -> bool {
    matches!(name, "alloc" | "core" | "std")
}

/// The crate at the beginning of a path such as `<app::Type as core::fmt::Debug>::fmt`.
fn crate_of(name: &str) -> Option<&str> {
    let name = name.trim_start_matches(['<', '&', '*']);
    let name = name.trim_start_matches("mut ").trim_start_matches("dyn ");
    let (first, _) = name.split_once("::")?;
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    first.bytes().all(is_word).then_some(first)
}

pub(super) fn cut(name: &str) -> String {
    match name.char_indices().nth(NAME_MAX) {
        Some((end, _)) => format!("{}...", &name[..end]),
        None => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::site::Site;

    fn frame(function: &str, file: Option<&'static str>, is_internal: bool) -> DumpFrame {
        DumpFrame {
            function: function.to_owned(),
            site: file.map(|file| Site {
                file: file.into(),
                line: 1,
                column: 1,
            }),
            is_internal,
        }
    }

    /// What axum or hyper spawns.
    const FUTURE: &str = "library::serve::{{closure}}";

    fn own(names: &[&str]) -> OwnCrates {
        OwnCrates(names.iter().map(|&name| name.to_owned()).collect())
    }

    fn named(name: &Option<Name>) -> (&str, Option<&str>) {
        let name = name.as_ref().unwrap();
        (&name.function, name.callee.as_deref())
    }

    #[test]
    fn the_innermost_function_of_the_program_names_a_hog_and_says_what_it_called() {
        let library = Some("/home/me/.cargo/registry/src/index/sha2/src/lib.rs");
        let frames = [
            frame("core::slice::copy", Some("/rustc/1/core/slice.rs"), true),
            frame("sha2::compress", library, false),
            frame("sha2::update", library, false),
            frame("app::digest", Some("src/main.rs"), false),
            frame("app::handler", Some("src/main.rs"), false),
        ];
        let name = OwnCrates::default().name(&frames, FUTURE, false);
        assert_eq!(named(&name), ("app::digest", Some("sha2::update")));
        // Without debug information.
        let bare = frames.map(|it| DumpFrame { site: None, ..it });
        let name = own(&["app"]).name(&bare, FUTURE, false);
        assert_eq!(named(&name), ("app::digest", Some("sha2::update")));
        let name = own(&["other"]).name(&bare, FUTURE, false);
        assert_eq!(named(&name), ("sha2::compress", None));
    }

    #[test]
    fn a_future_into_which_all_is_inlined_names_the_hog() {
        let frames = [frame("sha2::compress", None, false)];
        let future = "app::digest::{{closure}}";
        let name = own(&["app"]).name(&frames, future, false);
        assert_eq!(named(&name), ("app::digest", Some("sha2::compress")));
        let name = own(&["other"]).name(&frames, future, false);
        assert_eq!(named(&name), ("sha2::compress", None));
    }

    #[test]
    fn what_blocks_in_the_standard_library_is_said() {
        let frames = [
            frame("clock_nanosleep", None, true),
            frame("std::thread::sleep", Some("/rustc/1/std/thread.rs"), true),
            frame("app::handler", Some("src/main.rs"), false),
        ];
        let own = OwnCrates::default();
        let name = own.name(&frames, FUTURE, true);
        assert_eq!(named(&name), ("app::handler", Some("std::thread::sleep")));
        assert_eq!(
            named(&own.name(&frames, FUTURE, false)),
            ("app::handler", None)
        );
        assert_eq!(own.name(&[], FUTURE, true), None);
    }

    #[test]
    fn crates_are_found_in_paths() {
        for (name, expected) in [
            ("app::f", Some("app")),
            ("<app::T as core::fmt::Debug>::fmt", Some("app")),
            ("<&mut app::T as core::fmt::Debug>::fmt", Some("app")),
            ("memcpy", None),
        ] {
            assert_eq!(crate_of(name), expected, "{name}");
        }
    }

    #[test]
    fn a_name_has_an_end() {
        assert_eq!(cut(&"ü".repeat(500)).chars().count(), NAME_MAX + 3);
        assert_eq!(cut("short"), "short");
    }
}
