//! Short names of the types of futures, for lines of logs.

/// What a line has room for.
const SHORT_MAX: usize = 120;

/// The end of the name of an async function's or block's future.
const CLOSURE: &str = "::{{closure}}";

/// The path of the outermost async function in the type of a future, or else of the type itself,
/// without generic arguments: `app::serve` for `Instrumented<app::serve<T>::{{closure}}>`.
pub(crate) fn short(future: &str) -> String {
    let path = outermost_function(future).unwrap_or(future);
    let short = without_arguments(path);
    match short.char_indices().nth(SHORT_MAX - 2) {
        Some((end, _)) if short[end..].chars().nth(2).is_some() => format!("{}..", &short[..end]),
        _ => short,
    }
}

/// The path of the future of an async function that is the least deep in others' arguments.
fn outermost_function(future: &str) -> Option<&str> {
    let mut found: Option<(usize, usize)> = None;
    let (mut depth, mut before) = (0_usize, ' ');
    for (at, next) in future.char_indices() {
        match next {
            '<' => depth += 1,
            // Not of an arrow.
            '>' if before != '-' => depth = depth.saturating_sub(1),
            ':' if found.is_none_or(|(least, _)| depth < least)
                && future[at..].starts_with(CLOSURE) =>
            {
                found = Some((depth, at));
            }
            _ => {}
        }
        before = next;
    }
    let (_, end) = found?;
    Some(&future[beginning(&future[..end])..end])
}

/// Where the path begins that ends with the text.
fn beginning(text: &str) -> usize {
    let mut depth = 0_usize;
    let mut chars = text.char_indices().rev().peekable();
    while let Some((at, next)) = chars.next() {
        let is_arrow = next == '>' && chars.peek().is_some_and(|(_, before)| *before == '-');
        match next {
            '>' if !is_arrow => depth += 1,
            '<' if depth == 0 => return at + 1,
            '<' => depth -= 1,
            ' ' | ',' | '(' | '[' | '&' | '*' if depth == 0 => return at + 1,
            _ => {}
        }
    }
    0
}

/// Of `<app::Type<T> as app::Trait>::run`, `app::Type::run`.
fn without_arguments(path: &str) -> String {
    let mut short = String::new();
    let (mut depth, mut before) = (0_usize, ' ');
    let rest = path.trim_start_matches(['<', '&', '*']);
    // How many brackets are open whose content is kept: it is a type's, and not arguments.
    let mut kept = path.len() - path.trim_start_matches('<').len();
    // In what names a trait.
    let mut skips = false;
    for (at, next) in rest.char_indices() {
        match next {
            '<' => depth += 1,
            '>' if before == '-' => {}
            '>' if depth > 0 => depth -= 1,
            '>' => {
                kept = kept.saturating_sub(1);
                skips = false;
            }
            ' ' if depth == 0 && kept > 0 && rest[at..].starts_with(" as ") => skips = true,
            _ if depth == 0 && !skips => short.push(next),
            _ => {}
        }
        before = next;
    }
    // What is left of `path::<T>::function`.
    short.replace("::::", "::").trim_end_matches(':').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_outermost_function_names_a_future() {
        for (future, name) in [
            ("app::serve::{{closure}}", "app::serve"),
            ("app::main::{{closure}}::{{closure}}", "app::main"),
            (
                "tracing::instrument::Instrumented<app::serve<app::Db>::{{closure}}>",
                "app::serve",
            ),
            (
                "app::run<alloc::vec::Vec<u8>, app::inner::{{closure}}>::{{closure}}",
                "app::run",
            ),
            (
                "<app::Server<T> as app::Handler<app::Request>>::call::{{closure}}",
                "app::Server::call",
            ),
            (
                "core::pin::Pin<alloc::boxed::Box<dyn core::future::Future<Output = ()>>>",
                "core::pin::Pin",
            ),
            ("a::Map<fn(u8) -> u8, b::f::{{closure}}>", "b::f"),
            ("a::f<fn() -> b::C<u8>>::{{closure}}", "a::f"),
            ("(a::f::{{closure}}, b::g::{{closure}})", "a::f"),
            ("", ""),
        ] {
            assert_eq!(short(future), name, "{future}");
        }
    }

    #[test]
    fn a_short_name_is_short() {
        let future = format!("app::{}::{{{{closure}}}}", "\u{e4}".repeat(1000));
        assert_eq!(short(&future).chars().count(), 120);
        let exact = "a".repeat(120);
        assert_eq!(short(&exact), exact);
    }

    proptest::proptest! {
        #[test]
        fn any_text_has_a_short_name(text in "([a-z:<>, &*(-]|::\\{\\{closure\\}\\}| as ){0,60}") {
            proptest::prop_assert!(short(&text).chars().count() <= 120);
        }
    }
}
