//! Names of functions without their modules, as debug information has them that is reduced to lines
//! (`debug = "line-tables-only"`): `parse<u8>` rather than `app::input::parse`.
//!
//! The file says where such a function is. Of an async function or a closure not even a name is
//! there; then the future's type, which is among the generics of its caller, has it.

use std::path::Path;

/// How such a function's name begins, and the last part of its type's name.
const ENVIRONMENTS: [(&str, &str); 3] = [
    ("{async_fn#", "{async_fn_env#"),
    ("{async_block#", "{async_block_env#"),
    ("{closure#", "{closure_env#"),
];

/// The whole name, as far as the file of the function and the name of its caller tell. `None` if it
/// is whole already, or is no function of Rust's.
pub(super) fn whole(name: &str, file: &str, caller: Option<&str>) -> Option<String> {
    let head = name.split('<').next().unwrap_or_default();
    if head.is_empty() || head.contains("::") {
        return None;
    }
    let modules = modules_of(Path::new(file))?;
    if !head.starts_with('{') {
        return Some(format!("{modules}::{head}"));
    }
    let kind = ENVIRONMENTS
        .iter()
        .find(|(begin, _)| head.starts_with(begin));
    let environment = kind
        .zip(caller)
        .and_then(|((_, part), caller)| named_in(caller, part));
    Some(environment.map_or_else(|| format!("{modules}::{head}"), str::to_owned))
}

/// The function to whose future or closure the generics of a name refer first.
fn named_in<'a>(name: &'a str, environment: &str) -> Option<&'a str> {
    let generics = name.find('<')?;
    let end = generics + name[generics..].find(environment)?;
    let begin = name[..end]
        .rfind(['<', ' ', '&', '('])
        .map_or(0, |at| at + 1);
    let path = name[begin..end].trim_end_matches("::");
    (!path.is_empty()).then_some(path)
}

/// The crate and the modules that a file of Rust's probably is: by cargo's folders, the crate by
/// the folder of its package.
fn modules_of(file: &Path) -> Option<String> {
    if file.extension()? != "rs" {
        return None;
    }
    let parts: Vec<&str> = file.iter().filter_map(|part| part.to_str()).collect();
    let (last, folders) = parts.split_last()?;
    let stem = last.strip_suffix(".rs")?;
    let source = folders.iter().rposition(|&part| part == "src");
    let (first, rest) = match source {
        Some(at) if at > 0 => (package(folders[at - 1]), &folders[at + 1..]),
        // A file of an example or a test is a crate of its own.
        _ => return Some(stem.replace('-', "_")),
    };
    let names = rest.iter().copied().chain([stem]);
    let named = names.filter(|name| !matches!(*name, "bin" | "lib" | "main" | "mod"));
    Some(named.fold(first, |path, name| format!("{path}::{name}")))
}

/// The crate of a package's folder, which may have a version behind its name.
fn package(folder: &str) -> String {
    let is_version = |end: &str| end.starts_with(|first: char| first.is_ascii_digit());
    let name = match folder.rsplit_once('-') {
        // As in `name-1.0.0-alpha`, too.
        Some((name, end)) if !is_version(end) => match name.rsplit_once('-') {
            Some((name, end)) if is_version(end) => name,
            _ => folder,
        },
        Some((name, _)) => name,
        None => folder,
    };
    name.replace('-', "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOME: &str = "/home/me/.cargo/registry/src/index-1/";

    fn found(name: &str, file: &str, caller: Option<&str>) -> String {
        whole(name, file, caller).unwrap_or_default()
    }

    #[test]
    fn a_bare_name_gets_the_modules_of_its_file() {
        for (name, file, expected) in [
            ("compute", "/home/me/my-app/src/main.rs", "my_app::compute"),
            (
                "parse<u8>",
                "/home/me/app/src/input/mod.rs",
                "app::input::parse",
            ),
            ("run", "/home/me/app/src/bin/serve.rs", "app::serve::run"),
            ("compute", "/home/me/app/examples/demo.rs", "demo::compute"),
            (
                "hash",
                "/rustc/1/library/core/src/hash.rs",
                "core::hash::hash",
            ),
        ] {
            assert_eq!(found(name, file, None), expected);
        }
        let of_library = |file: &str| found("de", &format!("{HOME}{file}"), None);
        assert_eq!(
            of_library("serde_json-1.0.1/src/de.rs"),
            "serde_json::de::de"
        );
        assert_eq!(of_library("h2-0.4.0-beta/src/lib.rs"), "h2::de");
        assert_eq!(
            of_library("md-5/src/lib.rs"),
            "md::de",
            "by its folder alone"
        );
    }

    #[test]
    fn whole_names_and_those_of_other_languages_stay() {
        for name in ["app::compute", "<app::T as core::fmt::Debug>::fmt"] {
            assert_eq!(whole(name, "/home/me/app/src/main.rs", None), None);
        }
        assert_eq!(whole("start_thread", "./nptl/pthread_create.c", None), None);
        assert_eq!(whole("memcpy", "memcpy.S", None), None);
    }

    #[test]
    fn an_async_function_has_the_name_of_its_future() {
        let file = "/home/me/app/src/main.rs";
        let caller = "poll<app::hog::{async_fn_env#0}, evenkeel::sched::shared::Home>";
        assert_eq!(found("{async_fn#0}", file, Some(caller)), "app::hog");
        let caller = "poll<core::pin::Pin<&mut app::a::{async_block_env#1}<u8>>>";
        assert_eq!(found("{async_block#1}", file, Some(caller)), "app::a");
        // It is the runtime's own closure, whatever it is generic over.
        let caller = "with<app::hog::{async_fn_env#0}>";
        let file = "/home/me/evenkeel/src/sync/cell.rs";
        let own = found("{closure#0}", file, Some(caller));
        assert_eq!(own, "evenkeel::sync::cell::{closure#0}");
        let file = "/home/me/app/src/main.rs";
        for caller in [None, Some("run"), Some("poll<u8>")] {
            assert_eq!(found("{async_fn#0}", file, caller), "app::{async_fn#0}");
        }
    }
}
