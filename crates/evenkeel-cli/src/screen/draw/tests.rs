//! What is drawn of a runtime at work, in a terminal of any size.

use evenkeel_admin::Snapshot;
use ratatui::Terminal;
use ratatui::backend::TestBackend;

use super::*;
use crate::asker::Looked;
use crate::busy::busiest;
use crate::keys::Choices;
use crate::screen::{Tasks, take};

fn snapshot(second: u64) -> Snapshot {
    snapshot_beside(0, second)
}

/// With so many classes more.
fn snapshot_beside(more: u64, second: u64) -> Snapshot {
    let waits = serde_json::json!({ "buckets": [[1000, 0], [4000, 90 * second], [64000, second]] });
    let class = |index: u64, name: &str, share: u64, run: u64| {
        serde_json::json!({
            "class": index, "name": name, "share": share, "run": run * second,
            "polls": 1000 * second, "ready": 3, "waits": waits, "poll_lengths": waits,
            "oldest_ready": 7_000_000, "hogs": second, "hogging": 1,
            "oldest_hog": 3_000_000_000_u64,
        })
    };
    let worker = serde_json::json!({
        "run_by_class": [0, 500_000_000 * second, 0], "check": 100_000_000 * second,
        "park": 400_000_000 * second, "wall": 1_000_000_000 * second,
    });
    let hog = |line: u64, count: u64, longest: u64| {
        serde_json::json!({
            "spawned_at": { "file": "src/main.rs", "line": line, "column": 1 },
            "future": "app::serve", "class": 1, "count": count, "total": 50_000_000,
            "longest": longest,
        })
    };
    let function = |name: &str, count: u64, longest: u64| {
        serde_json::json!({
            "function": name, "class": 1, "count": count, "ended": count, "total": 50_000_000,
            "longest": longest,
        })
    };
    let more = (0..more).map(|number| class(3 + number, &format!("own-{number}"), 50, 0));
    let mut classes = vec![
        class(0, "urgent", 30, 0),
        class(1, "normal", 50, 750_000_000),
        class(2, "bulk", 20, 250_000_000),
    ];
    classes.extend(more);
    serde_json::from_value(serde_json::json!({
        "taken_at_ms": 1_000_000 + 1_000 * second,
        "process": { "cpu": 700_000_000 * second, "resident": 12_000_000 },
        "workers": [worker, worker],
        "classes": classes,
        "hogs": [hog(7, 1, 50_000_000), hog(8, 9, 9_000_000)],
        "hog_functions": [
            function("app::long", 1, 50_000_000), function("app::often", 9, 9_000_000),
        ],
        "lanes": [{ "name": "blocking", "threads": 1, "limit": 8, "done": 5 * second }],
        "delivery": { "deliveries": 400 * second, "bytes": 584_000 * second },
        "output": { "writes": 20 * second },
        "processors": 4.0,
        "tasks_waiting": 100_000,
    }))
    .unwrap()
}

fn shown() -> Shown {
    Shown {
        name: "127.0.0.1:7070".to_owned(),
        view: View::new(&snapshot(1), &snapshot(3)),
        ..Shown::default()
    }
}

fn drawn(shown: &Shown, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| screen(frame, shown)).unwrap();
    let buffer = terminal.backend().buffer();
    let cells: Vec<_> = buffer.content().iter().map(|cell| cell.symbol()).collect();
    let lines = cells.chunks(width.into());
    lines
        .map(|line| line.concat().trim_end().to_owned() + "\n")
        .collect()
}

#[test]
fn workers_classes_hogs_lanes_and_rates_are_shown() {
    let text = drawn(&shown(), 110, 30);
    for part in [
        "127.0.0.1:7070  up 3.00 s, utilisation 50 %, occupancy 25 %, 70 % of a processor, 12.0 MB",
        "in 400/s, 584 kB/s   out 20/s",
        "polls 3000/s   ready 9   tasks 100 k",
        "normal       50     50 %     75 %     1000     3        7.00 ms  4.00 us  64.0 us  \
         <=64.0 us  2, 3.00 s..",
        "blocking             0/8        0        5",
        "1        50.0 ms  50.0 ms  normal     src/main.rs:7:1 app::serve",
        "q quit",
    ] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
    let bar = text.lines().find(|line| line.starts_with("   0 ")).unwrap();
    let marks = |mark| bar.matches(mark).count();
    assert_eq!((marks('#'), marks('='), marks('~')), (47, 9, 0), "{bar}");
}

