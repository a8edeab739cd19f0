//! A main with arguments.

#[evenkeel::main]
async fn main(arguments: Vec<String>) {}
