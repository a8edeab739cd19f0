//! Heads, chunks, headers of PROXY and configurations that were changed at random.
//!
//! Some thousand of each in an ordinary run, always the same. For a longer run, and for one that
//! goes by which code the bytes reach:
//!
//! ```sh
//! export EVENKEEL_MUTATIONS=5000000 EVENKEEL_SEED=7
//! cargo test --release -p proxy --test whole -- mutations
//! cargo xtask fuzz request --seconds 600
//! ```

use super::properties::{
    ANSWER, CHUNKS, CONFIGURATION, CONVERSION, PROXY_HEADER, Property, REQUEST,
};

/// Numbers that look random, the same ones for the same seed.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % (end.max(1) as u64)).unwrap()
    }
}

/// Bytes that mean something somewhere.
const TELLING: &[u8] = b"\r\n\t :;,=\"'\\{}[]()#!%@/?&+-_.0149aAxXzZ\0\x0b\x0c\x7f\x80\xff";

/// One of these, changed in some places, or put together from two.
fn changed(random: &mut Random, from: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = from[random.below(from.len())].clone();
    if random.below(4) == 0 {
        let other = &from[random.below(from.len())];
        bytes.truncate(random.below(bytes.len() + 1));
        bytes.extend_from_slice(&other[random.below(other.len() + 1)..]);
    }
    for _ in 0..=random.below(4) {
        let at = random.below(bytes.len() + 1);
        let telling = TELLING[random.below(TELLING.len())];
        match random.below(5) {
            0 => bytes.insert(at, telling),
            1 if at < bytes.len() => bytes[at] = telling,
            2 if at < bytes.len() => drop(bytes.remove(at)),
            3 => {
                let end = (at + random.below(24)).min(bytes.len());
                let part = bytes[at..end].to_vec();
                let to = random.below(bytes.len() + 1);
                bytes.splice(to..to, part);
            }
            _ => {
                let end = (at + random.below(24)).min(bytes.len());
                bytes.drain(at..end);
            }
        }
    }
    bytes
}

fn setting(name: &str, default: u64) -> u64 {
    let text = std::env::var(name).ok();
    text.map_or(default, |text| text.parse().expect("a number"))
}

/// Checks it with so many changed ones, or as many as the environment asks for, of which some have
/// to be taken.
fn holds(usual: u64, taken_min: usize, property: &Property) {
    let mut random = Random(setting("EVENKEEL_SEED", 1) | 1 << 40);
    let from = (property.seeds)();
    let all = 0..setting("EVENKEEL_MUTATIONS", usual);
    let taken = all.filter(|_| (property.check)(&changed(&mut random, &from)));
    let (name, taken) = (property.name, taken.count());
    assert!(taken >= taken_min, "{name}: only {taken} were taken");
}

#[test]
fn a_request_that_is_taken_is_written_so_that_all_read_it_alike() {
    holds(20_000, 100, &REQUEST);
}

#[test]
fn an_answer_is_taken_or_refused() {
    holds(10_000, 100, &ANSWER);
}

#[test]
fn chunks_are_read_alike_however_they_are_cut_and_what_is_passed_on_too() {
    holds(20_000, 100, &CHUNKS);
}

#[test]
fn a_header_of_proxy_is_the_same_when_more_follows() {
    holds(20_000, 100, &PROXY_HEADER);
}

#[test]
fn a_configuration_is_taken_or_every_error_has_its_line() {
    // What is taken names files that are there, of which it has none.
    holds(3_000, 0, &CONFIGURATION);
}

#[test]
fn what_is_converted_without_an_error_is_a_configuration() {
    holds(500, 1, &CONVERSION);
}
