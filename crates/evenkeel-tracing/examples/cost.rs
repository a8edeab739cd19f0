//! What the layer costs: the time to enter and leave a span in a task, and to make one with two
//! fields, in nanoseconds, with the layer and without it, alternately.
//!
//! ```sh
//! cargo run --release --example cost -p evenkeel-tracing
//! ```

use std::hint::black_box;
use std::time::Instant;

use evenkeel::runtime::{Builder, Runtime};
use tracing::subscriber::with_default;
use tracing::{Dispatch, info_span};
use tracing_subscriber::prelude::*;
use tracing_subscriber::registry;

const ROUNDS: usize = 7;
const TIMES: u32 = 200_000;

/// Measures in a task, as only threads that poll tasks keep what they are within.
fn measure(runtime: &Runtime, subscriber: &Dispatch) -> [f64; 2] {
    let subscriber = subscriber.clone();
    let task = runtime.spawn(async move {
        tracing::dispatcher::with_default(&subscriber, || {
            let span = info_span!("request", method = "GET", uri = "/compute");
            let enter = time(|| drop(black_box(span.enter())));
            let make = time(|| {
                let uri = black_box("/compute");
                drop(info_span!("request", method = "GET", uri));
            });
            [enter, make]
        })
    });
    runtime.block_on(task).expect("it does not panic")
}

fn time(work: impl Fn()) -> f64 {
    let began = Instant::now();
    (0..TIMES).for_each(|_| work());
    began.elapsed().as_nanos() as f64 / f64::from(TIMES)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let runtime = Builder::new().workers(1).build()?;
    let subscribers = [
        ("registry", Dispatch::new(registry())),
        (
            "with layer",
            Dispatch::new(registry().with(evenkeel_tracing::layer())),
        ),
    ];
    let mut figures = subscribers.each_ref().map(|_| [Vec::new(), Vec::new()]);
    for _ in 0..ROUNDS {
        for ((_, subscriber), figures) in subscribers.iter().zip(&mut figures) {
            for (figure, figures) in measure(&runtime, subscriber).into_iter().zip(figures) {
                figures.push(figure);
            }
        }
    }
    // No subscriber, and so no spans: what a program pays that has none.
    let none = with_default(tracing::subscriber::NoSubscriber::new(), || {
        let span = info_span!("request", method = "GET", uri = "/compute");
        time(|| drop(black_box(span.enter())))
    });
    println!("medians of {ROUNDS} rounds, in ns:");
    println!("  {:>12}  {:>14}  {:>6}", "", "enter and leave", "make");
    println!("  {:>12}  {none:>15.1}", "no span");
    for ((name, _), figures) in subscribers.iter().zip(&mut figures) {
        let [enter, make] = figures.each_mut().map(|figures| median(figures));
        println!("  {name:>12}  {enter:>15.1}  {make:>6.1}");
    }
    Ok(())
}

fn median(figures: &mut [f64]) -> f64 {
    figures.sort_unstable_by(f64::total_cmp);
    figures[figures.len() / 2]
}
