//! What holds for all bytes that a peer, a disk or an operator may give, for mutations and for
//! fuzzing.
//!
//! A [`Property`] has bytes to begin with, and a check that panics where it does not hold. What a
//! check needs to choose, such as where bytes are cut, follows from the bytes ([`chosen`]), so that
//! a failure is found again.
//!
//! `cargo xtask fuzz` builds a server's program of properties with libFuzzer (`--cfg
//! evenkeel_fuzz`), and names one by the variable `EVENKEEL_FUZZ`, and by `EVENKEEL_FUZZ_FOLDER` a
//! folder, into which the bytes to begin with are written. In an ordinary build the program checks
//! files, or what the property begins with ([`main`]).

use std::path::Path;
use std::process::ExitCode;

/// Bytes to begin with, and the check, which returns whether the bytes were taken.
#[derive(Clone, Copy, Debug)]
pub struct Property {
    /// Its name.
    pub name: &'static str,
    /// Bytes to begin with.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Panics where it does not hold.
    pub check: fn(&[u8]) -> bool,
}

impl Property {
    /// One of these.
    pub const fn new(
        name: &'static str,
        seeds: fn() -> Vec<Vec<u8>>,
        check: fn(&[u8]) -> bool,
    ) -> Self {
        Self { name, seeds, check }
    }

    /// How many of the bytes to begin with are taken, and how many there are.
    pub fn begins(&self) -> (usize, usize) {
        let seeds = (self.seeds)();
        let taken = seeds.iter().filter(|bytes| (self.check)(bytes)).count();
        (taken, seeds.len())
    }

    /// Checks it with so many changed bytes, or as many as `EVENKEEL_MUTATIONS` asks for, by the
    /// numbers of `EVENKEEL_SEED`. How many were taken.
    ///
    /// # Panics
    ///
    /// It does not hold, or a variable is no number.
    pub fn holds(&self, usual: u64) -> usize {
        let mut random = Random(setting("EVENKEEL_SEED", 1) | 1 << 40);
        let from = (self.seeds)();
        let all = 0..setting("EVENKEEL_MUTATIONS", usual);
        all.filter(|_| (self.check)(&changed(&mut random, &from)))
            .count()
    }
}

/// A number that follows from the bytes.
pub fn chosen(bytes: &[u8], below: usize) -> usize {
    let mixed = bytes.iter().fold(7_usize, |all, &byte| {
        all.wrapping_mul(31).wrapping_add(usize::from(byte))
    });
    mixed % below.max(1)
}

/// The property of this name; or which there are.
///
/// # Errors
///
/// There is none.
pub fn named(all: &[Property], name: &str) -> Result<Property, String> {
    let names: Vec<&str> = all.iter().map(|property| property.name).collect();
    let found = all.iter().copied().find(|property| property.name == name);
    let names = names.join(", ");
    found.ok_or_else(|| format!("there is no property {name:?}; there are {names}"))
}

/// The property that the environment names, for libFuzzer. Ends the program if there is none.
pub fn asked(all: &[Property]) -> Property {
    let name = std::env::var("EVENKEEL_FUZZ").unwrap_or_default();
    let property = named(all, &name).unwrap_or_else(|error| {
        eprintln!("error: {error}");
        std::process::exit(2);
    });
    if let Some(folder) = std::env::var_os("EVENKEEL_FUZZ_FOLDER") {
        for (index, bytes) in (property.seeds)().iter().enumerate() {
            // The fuzzer says itself if the folder is not there.
            let _ = std::fs::write(Path::new(&folder).join(format!("seed-{index}")), bytes);
        }
    }
    property
}

/// The program of an ordinary build: `PROPERTY [FILE...]`. Where the property does not hold, the
/// program ends.
pub fn main(all: &[Property]) -> ExitCode {
    match checked(all, std::env::args().skip(1)) {
        Ok(said) => {
            println!("{said}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

fn checked(
    all: &[Property],
    mut arguments: impl Iterator<Item = String>,
) -> Result<String, String> {
    let property = named(all, &arguments.next().unwrap_or_default())?;
    let (mut taken, mut count) = (0, 0);
    for file in arguments {
        let bytes = std::fs::read(&file);
        let bytes = bytes.map_err(|error| format!("cannot read {file}: {error}"))?;
        taken += usize::from((property.check)(&bytes));
        count += 1;
    }
    if count == 0 {
        (taken, count) = property.begins();
    }
    let name = property.name;
    Ok(format!(
        "{name}: holds for {count}, of which {taken} are taken"
    ))
}

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
        // What is left is less than a length in memory.
        (self.next() % (end.max(1) as u64)) as usize
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

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Property = Property::new("short", seeds, |bytes| bytes.len() < 8);

    fn seeds() -> Vec<Vec<u8>> {
        vec![b"a few bytes".to_vec(), b"some".to_vec()]
    }

    #[test]
    fn properties_are_found_by_name_and_files_are_checked() {
        let checked = |words: &[&str]| checked(&[SHORT], words.iter().map(ToString::to_string));
        assert_eq!(
            checked(&["short"]).unwrap(),
            "short: holds for 2, of which 1 are taken"
        );
        let error = checked(&["long"]).unwrap_err();
        assert_eq!(error, "there is no property \"long\"; there are short");
        let error = checked(&["short", "/nonexistent/file"]).unwrap_err();
        assert!(
            error.starts_with("cannot read /nonexistent/file: "),
            "{error}"
        );
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path().to_str().unwrap();
        assert_eq!(
            checked(&["short", path]).unwrap(),
            "short: holds for 1, of which 1 are taken"
        );
    }

    #[test]
    fn changed_bytes_are_the_same_for_the_same_seed_and_mostly_differ() {
        let changed = |seed| {
            let mut random = Random(seed);
            let all = (0..100).map(|_| changed(&mut random, &seeds()));
            all.collect::<Vec<_>>()
        };
        assert_eq!(changed(1 << 40), changed(1 << 40));
        assert_ne!(changed(1 << 40), changed(3 << 40));
        let mut all = changed(1 << 40);
        all.sort();
        all.dedup();
        assert!(all.len() > 50, "{}", all.len());
    }
}
