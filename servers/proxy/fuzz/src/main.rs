//! Properties of the proxy, checked with bytes that libFuzzer makes up: it keeps what reaches code
//! that nothing has reached before, and changes that again.
//!
//! `cargo xtask fuzz` builds it like this (`--cfg evenkeel_fuzz`), and runs it. In an ordinary
//! build the program checks files, as the ones that were found, or what the property begins with:
//! `proxy-fuzz PROPERTY [FILE...]`.
#![cfg_attr(evenkeel_fuzz, no_main)]

#[path = "../../tests/whole/properties.rs"]
mod properties;
mod readings;
mod served;

use properties::{ANSWER, CHUNKS, CONFIGURATION, CONVERSION, PROXY_HEADER, REQUEST};
use served::CONNECTION;
use servers_common::properties::Property;

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

#[cfg(evenkeel_fuzz)]
mod fuzzed {
    //! What libFuzzer calls.

    use std::sync::OnceLock;

    use servers_common::properties::{Property, asked};

    static ASKED: OnceLock<Property> = OnceLock::new();

    fn property() -> &'static Property {
        ASKED.get_or_init(|| asked(&super::PROPERTIES))
    }

    libfuzzer_sys::fuzz_target!(
        init: {
            property();
        },
        |bytes: &[u8]| {
            (property().check)(bytes);
        }
    );
}

#[cfg(not(evenkeel_fuzz))]
fn main() -> std::process::ExitCode {
    let done = servers_common::properties::main(&PROPERTIES);
    served::leave();
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_property_holds_for_the_bytes_that_it_begins_with() {
        for property in PROPERTIES {
            let (taken, seeds) = property.begins();
            let is_of_files = property.name == "configuration";
            assert!(
                taken > 0 || is_of_files,
                "{}: none of {seeds} is taken",
                property.name
            );
        }
        served::leave();
        let left = std::env::temp_dir().join(format!("evenkeel-fuzz-{}", std::process::id()));
        assert!(!left.exists(), "{} is left", left.display());
    }
}
