//! What stands in the parentheses of an attribute.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{Error, Expr, ExprLit, Lit, LitStr, MetaNameValue, Path, Result, Token, parse_quote};

const KNOWN: &str =
    "`workers = N`, `busy_wait = \"...\"`, `start_paused = true` and `crate = \"...\"`";

/// The options of Tokio's attributes, and what to do with them here.
const TOKIOS: [(&str, &str); 4] = [
    ("worker_threads", "write `workers = N`"),
    (
        "flavor",
        "there is one kind of runtime, with as many workers as you say: leave this out, or write \
         `workers = 1` where a runtime for one thread was meant (its tasks have to be `Send` all \
         the same)",
    ),
    (
        "unhandled_panic",
        "a panic stays in its task and reaches its `JoinHandle`: leave this out",
    ),
    ("name", "write `Builder::thread_name` in an ordinary `main`"),
];

/// The values of `busy_wait`, and the variants of `evenkeel::BusyWait` that they stand for.
const BUSY_WAITS: [(&str, &str); 7] = [
    ("none", "None"),
    ("very_short", "VeryShort"),
    ("short", "Short"),
    ("medium", "Medium"),
    ("long", "Long"),
    ("very_long", "VeryLong"),
    ("adaptive", "Adaptive"),
];

/// The options of one attribute.
pub(crate) struct Options {
    workers: Option<usize>,
    busy_wait: Option<&'static str>,
    start_paused: Option<bool>,
    krate: Option<Path>,
}

impl Options {
    /// The path of the `evenkeel` crate.
    pub(crate) fn krate(&self) -> Path {
        self.krate
            .clone()
            .unwrap_or_else(|| parse_quote!(::evenkeel))
    }

    /// An expression that builds the runtime, and is a `Result`.
    pub(crate) fn build(&self) -> TokenStream {
        let krate = self.krate();
        let workers = self.workers.map(|workers| quote!(.workers(#workers)));
        let busy_wait = self.busy_wait.map(|level| {
            let level = format_ident!("{level}");
            quote!(.busy_wait(#krate::BusyWait::#level))
        });
        let paused = self.start_paused;
        let start_paused = paused.map(|paused| quote!(.start_paused(#paused)));
        quote!(#krate::runtime::Builder::new() #workers #busy_wait #start_paused .build())
    }
}

impl Parse for Options {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let mut options = Self {
            workers: None,
            busy_wait: None,
            start_paused: None,
            krate: None,
        };
        for option in Punctuated::<MetaNameValue, Token![,]>::parse_terminated(input)? {
            let name = option
                .path
                .get_ident()
                .map(ToString::to_string)
                .unwrap_or_default();
            let is_new = match name.as_str() {
                "workers" => options.workers.replace(workers(&option.value)?).is_none(),
                "busy_wait" => options
                    .busy_wait
                    .replace(busy_wait(&option.value)?)
                    .is_none(),
                "start_paused" => options
                    .start_paused
                    .replace(truth(&option.value)?)
                    .is_none(),
                "crate" => options
                    .krate
                    .replace(text(&option.value)?.parse()?)
                    .is_none(),
                _ => return Err(Error::new(option.path.span(), unknown(&name))),
            };
            if !is_new {
                let message = format!("`{name}` is given twice");
                return Err(Error::new(option.path.span(), message));
            }
            if options.start_paused == Some(true) && options.workers.is_some_and(|n| n > 1) {
                let message = "a runtime whose time is paused has one worker: leave `workers` out";
                return Err(Error::new(option.path.span(), message));
            }
        }
        Ok(options)
    }
}

/// What to say of an option that does not exist.
fn unknown(name: &str) -> String {
    match TOKIOS.iter().find(|(theirs, _)| *theirs == name) {
        Some((_, advice)) => format!("evenkeel has no `{name}`: {advice}"),
        None => format!("no such option; there are {KNOWN}"),
    }
}

fn workers(value: &Expr) -> Result<usize> {
    let message = "`workers` takes a number from 1 on, such as `workers = 2`";
    match value {
        Expr::Lit(ExprLit {
            lit: Lit::Int(number),
            ..
        }) => match number.base10_parse() {
            Ok(workers) if workers > 0 => Ok(workers),
            _ => Err(Error::new(value.span(), message)),
        },
        _ => Err(Error::new(value.span(), message)),
    }
}

fn truth(value: &Expr) -> Result<bool> {
    match value {
        Expr::Lit(ExprLit {
            lit: Lit::Bool(truth),
            ..
        }) => Ok(truth.value),
        _ => Err(Error::new(
            value.span(),
            "`start_paused` is `true` or `false`",
        )),
    }
}

fn busy_wait(value: &Expr) -> Result<&'static str> {
    let given = text(value)?;
    let level = BUSY_WAITS.iter().find(|(name, _)| *name == given.value());
    level.map(|(_, variant)| *variant).ok_or_else(|| {
        let names = BUSY_WAITS.map(|(name, _)| format!("\"{name}\"")).join(", ");
        Error::new(given.span(), format!("`busy_wait` is one of {names}"))
    })
}

fn text(value: &Expr) -> Result<&LitStr> {
    match value {
        Expr::Lit(ExprLit {
            lit: Lit::Str(text),
            ..
        }) => Ok(text),
        _ => Err(Error::new(
            value.span(),
            "this option takes a string in quotes",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn built(options: &str) -> std::result::Result<String, String> {
        let options: Options = syn::parse_str(options).map_err(|error| error.to_string())?;
        Ok(options.build().to_string().replace(' ', ""))
    }

    #[test]
    fn options_become_calls_of_the_builder() {
        assert_eq!(
            built("").unwrap(),
            "::evenkeel::runtime::Builder::new().build()"
        );
        assert_eq!(
            built("workers = 3, busy_wait = \"very_long\", crate = \"a::b\",").unwrap(),
            "a::b::runtime::Builder::new().workers(3usize)\
             .busy_wait(a::b::BusyWait::VeryLong).build()"
        );
        assert_eq!(
            built("start_paused = true, workers = 1").unwrap(),
            "::evenkeel::runtime::Builder::new().workers(1usize).start_paused(true).build()"
        );
    }

    #[test]
    fn a_mistaken_option_is_told_what_is_right() {
        for (options, advice) in [
            ("threads = 3", "no such option"),
            (
                "worker_threads = 3",
                "no `worker_threads`: write `workers = N`",
            ),
            ("flavor = \"current_thread\"", "`workers = 1`"),
            ("start_paused = 1", "`true` or `false`"),
            ("start_paused = true, workers = 2", "one worker"),
            ("unhandled_panic = \"ignore\"", "stays in its task"),
            ("workers = 0", "from 1 on"),
            ("workers = \"2\"", "from 1 on"),
            ("workers = 1, workers = 2", "given twice"),
            ("busy_wait = \"sometimes\"", "\"adaptive\""),
            ("busy_wait = none", "in quotes"),
        ] {
            let error = built(options).unwrap_err();
            assert!(error.contains(advice), "{options}: {error}");
        }
    }

    #[test]
    fn busy_waits_are_those_of_the_runtime() {
        let ours = BUSY_WAITS.map(|(name, variant)| (name.to_owned(), variant.to_owned()));
        let levels = evenkeel::BusyWait::ALL;
        assert_eq!(
            ours,
            levels.map(|level| (level.to_string(), format!("{level:?}")))
        );
    }
}
