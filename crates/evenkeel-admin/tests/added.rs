//! What a program adds: its own metrics, and whether it is well.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use evenkeel_admin::Builder;
use evenkeel_admin::metrics::{Family, Kind, Value, table_of};
use support::{get, runtime};

const JOBS: Family = Family {
    name: "app_jobs",
    help: "Jobs that were done",
    kind: Kind::Counter,
    unit: None,
    labels: &["queue"],
};
const TOOK: Family = Family {
    name: "app_job",
    help: "How long they took",
    kind: Kind::Histogram,
    unit: Some("seconds"),
    labels: &[],
};
const ROOM: Family = Family {
    name: "app_room",
    help: "How much room there is",
    kind: Kind::Gauge,
    unit: Some("bytes"),
    labels: &[],
};

#[test]
fn the_families_of_a_program_are_scraped_beside_those_of_the_runtime() {
    runtime().block_on(async {
        let done = Arc::new(AtomicU64::new(3));
        let counted = Arc::clone(&done);
        let builder = Builder::new().metrics(move |families| {
            let done = counted.load(Ordering::Relaxed);
            families.add(&JOBS, |row| {
                row(&["a"], Value::Count(done));
                row(&["b \"quoted\""], Value::Count(1));
            });
            let buckets = vec![(0.5, 2), (f64::INFINITY, 1)];
            families.add(&TOOK, |row| {
                let buckets = buckets.clone();
                row(&[], Value::Histogram { sum: 1.5, buckets });
            });
            families.add(&ROOM, |row| row(&[], Value::Level(7.0)));
        });
        let admin = builder.listen("127.0.0.1:0").await.unwrap();
        let body = get(&admin, "/metrics").await.body;
        for line in [
            "# TYPE app_jobs counter",
            "app_jobs_total{queue=\"a\"} 3",
            "app_jobs_total{queue=\"b \\\"quoted\\\"\"} 1",
            "# UNIT app_job_seconds seconds",
            "app_job_seconds_bucket{le=\"0.5\"} 2",
            "app_job_seconds_bucket{le=\"+Inf\"} 3",
            "app_job_seconds_sum 1.5",
            "app_job_seconds_count 3",
            "app_room_bytes 7.0",
            "# TYPE evenkeel_worker_parks counter",
        ] {
            assert!(body.lines().any(|it| it == line), "{line} is not in {body}");
        }
        assert!(body.ends_with("# EOF\n"));
        done.store(4, Ordering::Relaxed);
        let body = get(&admin, "/metrics").await.body;
        assert!(body.contains("app_jobs_total{queue=\"a\"} 4\n"), "{body}");
    });
}

#[test]
fn a_table_of_families_has_their_full_names() {
    let table = table_of([&JOBS, &TOOK]);
    assert!(table.contains("| `app_jobs_total` | counter | `queue` | Jobs that were done |\n"));
    assert!(
        table.contains("| `app_job_seconds` | histogram |  |"),
        "{table}"
    );
}

#[test]
fn a_program_that_is_not_well_is_unhealthy_and_says_why() {
    runtime().block_on(async {
        let well = Arc::new(AtomicBool::new(true));
        let asked = Arc::clone(&well);
        let builder = Builder::new().token("correct-horse").health(move || {
            let well = asked.load(Ordering::Relaxed);
            async move {
                if well {
                    Ok(())
                } else {
                    Err("no room".to_owned())
                }
            }
        });
        let admin = builder.listen("127.0.0.1:0").await.unwrap();
        let answer = get(&admin, "/healthz").await;
        assert_eq!((answer.status, answer.body.as_str()), (200, "ok\n"));
        well.store(false, Ordering::Relaxed);
        let answer = get(&admin, "/healthz").await;
        assert_eq!((answer.status, answer.body.as_str()), (503, "no room\n"));
    });
}
