//! How long compression keeps others waiting: the time of one slice, for each coding.
//!
//! `cargo bench -p proxy --bench compress_slices` compresses ten megabytes of text and of noise. It
//! prints how fast that was, how long a slice took in the middle, at the 99th percentile and at
//! most, and what was left of the bytes.

use std::hint::black_box;
use std::time::{Duration, Instant};

use proxy::compress::{Coding, Encoder};

const SLICE_BYTES: usize = 8 * 1_024;
const BYTES: usize = 10_000_000;

fn main() {
    println!("coding  body    MB/s  slice: p50 us   p99 us   max us  left");
    for (name, body) in [("text", text()), ("noise", noise())] {
        for coding in [Coding::Gzip, Coding::Brotli, Coding::Zstd] {
            measure(name, &body, coding);
        }
    }
}

fn measure(name: &str, body: &[u8], coding: Coding) {
    let Ok(mut encoder) = Encoder::new(coding) else {
        println!("{}: the library has no memory", coding.name());
        return;
    };
    let (mut times, mut out, mut bytes) = (Vec::new(), Vec::new(), 0);
    for slice in body.chunks(SLICE_BYTES) {
        let began = Instant::now();
        let pushed = encoder.push(slice, &mut out);
        times.push(began.elapsed());
        if let Err(error) = pushed {
            println!("{}: {error}", coding.name());
            return;
        }
        bytes += black_box(&out).len();
        out.clear();
    }
    let total: Duration = times.iter().sum();
    times.sort();
    let at = |part: usize| times[(times.len() - 1) * part / 1_000].as_micros();
    println!(
        "{:<6}  {name:<5} {:>6.0} {:>14} {:>8} {:>8}  {:.3}",
        coding.name(),
        body.len() as f64 / total.as_secs_f64() / 1e6,
        at(500),
        at(990),
        at(1_000),
        bytes as f64 / body.len() as f64,
    );
}

/// Words that come again and again, as in a page.
fn text() -> Vec<u8> {
    let words = [
        "<div class=\"row\">",
        "the",
        "server",
        "answers",
        "request",
        "</div>",
        "\n",
        "latency",
        "{\"id\":",
        "\"name\":",
        "proxy",
        "of",
        "and",
        "0x",
        "2026-11-26",
        "true",
    ];
    let mut out = Vec::with_capacity(BYTES);
    let mut random = 1;
    while out.len() < BYTES {
        random = next(random);
        out.extend_from_slice(words[(random >> 33) as usize % words.len()].as_bytes());
        if random >> 60 == 0 {
            out.extend_from_slice(random.to_string().as_bytes());
        }
        out.push(b' ');
    }
    out
}

/// What cannot be compressed.
fn noise() -> Vec<u8> {
    let mut random = 2;
    let mut byte = || {
        random = next(random);
        (random >> 40) as u8
    };
    (0..BYTES).map(|_| byte()).collect()
}

/// The next number of a linear congruential generator (Knuth's MMIX).
fn next(random: u64) -> u64 {
    random
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407)
}
