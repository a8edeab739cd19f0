//! The lab: evenkeel's experiments, run beside its peers.
fn main() {}
