//! The readers and the requests of the proxy's tests.
#![allow(
    dead_code,
    reason = "the tests use more of it, such as what each request is for"
)]

#[path = "../../tests/whole/readings/corpus.rs"]
pub(crate) mod corpus;
#[path = "../../tests/whole/readings/reader.rs"]
pub(crate) mod reader;
