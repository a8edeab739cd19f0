//! Heads, chunks, headers of PROXY and configurations that were changed at random.
//!
//! Some thousand of each in an ordinary run, always the same. For a longer run, and for one that
//! goes by which code the bytes reach:
//!
//! ```sh
//! export EVENKEEL_MUTATIONS=5000000 EVENKEEL_SEED=7
//! cargo test --release -p proxy --test whole -- mutations
//! cargo xtask fuzz request --seconds 600
//! ```

use servers_common::properties::Property;

use super::properties::{ANSWER, CHUNKS, CONFIGURATION, CONVERSION, PROXY_HEADER, REQUEST};

/// Checks it with so many changed ones, or as many as the environment asks for, of which some have
/// to be taken.
fn holds(usual: u64, taken_min: usize, property: &Property) {
    let (name, taken) = (property.name, property.holds(usual));
    assert!(taken >= taken_min, "{name}: only {taken} were taken");
}

#[test]
fn a_request_that_is_taken_is_written_so_that_all_read_it_alike() {
    holds(20_000, 100, &REQUEST);
}

#[test]
fn an_answer_is_taken_or_refused() {
    holds(10_000, 100, &ANSWER);
}

#[test]
fn chunks_are_read_alike_however_they_are_cut_and_what_is_passed_on_too() {
    holds(20_000, 100, &CHUNKS);
}

#[test]
fn a_header_of_proxy_is_the_same_when_more_follows() {
    holds(20_000, 100, &PROXY_HEADER);
}

#[test]
fn a_configuration_is_taken_or_every_error_has_its_line() {
    // What is taken names files that are there, of which it has none.
    holds(3_000, 0, &CONFIGURATION);
}

#[test]
fn what_is_converted_without_an_error_is_a_configuration() {
    holds(500, 1, &CONVERSION);
}
