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

/// The name of its future's type has thousands of letters.
async fn hogs<T>(_: std::marker::PhantomData<T>) {
    computes_for_the_route();
}

type Four<T> = (T, T, T, T);
type Long = Four<Four<Four<Four<std::collections::BTreeMap<String, String>>>>>;

#[test]
fn the_name_of_a_type_is_cut_in_the_statistics() {
    runtime().block_on(async {
        let admin = listen("127.0.0.1:0").await.unwrap();
        let began = Instant::now();
        let futures = loop {
            evenkeel::spawn(hogs(std::marker::PhantomData::<Long>))
                .await
                .unwrap();
            let stats = get(&admin, "/stats").await.json();
            let rows = ["hogs", "hog_functions"].map(|of| stats[of].as_array().unwrap().clone());
            let futures = rows.concat().into_iter().map(|row| row["future"].clone());
            let futures: Vec<_> = futures
                .filter_map(|it| it.as_str().map(str::to_owned))
                .collect();
            if futures.iter().filter(|it| it.contains("BTreeMap")).count() >= 2 {
                break futures;
            }
            assert!(began.elapsed() < LIMIT, "{stats}");
        };
        for future in futures {
            assert!(future.chars().count() <= 503, "{future}");
            assert!(
                !future.contains("BTreeMap") || future.ends_with("..."),
                "{future}"
            );
        }
        admin.shutdown().await;
    });
}
