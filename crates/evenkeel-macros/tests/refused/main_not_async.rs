//! A main that is not async.

#[evenkeel::main]
fn main() {}
