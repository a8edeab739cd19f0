//! Hogs beneath Tokio are named by the spans in which they were found.

use std::time::{Duration, Instant};

use evenkeel::runtime::Handle;
use tracing_subscriber::prelude::*;
use tracing_subscriber::registry;

/// Longer than any test takes on a busy machine: names are made at the lowest priority.
const LIMIT: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_span_of_a_hog_is_known() {
    registry().with(evenkeel_tracing::layer()).init();
    let hog = tokio::spawn(async {
        let _entered = tracing::info_span!("request", uri = "/export").entered();
        let began = Instant::now();
        while began.elapsed() < Duration::from_millis(100) {
            std::hint::spin_loop();
        }
    });
    hog.await.unwrap();
    let Ok(handle) = Handle::try_current() else {
        assert!(std::env::var_os("EVENKEEL").is_some_and(|value| value == "off"));
        return;
    };
    let began = Instant::now();
    loop {
        let functions = handle.stats().hog_functions;
        let mut spans = functions.iter().flat_map(|found| &found.spans);
        if spans.any(|it| it.within == "request{uri=/export}") {
            return;
        }
        assert!(began.elapsed() < LIMIT, "{functions:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
