//! The options of Tokio's attribute.

#[evenkeel::main(worker_threads = 2)]
async fn main() {}

#[evenkeel::test(flavor = "current_thread")]
async fn it() {}
