//! A txlog that was built without its feature `nats`; `cargo xtask features` builds one.
#![cfg(not(feature = "nats"))]

mod support;

use support::program::run_command;

#[test]
fn it_says_that_it_was_built_without_nats() {
    let (done, _, said) = run_command(&["serve", "--nats", "127.0.0.1:4222"]);
    assert!(!done && said.contains("--features nats"), "{said}");
    assert!(said.contains("give --dir"), "{said}");
}