#[test]
fn hogs_are_sorted_as_chosen_and_trouble_is_said() {
    let mut shown = shown();
    // Functions first, and then kinds of tasks.
    let rows = |shown: &Shown| -> Vec<String> {
        let text = drawn(shown, 110, 30);
        let (_, hogs) = text.split_once("spawned at").unwrap();
        hogs.lines().skip(1).take(4).map(str::to_owned).collect()
    };
    let are_in_order = |rows: &[String], parts: [&str; 4]| {
        let mut pairs = rows.iter().zip(parts);
        assert!(pairs.all(|(row, part)| row.contains(part)), "{rows:#?}");
    };
    let by_total = ["app::long", "app::often", "main.rs:7", "main.rs:8"];
    are_in_order(&rows(&shown), by_total);
    shown.choices.sort = shown.choices.sort.next();
    let by_polls = ["app::often", "app::long", "main.rs:8", "main.rs:7"];
    are_in_order(&rows(&shown), by_polls);
    shown.choices.sort = shown.choices.sort.next();
    are_in_order(&rows(&shown), by_total);
    shown.choices.paused = true;
    assert!(drawn(&shown, 110, 30).contains("PAUSED"));
    shown.trouble = Some("it is gone".to_owned());
    assert!(drawn(&shown, 110, 30).contains("it is gone"));
}

#[test]
fn the_busiest_tasks_take_the_place_of_the_hogs() {
    let mut shown = shown();
    shown.choices.tasks = true;
    let text = drawn(&shown, 110, 30);
    assert!(text.contains("waiting for the tasks"), "{text}");
    let task = |run: u64| {
        serde_json::from_value(serde_json::json!({
            "id": "7f00", "class": 1, "name": null,
            "spawned_at": { "file": "src/main.rs", "line": 9, "column": 5 },
            "future": "app::serve", "state": "waiting", "since": 5, "polls": 4,
            "run": run, "longest": 2_000_000,
        }))
        .unwrap()
    };
    shown.tasks.busy = Some(busiest(&[task(1_000_000)], &[task(4_000_000)]));
    let text = drawn(&shown, 110, 30);
    let row = "3.00 ms  -        0        2.00 ms  waiting  normal     src/main.rs:9:5 app::serve";
    assert!(text.contains(row), "{row} is not in\n{text}");
    assert!(!text.contains("main.rs:7"), "a hog is in\n{text}");
    shown.tasks = Tasks {
        are_unknown: true,
        ..Tasks::default()
    };
    assert!(drawn(&shown, 110, 30).contains("not known here"));
}

#[test]
fn of_many_classes_those_up_to_the_chosen_one_are_shown() {
    let mut shown = Shown {
        view: View::new(&snapshot_beside(61, 1), &snapshot_beside(61, 3)),
        ..shown()
    };
    let text = drawn(&shown, 110, 30);
    for part in ["urgent ", "own-6 ", "app::serve", "blocking "] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
    assert!(!text.contains("own-7 "), "{text}");
    shown.choices.class = 63;
    let text = drawn(&shown, 110, 30);
    for part in ["own-51 ", "own-60 ", "app::serve", "blocking "] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
    assert!(!text.contains("own-50 "), "{text}");
}

#[test]
fn a_terminal_of_any_size_will_do() {
    let mut many = shown();
    if let Some(view) = &mut many.view {
        view.workers = vec![[1.0 / 6.0; 6]; 128];
    }
    let choices = Choices::default();
    let none = Shown {
        choices,
        ..Shown::default()
    };
    for (width, height) in [(1, 1), (5, 200), (20, 5), (80, 24), (400, 2)] {
        drawn(&shown(), width, height);
        drawn(&many, width, height);
        drawn(&none, width, height);
    }
}

#[test]
fn a_process_that_was_started_anew_is_not_compared() {
    assert!(View::new(&snapshot(3), &snapshot(1)).is_none());
    assert!(View::new(&snapshot(1), &snapshot(1)).is_none());
    assert!(View::new(&Snapshot::default(), &snapshot(1)).is_none());
    // It has run for longer by now than the one before had.
    let mut other = snapshot(3);
    other.taken_at_ms += 60_000;
    assert!(View::new(&snapshot(1), &other).is_none());
}

