//! An option that does not exist.

#[evenkeel::main(threads = 2)]
async fn main() {}
