//! Properties of the camera server: what holds whatever peers and disks give it.
//!
//! An ordinary run of the tests changes real messages at random some thousand times, always the
//! same ones. For a longer run, and for one that goes by which code the bytes reach:
//!
//! ```sh
//! EVENKEEL_MUTATIONS=5000000 EVENKEEL_SEED=7 cargo test --release -p cameras-fuzz
//! cargo xtask fuzz cameras:media --seconds 600
//! ```
#![cfg_attr(evenkeel_fuzz, no_main)]

mod dialogues;
mod disk;
mod kept;
mod streams;
#[allow(dead_code, reason = "the camera server's tests use more of it")]
#[path = "../../src/testing.rs"]
mod testing;
mod webrtc;

// As the groups of pictures of the camera server's tests call it.
use cameras::media;
use servers_common::properties::Property;

/// All of them.
const PROPERTIES: [Property; 12] = [
    dialogues::WIRE,
    dialogues::SERVER,
    dialogues::CLIENT,
    dialogues::PASSWORDS,
    streams::DESCRIPTION,
    streams::MEDIA,
    streams::PACKETS,
    kept::INDEX,
    kept::RECOVERY,
    kept::CONFIGURATION,
    webrtc::OFFER,
    webrtc::DATAGRAMS,
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
    servers_common::properties::main(&PROPERTIES)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All bytes to begin with are real ones.
    #[test]
    fn every_property_takes_the_bytes_that_it_begins_with() {
        for property in PROPERTIES {
            for seed in (property.seeds)() {
                let (name, shown) = (property.name, seed.escape_ascii());
                assert!((property.check)(&seed), "{name}: {shown}");
            }
        }
    }

    /// Checks a property with so many changed bytes, of which some have to be taken.
    fn holds(property: &Property, usual: u64, taken_min: usize) {
        let taken = property.holds(usual);
        assert!(
            taken >= taken_min,
            "{}: only {taken} were taken",
            property.name
        );
    }

    #[test]
    fn a_stream_is_taken_apart_alike_however_it_comes() {
        holds(&dialogues::WIRE, 10_000, 100);
    }

    #[test]
    fn a_client_is_answered_once_and_gets_nothing_unasked() {
        holds(&dialogues::SERVER, 10_000, 100);
    }

    #[test]
    fn a_camera_is_asked_once_for_each_answer() {
        holds(&dialogues::CLIENT, 10_000, 100);
    }

    #[test]
    fn nobody_gets_in_by_bytes_that_are_made_up() {
        holds(&dialogues::PASSWORDS, 10_000, 100);
    }

    #[test]
    fn what_is_described_can_be_described_again() {
        holds(&streams::DESCRIPTION, 10_000, 100);
    }

    #[test]
    fn media_are_the_same_however_they_come() {
        holds(&streams::MEDIA, 10_000, 100);
    }

    #[test]
    fn packets_are_read_as_they_are_written() {
        holds(&streams::PACKETS, 10_000, 100);
    }

    #[test]
    fn an_index_says_what_was_written() {
        holds(&kept::INDEX, 10_000, 100);
    }

    #[test]
    fn recovery_makes_nothing_that_was_not_written() {
        holds(&kept::RECOVERY, 2_000, 100);
    }

    #[test]
    fn a_configuration_is_taken_or_every_error_has_its_line() {
        holds(&kept::CONFIGURATION, 3_000, 10);
    }

    #[test]
    fn an_offer_is_answered_line_by_line() {
        holds(&webrtc::OFFER, 1_000, 100);
    }

    #[test]
    fn strangers_are_told_nothing_and_end_nothing() {
        holds(&webrtc::DATAGRAMS, 2_000, 100);
    }
}
