//! Tokens, certificates, and what each may do.

#[path = "../support/mod.rs"]
mod support;

mod admin;
mod cli;
mod tls;
mod tokens;
