//! What the screen says, letter by letter.

use std::borrow::Cow;

use crate::class::Class;
use crate::stats::{Site, Waits};

use super::*;

fn us(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

fn waits(lengths: &[u64]) -> Waits {
    let mut tallied = crate::counters::histogram::Tallied::new();
    lengths
        .iter()
        .for_each(|&micros| tallied.add(micros * 1_000));
    Waits::of_nanos(&tallied)
}

fn worker(run: u64) -> WorkerStats {
    WorkerStats {
        run_by_class: vec![us(0), us(run), us(0)],
        check: us(50_000),
        spin: us(1_000),
        steal: us(2_500),
        lend: us(0),
        park: us(1_000_000 - run - 53_500),
        wall: us(1_000_000),
        parks: 1_234,
        ..WorkerStats::default()
    }
}

fn hog(line: u32, count: u64) -> HogStats {
    HogStats {
        spawned_at: Site {
            file: Cow::Borrowed("src/main.rs"),
            line,
            column: 5,
        },
        future: Cow::Borrowed("app::serve::{{closure}}"),
        class: Class::NORMAL,
        count,
        longest: us(52_000),
        total: us(count.saturating_mul(50_000)),
        ..HogStats::default()
    }
}

fn made_up() -> Stats {
    let class = |class: Class, name: &str, share| ClassStats {
        class,
        name: name.to_owned(),
        share,
        ..ClassStats::default()
    };
    let mut stats = Stats {
        workers: vec![worker(480_000), worker(20_000)],
        classes: vec![
            class(Class::URGENT, "urgent", 30),
            class(Class::NORMAL, "normal", 50),
            class(Class::BULK, "bulk", 20),
        ],
        processors: 2.0,
        ..Stats::default()
    };
    stats.classes[1].run = us(1_250_000);
    stats.classes[1].heavy = us(750_000);
    stats.classes[1].polls = 250_000;
    stats.classes[1].hogs = 412;
    stats.classes[1].hogging = 2;
    stats.classes[1].oldest_hog = us(61_000_000);
    stats.classes[1].ready = 3;
    stats.classes[1].oldest_ready = us(2_500);
    stats.classes[1].waits = waits(&[3, 3, 3, 900]);
    stats.classes[1].poll_lengths = waits(&[1, 50_000]);
    stats.heavy.threads = 1;
    stats.heavy.limit = 2;
    stats.heavy.hand_offs = 400;
    stats.hogs = vec![hog(12, 412)];
    stats.hogs[0].blocked = 2;
    stats.checks.due.found = 7;
    stats.checks.idle.empty = 3;
    stats.readiness.events = 1;
    stats.readiness.descriptors = 12;
    stats.delivery.deliveries = 10;
    stats.delivery.bytes = 14_600;
    stats.delivery.reads = 12;
    stats.delivery.empty_reads = 2;
    stats.output.writes = 1;
    stats.output.bytes = 100_000;
    stats.lanes = vec![LaneStats {
        name: "disk 8:1 sync".to_owned(),
        limit: 1,
        busy: 1,
        queued: 2,
        done: 9,
        refused: 4,
        waits: waits(&[20]),
        runs: waits(&[4_000]),
        ..LaneStats::default()
    }];
    stats.host.stolen = Some(us(30_000));
    stats.tasks_waiting = 1;
    stats.timers = 2;
    stats
}

#[track_caller]
fn assert_fits_a_screen(text: &str) {
    assert!(text.lines().count() <= 40, "{text}");
    for line in text.lines() {
        assert!(line.chars().count() <= 120, "{line}");
        assert_eq!(line, line.trim_end(), "nothing trails");
    }
}

#[test]
fn a_runtime_at_work() {
    let text = made_up().to_string();
    assert_fits_a_screen(&text);
    let expected = "\
2 workers in 1.00 s, utilisation 25 %, occupancy 62 % of 2 processors
worker         run    check     spin    steal     lend     park    parks
0             48 %    5.0 %    0.1 %    0.2 %    0.0 %     47 %     1234
1            2.0 %    5.0 %    0.1 %    0.2 %    0.0 %     93 %     1234
class        share      got    polls     hogs    ready   oldest  wait p50      p99  longest poll
normal       100 %    100 %    250 k      412        3  2.50 ms   4.10 us  1.05 ms     <=67.1 ms
heavy pool  1 of 2 threads, 0 blocked, 0 queued; 400 hand-offs, 0 refused
hogging     2 polls of normal under way, for 61.0 s at most
hog         412 polls (2 blocked) of 50.0 ms, at most 52.0 ms, src/main.rs:12:5: \
app::serve::{{closure}}
I/O checks  10 (7 due, 3 idle, 0 spin, 0 visits), 1 event
deliveries  10 of 14600 bytes, 12 reads (2 empty)
output      1 write of 100 k bytes
lane        disk 8:1 sync: 1 of 1 thread busy, 2 queued, 9 done in 4.00 ms, waited 32.8 us (p99); \
4 refused, 0 expired
taken away  30.0 ms stolen by the host, - throttled by a quota
now         1 task, 2 timers, 12 descriptors";
    assert_eq!(text, expected, "\n{text}");
}

/// The heavy pool counts, a quota too, and a snapshot that says nothing of processors has as many
/// as workers.
#[test]
fn occupancy_is_of_the_processors() {
    let mut stats = made_up();
    assert_eq!(stats.occupancy(), 0.625);
    stats.processors = 1.25;
    assert_eq!(stats.occupancy(), 1.0);
    assert!(stats.to_string().contains(" 100 % of 1.25 processors\n"));
    stats.processors = 0.0;
    assert_eq!(stats.occupancy(), 0.625);
    assert_eq!(stats.utilisation(), 0.25);
    assert_eq!(Stats::default().occupancy(), 0.0);
}

#[test]
fn a_runtime_that_has_done_nothing() {
    let expected = "\
0 workers in -, utilisation 0.0 %, occupancy 0.0 % of 0 processors
I/O checks  0 (0 due, 0 idle, 0 spin, 0 visits), 0 events
now         0 tasks, 0 timers, 0 descriptors";
    assert_eq!(Stats::default().to_string(), expected);
}

#[test]
fn what_is_long_is_cut_and_what_is_enormous_fits() {
    let mut stats = made_up();
    stats.workers = (0..64).map(|_| worker(500_000)).collect();
    stats.hogs = (0..100).map(|line| hog(line, u64::MAX / 2)).collect();
    for hog in &mut stats.hogs {
        hog.future = Cow::Owned("fütüre<".repeat(100));
        hog.total = Duration::MAX;
        hog.longest = Duration::MAX;
    }
    stats.classes[1].polls = u64::MAX;
    stats.lanes = (0..9)
        .map(|_| LaneStats {
            name: "x".repeat(1000),
            ..stats.lanes[0].clone()
        })
        .collect();
    let text = stats.to_string();
    assert!(text.contains("and 58 workers more"), "{text}");
    assert!(text.contains("and 94 kinds of tasks more"), "{text}");
    assert!(text.contains("and 3 lanes more"), "{text}");
    assert!(text.lines().count() <= 40, "{text}");
    assert!(
        text.lines().all(|line| line.chars().count() <= 160),
        "{text}"
    );
}
