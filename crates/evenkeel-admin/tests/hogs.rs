//! What hogs were doing, over HTTP.
#![cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]

mod support;

use std::hint::black_box;
use std::time::{Duration, Instant};

use evenkeel_admin::{Admin, listen};
use support::{LIMIT, get, runtime};

#[inline(never)]
fn computes_for_the_route() {
    let began = Instant::now();
    while began.elapsed() < Duration::from_millis(30) {
        black_box(began);
    }
}

/// The text at this path, once the function is in it.
async fn named(admin: &Admin, path: &str) -> String {
    let began = Instant::now();
    loop {
        let answer = get(admin, path).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        assert!(answer.head.contains("text/plain"), "{}", answer.head);
        if answer.body.contains("computes_for_the_route") {
            return answer.body;
        }
        assert!(began.elapsed() < LIMIT, "{answer:?}");
        // Beside other work, a stack may come too late.
        evenkeel::spawn(async { computes_for_the_route() })
            .await
            .unwrap();
        evenkeel::time::sleep(Duration::from_millis(50)).await;
    }
}

#[test]
fn hogs_are_served_by_function_and_as_stacks() {
    runtime().block_on(async {
        let admin = listen("127.0.0.1:0").await.unwrap();
        assert_eq!(get(&admin, "/hogs.folded").await.body, "");
        let text = named(&admin, "/hogs.txt").await;
        let line = text.lines().find(|line| line.contains("for_the_route"));
        assert!(line.unwrap().starts_with("hogs::computes_"), "{text}");
        let last = text.lines().last().unwrap();
        assert!(
            last.starts_with("by ") && last.contains(" stacks; "),
            "{text}"
        );
        // Each line is a stack, and for how many microseconds.
        let folded = named(&admin, "/hogs.folded").await;
        for line in folded.lines() {
            let (stack, time) = line.rsplit_once(' ').unwrap();
            assert!(!stack.is_empty() && time.parse::<u64>().is_ok(), "{folded}");
        }
        let metrics = get(&admin, "/metrics").await.body;
        for metric in ["polls_total", "run_seconds_total"] {
            let row = format!("evenkeel_hog_function_{metric}{{function=\"hogs::computes_for_the_");
            assert!(metrics.contains(&row), "{row} is not in {metrics}");
        }
        admin.shutdown().await;
    });
}
