//! Properties of the proxy, checked with bytes that libFuzzer makes up: it keeps what reaches code
//! that nothing has reached before, and changes that again.
//!
//! `cargo xtask fuzz` builds it like this (`--cfg evenkeel_fuzz`), and runs it. In an ordinary
//! build the program checks files, as the ones that were found, or what the property begins with:
//! `proxy-fuzz PROPERTY [FILE...]`.
//!
//! The variable `EVENKEEL_FUZZ` names the property, and `EVENKEEL_FUZZ_FOLDER` a folder, into which
//! the bytes to begin with are written.
#![cfg_attr(evenkeel_fuzz, no_main)]

#[path = "../../tests/whole/properties.rs"]
mod properties;
mod readings;
mod served;

use properties::{ANSWER, CHUNKS, CONFIGURATION, CONVERSION, PROXY_HEADER, Property, REQUEST};
use served::CONNECTION;

/// All of them.
const PROPERTIES: [Property; 7] = [
    REQUEST,
    ANSWER,
    CHUNKS,
    PROXY_HEADER,
    CONFIGURATION,
    CONVERSION,
    CONNECTION,
];

/// The property of this name; or which there are.
fn named(name: &str) -> Result<Property, String> {
    let names = PROPERTIES.map(|property| property.name).join(", ");
    let found = PROPERTIES
        .into_iter()
        .find(|property| property.name == name);
    found.ok_or_else(|| format!("there is no property {name:?}; there are {names}"))
}

#[cfg(evenkeel_fuzz)]
mod fuzzed {
    //! What libFuzzer calls.

    use std::path::Path;
    use std::sync::OnceLock;

    use super::{Property, named};

    static ASKED: OnceLock<Property> = OnceLock::new();

    fn asked() -> Property {
        let name = std::env::var("EVENKEEL_FUZZ").unwrap_or_default();
        named(&name).unwrap_or_else(|error| {
            eprintln!("error: {error}");
            std::process::exit(2);
        })
    }

    /// Writes the bytes to begin with, before the folder is read.
    fn begin() {
        let property = ASKED.get_or_init(asked);
        if let Some(folder) = std::env::var_os("EVENKEEL_FUZZ_FOLDER") {
            for (index, bytes) in (property.seeds)().iter().enumerate() {
                // The fuzzer says itself if the folder is not there.
                let _ = std::fs::write(Path::new(&folder).join(format!("seed-{index}")), bytes);
            }
        }
    }

    libfuzzer_sys::fuzz_target!(init: begin(), |bytes: &[u8]| {
        (ASKED.get_or_init(asked).check)(bytes);
    });
}

#[cfg(not(evenkeel_fuzz))]
fn main() -> std::process::ExitCode {
    match checked(std::env::args().skip(1)) {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            std::process::ExitCode::from(2)
        }
    }
}

/// Checks the files, or what the property begins with; where it does not hold, the program ends.
#[cfg(not(evenkeel_fuzz))]
fn checked(mut arguments: impl Iterator<Item = String>) -> Result<(), String> {
    let property = named(&arguments.next().unwrap_or_default())?;
    let files: Vec<String> = arguments.collect();
    let read = |file: &String| {
        let bytes = std::fs::read(file);
        bytes.map_err(|error| format!("cannot read {file}: {error}"))
    };
    let all = match files.is_empty() {
        true => (property.seeds)(),
        false => files.iter().map(read).collect::<Result<_, _>>()?,
    };
    let taken = all.iter().filter(|bytes| (property.check)(bytes)).count();
    served::leave();
    println!(
        "{}: holds for {}, of which {taken} are taken",
        property.name,
        all.len()
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_property_holds_for_the_bytes_that_it_begins_with() {
        for property in PROPERTIES {
            let seeds = (property.seeds)();
            let taken = seeds.iter().filter(|bytes| (property.check)(bytes)).count();
            let is_of_files = property.name == "configuration";
            assert!(
                taken > 0 || is_of_files,
                "{}: none of {} is taken",
                property.name,
                seeds.len()
            );
        }
        served::leave();
        let left = std::env::temp_dir().join(format!("evenkeel-fuzz-{}", std::process::id()));
        assert!(!left.exists(), "{} is left", left.display());
        let error = named("nothing").err().unwrap_or_default();
        assert!(error.contains("there are request, answer"), "{error}");
    }
}
