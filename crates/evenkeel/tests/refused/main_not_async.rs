#[evenkeel::main]
fn main() {}
