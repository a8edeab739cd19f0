//! The function under an attribute, and the one that takes its place.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::spanned::Spanned;
use syn::{Error, ItemFn, Result};

use crate::options::Options;

/// Where a program is entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    Main,
    Test,
}

impl Entry {
    fn attribute(self) -> &'static str {
        match self {
            Self::Main => "`#[evenkeel::main]`",
            Self::Test => "`#[evenkeel::test]`",
        }
    }
}

/// The function that blocks on `function`, or the compile error that says why there is none.
pub(crate) fn expand(entry: Entry, options: TokenStream, function: TokenStream) -> TokenStream {
    let is_main = entry == Entry::Main;
    try_expand(entry, options, function).unwrap_or_else(|error| {
        let error = error.to_compile_error();
        // The lack of a `main` would be a second error that says nothing new.
        let main = is_main.then(|| {
            quote!(
                fn main() {}
            )
        });
        quote!(#error #main)
    })
}

fn try_expand(entry: Entry, options: TokenStream, function: TokenStream) -> Result<TokenStream> {
    let options: Options = syn::parse2(options)?;
    let function: ItemFn = syn::parse2(function)?;
    check(entry, &function)?;

    let ItemFn {
        attrs,
        vis,
        sig,
        block,
        ..
    } = function;
    let mut outer = sig.clone();
    outer.asyncness = None;
    let name = &sig.ident;
    let build = options.build();
    let (test, failed) = match entry {
        Entry::Main => (
            None,
            quote! {
                {
                    ::std::eprintln!("error: cannot start the evenkeel runtime: {error}");
                    ::std::process::exit(1)
                }
            },
        ),
        Entry::Test => (
            Some(quote!(#[::core::prelude::v1::test])),
            quote! {
                ::std::panic!("cannot start the evenkeel runtime: {error}")
            },
        ),
    };
    // The body stays a function, with its own name and return type: what the compiler says about it
    // is the same as without the attribute, and `?` knows its error type.
    Ok(quote! {
        #test
        #(#attrs)*
        #vis #outer {
            #sig #block

            match #build {
                ::core::result::Result::Ok(runtime) => runtime.block_on(#name()),
                ::core::result::Result::Err(error) => #failed,
            }
        }
    })
}

/// Refuses what cannot be blocked on by a caller that knows nothing about it.
fn check(entry: Entry, function: &ItemFn) -> Result<()> {
    let attribute = entry.attribute();
    let sig = &function.sig;
    if sig.asyncness.is_none() {
        let message = format!("{attribute} needs an async function: write `async fn`");
        return Err(Error::new(sig.fn_token.span(), message));
    }
    if !sig.inputs.is_empty() {
        let message = format!("{attribute} calls the function without arguments: remove these");
        return Err(Error::new_spanned(&sig.inputs, message));
    }
    if !sig.generics.params.is_empty() || sig.generics.where_clause.is_some() {
        let message = format!("{attribute} cannot choose types: the function must not be generic");
        return Err(Error::new_spanned(sig.generics.to_token_stream(), message));
    }
    let second = function.attrs.iter().find(|attribute| {
        attribute
            .path()
            .segments
            .last()
            .is_some_and(|segment| segment.ident == "test")
    });
    match second {
        Some(second) if entry == Entry::Test => {
            let message = format!("the test would run twice: {attribute} is enough");
            Err(Error::new_spanned(second, message))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(entry: Entry, function: &str) -> std::result::Result<String, String> {
        let function = function.parse().unwrap();
        match try_expand(entry, TokenStream::new(), function) {
            Ok(tokens) => Ok(tokens.to_string()),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn the_function_keeps_its_name_and_type_and_is_no_longer_async() {
        let main = expanded(Entry::Main, "async fn main() -> u8 { 7 }").unwrap();
        let main: ItemFn = syn::parse_str(&main).unwrap();
        assert_eq!(main.sig.to_token_stream().to_string(), "fn main () -> u8");
        assert!(main.attrs.is_empty());
    }

    #[test]
    fn a_test_is_marked_as_one_and_keeps_its_attributes() {
        let test = expanded(Entry::Test, "#[ignore] async fn it() {}").unwrap();
        let test: ItemFn = syn::parse_str(&test).unwrap();
        assert_eq!(test.attrs.len(), 2);
        assert!(test.attrs[1].path().is_ident("ignore"));
    }

    #[test]
    fn a_function_that_does_not_fit_is_told_why() {
        for (function, advice) in [
            ("fn main() {}", "write `async fn`"),
            ("async fn main(args: Vec<String>) {}", "without arguments"),
            ("async fn main<T>() {}", "must not be generic"),
            ("#[test] async fn it() {}", "run twice"),
        ] {
            let error = expanded(Entry::Test, function).unwrap_err();
            assert!(error.contains(advice), "{function}: {error}");
        }
    }
}
