//! A runtime without workers.

#[evenkeel::main(workers = 0)]
async fn main() {}
