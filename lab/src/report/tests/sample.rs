//! A report with something of everything, awkward values included.

use serde_json::json;

use crate::report::{
    Bars, Cell, Experiment, Lines, Machine, Outcome, Plot, Report, Table, VERSION, Verdict,
};

pub(super) fn report() -> Report {
    Report {
        version: VERSION,
        moved: None,
        title: "Evenkeel lab".to_owned(),
        rough: None,
        machine: Machine::detect(),
        experiments: vec![
            hogs(),
            busy_wait(),
            Experiment {
                name: "Group commit <&> \"quotes\"".to_owned(),
                claim: "Nothing is acknowledged before its covering sync.".to_owned(),
                how: "Not run: `--only hogs` was given.".to_owned(),
                ..Experiment::default()
            },
        ],
    }
}

pub(super) fn us(value: f64) -> Cell {
    Cell::Number {
        value,
        unit: "us",
        digits: 0,
    }
}

#[expect(clippy::too_many_lines, reason = "a table of figures")]
fn hogs() -> Experiment {
    let row = |name: &str, cells: [f64; 4]| {
        [name.into()]
            .into_iter()
            .chain(cells.map(us))
            .collect::<Vec<Cell>>()
    };
    let missing = || Cell::Missing("haproxy is not installed".to_owned());
    let beside = |scene: &str, values: [f64; 4]| {
        let names = ["evenkeel", "Tokio 1", "Go 1.26", "Erlang/OTP 25"];
        (
            scene.to_owned(),
            names
                .map(str::to_owned)
                .into_iter()
                .zip(values)
                .collect::<Vec<_>>(),
        )
    };
    Experiment {
        name: "Hogs".to_owned(),
        claim:
            "Beside tasks that hog, an echo answers within 1 ms at the 99th percentile, however \
                many they are and however long they compute."
                .to_owned(),
        how: "A probe sends 1 000 echoes a second over one connection, open loop, from another \
              process on core 1; the server has 2 workers. Runs alternate A B A B, 10 s.\n\n\
              Every hog computes for the stated time in each `poll`, then yields."
            .to_owned(),
        tables: vec![Table {
            title: "Echo latency beside hogs".to_owned(),
            columns: [
                "runtime",
                "p50, nothing",
                "p99, nothing",
                "p50, 4 hogs of 10 ms",
                "p99, 4 hogs of 10 ms",
            ]
            .map(str::to_owned)
            .to_vec(),
            rows: vec![
                row("evenkeel", [148.0, 331.0, 151.0, 702.0]),
                row("Tokio 1", [160.0, 331.0, 478_228.0, 999_572.0]),
                row("Go 1.26", [168.0, 964.0, 82_310.0, 557_629.0]),
                row("Erlang/OTP 25", [157.0, 567.0, 37.0, 1_490.0]),
                vec!["HAProxy".into(), missing(), missing(), missing(), missing()],
            ],
        }],
        plots: vec![Plot::Bars(Bars {
            title: "Echo p99 beside hogs".to_owned(),
            unit: "us".to_owned(),
            log: true,
            endless: String::new(),
            groups: vec![
                beside("nothing", [331.0, 331.0, 964.0, 567.0]),
                beside(
                    "4 tasks, each poll 100 us, yielding",
                    [402.0, 1_663.0, 73_450.0, 2_578.0],
                ),
                beside(
                    "4 tasks, each poll 10 ms, yielding",
                    [702.0, 999_572.0, 557_629.0, 1_490.0],
                ),
                beside(
                    "2 tasks that never yield",
                    [688.0, f64::INFINITY, 445_159.0, f64::NAN],
                ),
            ],
        })],
        notes: vec!["Tokio gave no answer beside tasks that never yield: shown as ∞.".to_owned()],
        verdicts: vec![Verdict {
            of: "4 tasks, each poll 10 ms".to_owned(),
            what: "p99 over the lone thread's".to_owned(),
            found: "1.62×".into(),
            reach: "≤ 1.50×".to_owned(),
            outcome: Outcome::Missed,
        }],
        raw: json!({ "seed": 7, "rounds": [[148, 211], [151, 240]] }),
    }
}

fn busy_wait() -> Experiment {
    let levels = ["none", "very_short", "short", "medium", "long", "very_long"];
    let curve = |name: &str, scale: f64, points: i32| {
        let points = (0..points).map(|n| {
            let load = 100.0 * 2f64.powi(n);
            (
                load,
                scale * (120.0 + load / 40.0 + (load / 3_000.0).powi(2)),
            )
        });
        (name.to_owned(), points.collect::<Vec<_>>())
    };
    Experiment {
        name: "Busy wait".to_owned(),
        claim: "Spinning is bought only where it pays: CPU at this load stays below OTP's `none`."
            .to_owned(),
        how: "700 senders of 1 Mbit/s, 10 writes a second each.".to_owned(),
        tables: Vec::new(),
        plots: vec![
            Plot::Bars(Bars {
                title: "CPU used, by busy-wait level".to_owned(),
                unit: "% of one core".to_owned(),
                log: false,
                endless: String::new(),
                groups: levels
                    .iter()
                    .zip([14.25, 22.65, 29.15, 35.57, 40.09, 45.48])
                    .map(|(level, cpu)| ((*level).to_owned(), vec![("cpu".to_owned(), cpu)]))
                    .collect(),
            }),
            Plot::Lines(Lines {
                title: "Wake-up p99 over load".to_owned(),
                x: "writes per second".to_owned(),
                y: "us".to_owned(),
                log_x: true,
                log_y: true,
                series: vec![
                    curve("evenkeel, adaptive", 1.0, 9),
                    curve("evenkeel, none", 1.04, 9),
                    curve("Tokio 1", 1.5, 9),
                    curve("Erlang/OTP 25, medium", 1.6, 8),
                    curve("Go 1.26", 2.9, 7),
                ],
            }),
            cpu_over_time(),
        ],
        notes: vec!["`adaptive` is the default.".to_owned()],
        verdicts: Vec::new(),
        raw: serde_json::Value::Null,
    }
}

/// A series too long for a table, and one with a gap.
fn cpu_over_time() -> Plot {
    let wave = (0..3_000).map(|t| {
        let second = f64::from(t) / 100.0;
        (
            second,
            if t == 1_777 {
                61.0
            } else {
                14.0 + 4.0 * second.sin()
            },
        )
    });
    Plot::Lines(Lines {
        title: "CPU over time".to_owned(),
        x: "seconds".to_owned(),
        y: "% of one core".to_owned(),
        log_x: false,
        log_y: false,
        series: vec![
            ("evenkeel".to_owned(), wave.collect()),
            (
                "gap".to_owned(),
                vec![
                    (0.0, 40.0),
                    (8.0, 42.0),
                    (12.0, f64::NAN),
                    (16.0, 38.0),
                    (24.0, 41.0),
                ],
            ),
        ],
    })
}
