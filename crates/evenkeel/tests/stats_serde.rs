//! Statistics that were written come back as they were.
#![cfg(feature = "serde")]

use std::time::Duration;

use evenkeel::runtime::{Builder, Runtime};
use evenkeel::stats::Stats;
use evenkeel::{Class, task};

fn busy() -> Runtime {
    let runtime = Builder::new().workers(2).build().unwrap();
    runtime.block_on(async {
        let hog = task::Builder::new()
            .name("computes")
            .class(Class::BULK)
            .spawn(async {
                let began = std::time::Instant::now();
                while began.elapsed() < Duration::from_millis(100) {
                    std::hint::spin_loop();
                }
            });
        hog.await.unwrap();
        evenkeel::spawn_blocking(|| ()).await.unwrap();
    });
    runtime
}

#[test]
fn a_snapshot_comes_back_as_it_was() {
    let runtime = busy();
    let stats = runtime.stats();
    assert!(!stats.hogs.is_empty());
    let text = serde_json::to_string(&stats).unwrap();
    let back: Stats = serde_json::from_str(&text).unwrap();
    assert_eq!(format!("{back:?}"), format!("{stats:?}"));
    // What was recorded can be subtracted.
    let since = runtime.stats().since(&back);
    assert!(since.classes[2].polls < stats.classes[2].polls);
}

#[test]
fn times_are_whole_nanoseconds_and_classes_their_index() {
    let runtime = busy();
    let stats = runtime.stats();
    let json = serde_json::to_value(&stats).unwrap();
    let worker = &json["workers"][0];
    assert_eq!(worker["wall"], stats.workers[0].wall.as_nanos() as u64);
    assert_eq!(json["classes"][2]["class"], 2);
    assert_eq!(json["hogs"][0]["name"], "computes");
    let line = stats.hogs[0].spawned_at.line;
    assert_eq!(json["hogs"][0]["spawned_at"]["line"], line);
    let (upper, _) = stats.classes[2].waits.buckets().next().unwrap();
    let bucket = &json["classes"][2]["waits"]["buckets"][0];
    assert_eq!(bucket[0], upper.as_nanos() as u64);
}

#[test]
fn a_snapshot_of_another_version_is_read_as_far_as_it_goes() {
    let stats: Stats = serde_json::from_str("{\"timers\": 7, \"new\": [1]}").unwrap();
    assert_eq!(stats.timers, 7);
    assert!(stats.workers.is_empty());
    // What the other one lacks is taken as nothing.
    let now = busy().stats();
    assert_eq!(now.since(&stats).classes[2].polls, now.classes[2].polls);
    assert_eq!(stats.since(&now).timers, 7);
    let error = serde_json::from_str::<Stats>("{\"classes\": [{\"class\": 64}]}").unwrap_err();
    assert!(error.to_string().contains("class 64"), "{error}");
}
