//! Hogs are named by what they were doing.
#![cfg(all(
    feature = "hog-stacks",
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]

use std::hint::black_box;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use evenkeel::runtime::{Builder, Handle, Runtime};
use evenkeel::stats::HogFunction;
use evenkeel::{Class, HogReport};

/// How long a hog goes on before the test gives up.
const LIMIT: Duration = Duration::from_secs(60);

fn runtime() -> Runtime {
    Builder::new().workers(1).build().unwrap()
}

/// The row of a function, once there is one and its polls have ended.
fn find(handle: &Handle, function: &str) -> Option<HogFunction> {
    let mut functions = handle.stats().hog_functions.into_iter();
    functions.find(|row| row.function.ends_with(function) && row.ended > 0)
}

/// Runs hogs one after the other until one of them has a name.
fn named(runtime: &Runtime, function: &str, hog: fn()) -> HogFunction {
    let began = Instant::now();
    while began.elapsed() < LIMIT {
        runtime
            .block_on(runtime.spawn(async move { hog() }))
            .unwrap();
        let look = Instant::now();
        while look.elapsed() < Duration::from_secs(5) {
            if let Some(row) = find(runtime.handle(), function) {
                return row;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
    panic!("no {function} among {:#?}", runtime.stats().hog_functions)
}

#[inline(never)]
fn compute_for(length: Duration) -> u64 {
    let began = Instant::now();
    let mut sum = 0_u64;
    while began.elapsed() < length {
        sum = (0..1_000).fold(sum, |sum, next| black_box(sum ^ next));
    }
    black_box(sum)
}

#[inline(never)]
fn computes() {
    black_box(compute_for(Duration::from_millis(50)));
}

#[inline(never)]
fn parses_at_length() {
    let text = format!("[{}]", vec!["[1,2,3,{\"a\":\"b\"}]"; 20_000].join(","));
    let began = Instant::now();
    while began.elapsed() < Duration::from_millis(100) {
        black_box(serde_json::from_str::<serde_json::Value>(&text).unwrap());
    }
}

#[inline(never)]
fn sleeps() {
    std::thread::sleep(Duration::from_millis(60));
}

/// As those of other crates do, which know nothing of the runtime.
#[inline(never)]
fn blocks_on_another_future() {
    struct Unpark(std::thread::Thread);
    impl std::task::Wake for Unpark {
        fn wake(self: std::sync::Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = std::sync::Arc::new(Unpark(std::thread::current())).into();
    let mut context = std::task::Context::from_waker(&waker);
    let began = Instant::now();
    let mut future = std::pin::pin!(std::future::poll_fn(|_| {
        if began.elapsed() < Duration::from_millis(60) {
            std::task::Poll::Pending
        } else {
            std::task::Poll::Ready(())
        }
    }));
    while future.as_mut().poll(&mut context).is_pending() {
        std::thread::park_timeout(Duration::from_millis(5));
    }
}

#[test]
fn a_hog_that_computes_is_named_by_its_function() {
    let runtime = runtime();
    let row = named(&runtime, "hogs_named::compute_for", computes);
    assert!(
        row.count > 0 && row.total >= Duration::from_millis(50),
        "{row:?}"
    );
    assert!(row.spawned_at.file.ends_with("hogs_named.rs"), "{row:?}");
    let text = row.to_string();
    assert!(
        text.contains("compute_for") && text.contains("on average"),
        "{text}"
    );
    let profile = runtime.handle().hog_profile();
    let of_it = |stack: &str| {
        let caller = stack.find("hogs_named::computes;");
        caller.is_some() && stack.contains("hogs_named::compute_for")
    };
    let time = profile.stacks.iter().filter(|(stack, _)| of_it(stack));
    let time: Duration = time.map(|(_, time)| *time).sum();
    assert!(time >= Duration::from_millis(50), "{profile}");
    runtime.shutdown(LIMIT).unwrap();
}

#[inline(never)]
fn serves(uri: &str) {
    let within = std::sync::Arc::from(format!("request{{uri={uri}}}"));
    evenkeel::runtime::within::enter(1, &within);
    compute_for(Duration::from_millis(20));
    evenkeel::runtime::within::exit(1);
}

/// Each of a few spans has its count, and a difference has those of its time.
#[test]
fn a_hog_is_counted_in_its_spans() {
    let runtime = runtime();
    let began = Instant::now();
    let of_it = |stats: &evenkeel::stats::Stats| {
        let mut rows = stats.hog_functions.iter();
        rows.find(|row| row.function.ends_with("compute_for"))
            .cloned()
            .unwrap_or_default()
    };
    let count = |row: &HogFunction, uri: &str| {
        let within = format!("request{{uri={uri}}}");
        let mut spans = row.spans.iter().filter(|it| it.within == within);
        spans.next().map_or(0, |it| it.count)
    };
    let serve = |uri: &'static str, so_often: u64| loop {
        let stats = runtime.stats();
        if count(&of_it(&stats), uri) >= so_often {
            return stats;
        }
        assert!(began.elapsed() < LIMIT, "{:#?}", of_it(&stats));
        let task = runtime.spawn(async { serves(uri) });
        runtime.block_on(task).unwrap();
        std::thread::sleep(Duration::from_millis(20));
    };
    serve("/a", 3);
    let before = serve("/b", 1);
    let row = of_it(&before);
    assert!(count(&row, "/a") >= 3, "{row:#?}");
    assert_eq!(row.spans.len(), 2, "{row:#?}");
    let text = row.to_string();
    assert!(text.contains(", within request{uri=/"), "{text}");
    assert!(text.contains("request{uri=/b} "), "{text}");
    let row = of_it(&serve("/c", 2).since(&before));
    assert!(count(&row, "/c") >= 2, "{row:#?}");
    assert_eq!(count(&row, "/a"), 0, "{row:#?}");
    runtime.shutdown(LIMIT).unwrap();
}

#[test]
fn a_hog_within_a_library_is_named_by_who_called_it_and_what() {
    let runtime = runtime();
    let row = named(&runtime, "hogs_named::parses_at_length", parses_at_length);
    assert!(row.count > 0, "{row:?}");
    let began = Instant::now();
    let is_library = |row: &HogFunction| {
        let callee = row.callee.as_deref().unwrap_or_default();
        callee.contains("serde_json")
    };
    // A poll may also be found where it makes the text.
    while !runtime.stats().hog_functions.iter().any(is_library) {
        assert!(
            began.elapsed() < LIMIT,
            "{:#?}",
            runtime.stats().hog_functions
        );
        runtime
            .block_on(runtime.spawn(async { parses_at_length() }))
            .unwrap();
    }
    runtime.shutdown(LIMIT).unwrap();
}

#[test]
fn a_hog_that_blocks_is_named_without_a_signal() {
    let runtime = runtime();
    let row = named(&runtime, "hogs_named::sleeps", sleeps);
    assert!(row.blocked > 0, "{row:?}");
    let row = named(
        &runtime,
        "hogs_named::blocks_on_another_future",
        blocks_on_another_future,
    );
    assert!(row.blocked > 0, "{row:?}");
    runtime.shutdown(LIMIT).unwrap();
}

#[test]
fn a_report_has_the_function() {
    let (send, reports) = mpsc::channel::<HogReport>();
    let mut builder = Builder::new();
    builder.workers(1);
    builder.on_hog(move |report| drop(send.send(report.clone())));
    let runtime = builder.build().unwrap();
    let began = Instant::now();
    // Beside other work, a stack may come too late.
    let report = loop {
        runtime
            .block_on(runtime.spawn(async { computes() }))
            .unwrap();
        let report = reports.recv_timeout(LIMIT).unwrap();
        if report.function.is_some() || began.elapsed() > LIMIT {
            break report;
        }
        std::thread::sleep(Duration::from_secs(1));
    };
    let function = report.function.as_deref().unwrap_or_default();
    assert!(function.ends_with("hogs_named::compute_for"), "{report:?}");
    assert!(report.to_string().contains("compute_for`"), "{report}");
    runtime.shutdown(LIMIT).unwrap();
}

#[test]
fn a_hog_is_counted_in_its_class() {
    let runtime = runtime();
    let began = Instant::now();
    // Beside other work, a stack may come too late.
    let row = loop {
        runtime
            .block_on(runtime.spawn_in(Class::BULK, async { computes() }))
            .unwrap();
        if let Some(row) = find(runtime.handle(), "hogs_named::compute_for") {
            break row;
        }
        assert!(began.elapsed() < LIMIT, "{:#?}", runtime.stats());
        std::thread::sleep(Duration::from_millis(50));
    };
    assert_eq!(row.class, Class::BULK, "{row:?}");
    runtime.shutdown(LIMIT).unwrap();
}

#[test]
fn a_report_is_not_lost_at_the_end() {
    let (send, reports) = mpsc::channel::<HogReport>();
    let mut builder = Builder::new();
    builder.workers(1);
    builder.on_hog(move |report| drop(send.send(report.clone())));
    let runtime = builder.build().unwrap();
    runtime
        .block_on(runtime.spawn(async { computes() }))
        .unwrap();
    runtime.shutdown(LIMIT).unwrap();
    let report = reports.recv_timeout(LIMIT).unwrap();
    assert!(report.length >= Duration::from_millis(1), "{report:?}");
}

#[test]
fn switched_off_no_stack_is_taken() {
    let mut builder = Builder::new();
    builder.workers(1).hog_stacks(false);
    let runtime = builder.build().unwrap();
    runtime
        .block_on(runtime.spawn(async { computes() }))
        .unwrap();
    let stats = runtime.stats();
    assert!(!stats.hogs.is_empty(), "it hogged");
    assert_eq!(stats.hog_stacks, evenkeel::stats::HogStacks::default());
    assert!(stats.hog_functions.is_empty());
    runtime.shutdown(LIMIT).unwrap();
}