/// A snapshot in which all figures are taken from these, one after the other.
fn odd_snapshot(figures: &[u64]) -> Snapshot {
    let mut next = figures.iter().copied().cycle();
    let mut figure = || next.next().unwrap();
    let mut waits = || {
        let mut bucket = || [figure(), figure()];
        serde_json::json!({ "buckets": [bucket(), bucket(), bucket()], "total": bucket()[0] })
    };
    let waits = [waits(), waits(), waits()];
    let small = |figure: u64| u32::try_from(figure).unwrap_or(u32::MAX);
    let mut class = |index: u64| {
        serde_json::json!({
            "class": index, "name": "class", "share": small(figure()), "run": figure(),
            "polls": figure(), "hogs": figure(), "ready": figure(), "waits": waits[0],
            "poll_lengths": waits[1], "oldest_ready": figure(), "hogging": figure(),
            "oldest_hog": figure(),
        })
    };
    let classes = [class(0), class(1), class(2)];
    let mut worker = || {
        serde_json::json!({
            "run_by_class": [figure(), figure(), figure()], "check": figure(), "spin": figure(),
            "park": figure(), "steal": figure(), "lend": figure(), "wall": figure(),
        })
    };
    let workers = [worker(), worker()];
    let mut checks = || serde_json::json!({ "found": figure(), "empty": figure() });
    let checks = serde_json::json!({ "due": checks(), "idle": checks(), "spin": checks() });
    let site = serde_json::json!({ "file": "src/main.rs", "line": 1, "column": 1 });
    serde_json::from_value(serde_json::json!({
        "taken_at_ms": figure(),
        "process": {
            "cpu": figure(), "resident": figure(), "voluntary_switches": figure(),
            "involuntary_switches": figure(),
        },
        "workers": workers, "classes": classes, "checks": checks,
        "hogs": [{
            "spawned_at": site, "future": "f", "class": 1, "count": figure(),
            "total": figure(), "longest": figure(),
        }],
        "hog_functions": [{
            "function": "f", "class": 1, "count": figure(), "ended": figure(), "total": figure(),
            "longest": figure(), "spawned_at": site, "future": "f",
            "spans": [{ "within": "a", "count": figure() }, { "within": "b", "count": figure() }],
            "spans_others": figure(),
        }],
        "heavy": { "hand_offs": figure(), "refused": figure() },
        "lanes": [{
            "name": "lane", "threads": figure(), "limit": figure(), "busy": figure(),
            "queued": figure(), "done": figure(), "refused": figure(), "expired": figure(),
            "waits": waits[2], "runs": waits[0],
        }],
        "delivery": {
            "deliveries": figure(), "bytes": figure(),
            "bytes_per_delivery": { "counts": vec![figure(); 70] },
        },
        "output": { "writes": figure(), "bytes": figure() },
        "readiness": { "events": figure(), "descriptors": figure() },
        "tasks_waiting": figure(), "timers": figure(),
    }))
    .unwrap()
}

fn odd() -> impl proptest::strategy::Strategy<Value = Vec<u64>> {
    use proptest::prelude::*;
    let figure = prop_oneof![
        Just(0),
        Just(1),
        Just(u64::MAX),
        Just(u64::MAX / 2),
        0..10_000_000_000_u64,
        any::<u64>()
    ];
    proptest::collection::vec(figure, 1..120)
}

proptest::proptest! {
    /// A recording may be damaged, or of another version. Whatever its figures are, it is shown.
    #[test]
    fn figures_of_all_sorts_are_shown(before in odd(), now in odd()) {
        let (before, now) = (odd_snapshot(&before), odd_snapshot(&now));
        let mut shown = shown();
        for (before, now) in [(&before, &now), (&now, &now), (&Snapshot::default(), &now)] {
            if let Some(view) = View::new(before, now) {
                crate::plain::line(&view);
                shown.view = Some(view);
                drawn(&shown, 90, 24);
            }
            let _ = now.stats.since(&before.stats).to_string();
            let _ = now.stats.delivery.bytes_per_delivery.quantile(0.5);
        }
    }
}

#[test]
fn a_look_that_was_begun_before_a_key_does_not_undo_its_share() {
    let (mut shown, mut before) = (shown(), Some(snapshot(3)));
    shown.view.as_mut().unwrap().classes[0].share = 33;
    for (second, is_changing, share) in [(4, true, 33), (5, false, 30)] {
        let looked = Looked {
            snapshot: Ok(Some(snapshot(second))),
            tasks: None,
        };
        take(looked, is_changing, &mut shown, &mut before);
        let classes = &shown.view.as_ref().unwrap().classes;
        assert_eq!((classes[0].share, classes[1].share), (share, 50));
    }
}
