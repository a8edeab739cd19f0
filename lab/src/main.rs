//! The lab: evenkeel's experiments, run beside its peers.
#[allow(
    dead_code,
    reason = "the experiments that fill reports are yet to come"
)]
mod report;

fn main() {}
