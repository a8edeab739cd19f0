//! A system without threads. One test, as it counts the descriptors of its whole process.

use std::io::ErrorKind;
use std::panic::{AssertUnwindSafe, catch_unwind};

use tokio::runtime::Builder;

fn is_off() -> bool {
    std::env::var("EVENKEEL").is_ok_and(|value| value == "off")
}

#[test]
fn a_runtime_without_threads_is_an_error_where_tokio_panics() {
    let descriptors = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let build = || {
        let mut builder = Builder::new_multi_thread();
        // More than there are addresses.
        builder.enable_all().thread_stack_size(usize::MAX / 2);
        catch_unwind(AssertUnwindSafe(|| builder.build().map(drop)))
    };
    if is_off() {
        assert!(build().is_err());
        return;
    }
    let mut before = None;
    for _ in 0..3 {
        let error = build().unwrap().unwrap_err();
        assert!(error.to_string().contains("thread"), "{error}");
        assert_eq!(error.kind(), ErrorKind::WouldBlock, "as the system's is");
        // The first one makes what a process has once.
        assert_eq!(descriptors(), *before.get_or_insert_with(descriptors));
    }
}
