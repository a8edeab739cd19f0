//! The figures are those of the runtime, and all are there.

mod support;

use std::collections::HashMap;
use std::time::Duration;

use evenkeel::Class;
use evenkeel_admin::{Admin, listen, metrics};
use support::{get, runtime};

/// The samples of a scrape, by name and labels.
async fn scrape(admin: &Admin) -> HashMap<String, f64> {
    let answer = get(admin, "/metrics").await;
    assert!(answer.body.ends_with("# EOF\n"), "{}", answer.body);
    let lines = answer.body.lines().filter(|line| !line.starts_with('#'));
    let samples = lines.map(|line| {
        let (name, value) = line.rsplit_once(' ').unwrap();
        let value = value
            .parse()
            .unwrap_or_else(|error| panic!("{error}: {line}"));
        (name.to_owned(), value)
    });
    let all: Vec<_> = samples.collect();
    let count = all.len();
    let samples: HashMap<_, _> = all.into_iter().collect();
    assert_eq!(samples.len(), count, "each sample is there once");
    samples
}

#[test]
fn every_metric_of_the_page_is_scraped_and_no_other() {
    runtime().block_on(async {
        let admin = listen("127.0.0.1:0").await.unwrap();
        let samples = scrape(&admin).await;
        let page = metrics::page();
        let mut documented: Vec<_> = page
            .lines()
            .filter_map(|line| line.strip_prefix("| `"))
            .map(|line| line.split('`').next().unwrap())
            .collect();
        let base = |sample: &String| {
            let name = sample.split('{').next().unwrap();
            let of_histogram = ["_bucket", "_sum", "_count"];
            let ends = of_histogram.iter().find_map(|end| name.strip_suffix(end));
            ends.unwrap_or(name).to_owned()
        };
        let mut scraped: Vec<_> = samples.keys().map(base).collect();
        scraped.sort();
        scraped.dedup();
        documented.sort();
        // These only where the system says them, or there was a hog.
        let may_lack = ["evenkeel_host_", "evenkeel_hog_function_"];
        documented.retain(|name| {
            let may_lack = may_lack.iter().any(|begin| name.starts_with(begin));
            !may_lack || scraped.iter().any(|it| it == name)
        });
        assert_eq!(scraped, documented);
    });
}

#[test]
fn a_known_load_is_counted_exactly() {
    const POLLS: u64 = 1_000;
    let runtime = runtime();
    runtime.block_on(async {
        let admin = listen("127.0.0.1:0").await.unwrap();
        let before = scrape(&admin).await;
        let task = evenkeel::spawn_in(Class::BULK, async {
            for _ in 1..POLLS {
                evenkeel::task::yield_now().await;
            }
        });
        task.await.unwrap();
        // A poll is charged when it is over, and whoever waits for its task may be faster.
        let lengths = "evenkeel_class_poll_length_seconds_count{class=\"bulk\"}";
        let mut after = scrape(&admin).await;
        for _ in 0..1_000 {
            if after[lengths] - before[lengths] >= POLLS as f64 {
                break;
            }
            evenkeel::time::sleep(Duration::from_millis(10)).await;
            after = scrape(&admin).await;
        }
        let grown = |name: &str| (after[name] - before[name]).round() as u64;
        assert_eq!(grown("evenkeel_class_polls_total{class=\"bulk\"}"), POLLS);
        for name in ["wait", "poll_length"] {
            let count = format!("evenkeel_class_{name}_seconds_count{{class=\"bulk\"}}");
            assert_eq!(grown(&count), POLLS, "{name}");
            let bucket =
                format!("evenkeel_class_{name}_seconds_bucket{{le=\"+Inf\",class=\"bulk\"}}");
            assert_eq!(grown(&bucket), POLLS, "{name}");
        }
        let run = |samples: &HashMap<String, f64>, class: &str| {
            samples[&format!("evenkeel_class_run_seconds_total{{class=\"{class}\"}}")]
        };
        assert!(run(&after, "bulk") > run(&before, "bulk"));
        assert!(
            run(&after, "urgent") > run(&before, "urgent"),
            "the server itself"
        );
    });
}

#[test]
fn states_of_workers_add_up() {
    runtime().block_on(async {
        let admin = listen("127.0.0.1:0").await.unwrap();
        let stats = get(&admin, "/stats").await.json();
        let workers = stats["workers"].as_array().unwrap();
        assert_eq!(workers.len(), 2);
        for worker in workers {
            let nanos = |field: &str| worker[field].as_u64().unwrap();
            let run: u64 = (worker["run_by_class"].as_array().unwrap().iter())
                .map(|time| time.as_u64().unwrap())
                .sum();
            let others = ["check", "spin", "park", "steal", "lend"].map(nanos);
            let sum = run + others.iter().sum::<u64>();
            assert!(
                sum.abs_diff(nanos("wall")) <= nanos("wall") / 200 + 1_000,
                "{worker}"
            );
        }
    });
}

/// Linux says both; where it does not say how many descriptors are open, that is left out.
#[test]
#[cfg(target_os = "linux")]
fn the_process_has_a_beginning_and_descriptors() {
    const OPENED: usize = 200;
    runtime().block_on(async {
        let admin = listen("127.0.0.1:0").await.unwrap();
        let before = scrape(&admin).await;
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let (now, began) = (
            now.unwrap().as_secs_f64(),
            before["process_start_time_seconds"],
        );
        // Both are of the system's clock, of which one is a whole number of seconds.
        assert!(
            began <= now + 1.0 && began > now - 3_600.0,
            "{began}, {now}"
        );
        let fds = "process_open_fds";
        let open = || std::fs::read_dir("/proc/self/fd").unwrap().count() as f64;
        if let Some(&few) = before.get(fds) {
            let files: Vec<_> = (0..OPENED)
                .map(|_| std::fs::File::open("/dev/null"))
                .collect();
            let many = scrape(&admin).await[fds];
            // Other tests open and close some meanwhile.
            assert!(many > few + OPENED as f64 / 2.0, "{few}, then {many}");
            assert!((many - open()).abs() < OPENED as f64 / 2.0, "{many}");
            assert!(many <= before["process_max_fds"]);
            drop(files);
        }
    });
}

#[test]
fn the_page_of_the_docs_is_what_the_code_says() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/metrics.md");
    let page = std::fs::read_to_string(path).unwrap();
    let (head, _) = page.split_once("| name |").expect("a table");
    let written = format!("{head}{}", metrics::page());
    if std::env::var_os("EVENKEEL_WRITE_PAGES").is_some() {
        std::fs::write(path, &written).unwrap();
    }
    assert!(page == written, "run this test with EVENKEEL_WRITE_PAGES=1");
}
