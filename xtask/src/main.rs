//! What the project checks of itself.
fn main() {}
