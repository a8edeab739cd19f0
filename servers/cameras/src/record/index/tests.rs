//! Indexes that are whole, cut, and damaged.

use proptest::prelude::*;

use super::*;

fn head() -> Head {
    Head {
        cause: Cause::Full,
        init_len: 700,
        init_checksum: 77,
        start_us: 1_764_162_300_000_000,
        monotonic_us: 5,
        origin_us: -3,
        boot_us: 9,
    }
}

/// Fragments that follow each other, and gaps between them.
fn entries() -> impl Strategy<Value = Vec<Entry>> {
    let piece = (
        any::<bool>(),
        1..100_000_u32,
        any::<u32>(),
        any::<i64>(),
        any::<u64>(),
    );
    prop::collection::vec((piece, 0..6_usize, any::<bool>()), 0..40).prop_map(|pieces| {
        let (mut number, mut offset) = (0, 700);
        let mut entries = Vec::new();
        for ((key, len, checksum, time, duration), reason, is_gap) in pieces {
            if is_gap {
                entries.push(Entry::Gap(Gap {
                    reason: Reason::ALL[reason],
                    gops: len,
                    bytes: duration,
                    from_us: time,
                    until_us: time.wrapping_add(1),
                }));
                continue;
            }
            number += 1;
            entries.push(Entry::Fragment(Line {
                number,
                begins_with_key: key,
                offset,
                len,
                checksum,
                start_us: time,
                duration_us: duration,
                monotonic_us: duration / 2,
                wall_us: time / 2,
                synced: number - 1,
            }));
            offset += u64::from(len);
        }
        entries
    })
}

fn written(entries: &[Entry]) -> Vec<u8> {
    let lines = entries.iter().flat_map(Entry::write);
    head().write().into_iter().chain(lines).collect()
}

proptest! {
    #[test]
    fn what_was_written_is_read(entries in entries()) {
        let index = Index::read(&written(&entries)).unwrap();
        prop_assert_eq!(index.head, head());
        prop_assert_eq!(index.entries, entries);
        prop_assert!(!index.has_rest);
    }

    #[test]
    fn a_cut_loses_the_line_that_is_cut_and_no_more(
        entries in entries(),
        cut: prop::sample::Index,
    ) {
        let bytes = written(&entries);
        let cut = cut.index(bytes.len());
        match Index::read(&bytes[..cut]) {
            None => prop_assert!(cut < LINE),
            Some(index) => {
                prop_assert_eq!(&index.entries[..], &entries[..cut / LINE - 1]);
                prop_assert_eq!(index.has_rest, !cut.is_multiple_of(LINE));
            }
        }
    }

    #[test]
    fn a_changed_bit_ends_the_index_where_it_is(
        entries in entries(),
        place: prop::sample::Index,
        bit in 0..8_u8,
    ) {
        let mut bytes = written(&entries);
        let place = place.index(bytes.len());
        bytes[place] ^= 1 << bit;
        match Index::read(&bytes) {
            None => prop_assert!(place < LINE),
            Some(index) => {
                prop_assert_eq!(&index.entries[..], &entries[..place / LINE - 1]);
                prop_assert!(index.has_rest);
            }
        }
    }

    #[test]
    fn nothing_panics(bytes: Vec<u8>) {
        let _ = Index::read(&bytes);
    }
}

#[test]
fn lines_of_an_older_file_are_no_continuation() {
    let line = |number, offset| {
        Entry::Fragment(Line {
            number,
            begins_with_key: true,
            offset,
            len: 10,
            checksum: 0,
            start_us: 0,
            duration_us: 0,
            monotonic_us: 0,
            wall_us: 0,
            synced: 0,
        })
    };
    let read = |entries: &[Entry]| Index::read(&written(entries)).unwrap().entries.len();
    assert_eq!(read(&[line(1, 700), line(2, 710)]), 2);
    assert_eq!(read(&[line(1, 700), line(3, 710)]), 1);
    assert_eq!(read(&[line(1, 700), line(2, 705)]), 1);
    assert_eq!(read(&[line(1, 699)]), 0);
}
