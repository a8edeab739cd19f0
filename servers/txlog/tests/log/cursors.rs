//! Named cursors: durable when that is said, whole after a crash at any byte, and no danger to
//! records when their file is damaged.

use std::collections::BTreeMap;

use crate::support::memory::{Faults, MemoryDisk};
use crate::support::{Random, check_numbered, crc32, fill, run, small};
use evenkeel::task::JoinSet;
use proptest::prelude::*;
use txlog::figures::ConsumerFigures;
use txlog::log::cursors::{
    CURSOR_SLOTS_AT, CURSORS_MAX, CURSORS_NAME, Place, Places, count_cursors, decode_cursors,
    encode_cursors,
};
use txlog::log::mark::MarkDefect;
use txlog::log::{Log, LogError, backup, repair, restore, verify};
use txlog_client::frame::NAME_BYTES_MAX;

/// Input or output error.
const EIO: i32 = 5;

fn at(sequence: u64) -> Option<Place> {
    Some(Place { epoch: 1, sequence })
}

async fn open(disk: &MemoryDisk) -> Log<MemoryDisk> {
    Log::open(disk.clone(), small()).await.unwrap().0
}

fn id(disk: &MemoryDisk) -> u32 {
    let segment = disk.get(&disk.segments()[0]);
    u32::from_le_bytes(segment[12..16].try_into().unwrap())
}

#[test]
fn cursors_are_what_they_were_put_to_also_after_the_machine_crashed() {
    run(async {
        let mut disk = MemoryDisk::new(1);
        let log = open(&disk).await;
        assert_eq!(log.cursor("none").await.unwrap(), None);
        assert!(
            !disk.names().contains(&CURSORS_NAME.to_owned()),
            "nobody needs it"
        );
        log.put_cursor("a", at(7)).await.unwrap();
        log.put_cursor("b", at(8)).await.unwrap();
        log.put_cursor("a", at(9)).await.unwrap();
        log.put_cursor("c", at(1)).await.unwrap();
        log.put_cursor("c", None).await.unwrap();
        let syncs = disk.syncs_done();
        log.put_cursor("a", at(9)).await.unwrap();
        log.put_cursor("c", None).await.unwrap();
        assert_eq!(disk.syncs_done(), syncs, "it is there already");
        disk.crash();
        let log = open(&disk).await;
        let all = log.cursors().await.unwrap();
        let all: Vec<(&str, u64)> = all.iter().map(|(name, p)| (&**name, p.sequence)).collect();
        assert_eq!(all, [("a", 9), ("b", 8)]);
    });
}

/// Crashes at random moments: all that was acknowledged is there, and what was under way is there
/// as a whole or not at all.
#[test]
fn a_crash_leaves_the_cursors_as_they_were_or_as_they_were_to_be() {
    for seed in 0..crate::support::rounds("TXLOG_CRASH_SEEDS", 60) {
        run(async {
            let mut random = Random::new(seed);
            let mut disk = MemoryDisk::new(seed);
            let (mut acknowledged, mut wanted) = (Places::new(), Places::new());
            for _ in 0..6 {
                let log = open(&disk).await;
                let found = log.cursors().await.unwrap();
                assert!(
                    found == acknowledged || found == wanted,
                    "{found:?} is neither {acknowledged:?} nor {wanted:?}"
                );
                (acknowledged, wanted) = (found.clone(), found);
                // Ended by a sync, or in the middle of a write.
                let by_sync = random.below(2) == 0;
                disk.set_faults(Faults {
                    short: !by_sync || random.below(2) == 0,
                    syncs: by_sync.then(|| (random.below(9), EIO)),
                    writes: (!by_sync).then(|| (random.below(30), EIO)),
                    ..Faults::default()
                });
                for _ in 0..8 {
                    let name = format!("consumer-{}", random.below(4));
                    let place = at(random.below(100)).filter(|_| random.below(4) > 0);
                    match place {
                        Some(place) => drop(wanted.insert(name.clone(), place)),
                        None => drop(wanted.remove(&name)),
                    }
                    if log.put_cursor(&name, place).await.is_err() {
                        break;
                    }
                    acknowledged.clone_from(&wanted);
                }
                disk.crash();
            }
        });
    }
}

/// Whichever bytes of a slot were written, and whichever were not.
#[test]
fn a_write_that_was_cut_anywhere_leaves_the_old_cursors_or_the_new_ones() {
    run(async {
        let disk = MemoryDisk::new(1);
        let log = open(&disk).await;
        log.put_cursor("a", at(7)).await.unwrap();
        log.put_cursor("b", at(8)).await.unwrap();
        let before = disk.get(CURSORS_NAME);
        log.put_cursor("a", at(300)).await.unwrap();
        let after = disk.get(CURSORS_NAME);
        drop(log);
        let cuts = (0..after.len()).filter(|&at| before.get(at) != Some(&after[at]));
        let cuts: Vec<usize> = cuts.collect();
        assert!(cuts.len() > 10);
        let (mut old, mut new) = (0, 0);
        for cut in cuts {
            for is_end in [false, true] {
                let mut torn = before.clone();
                torn.resize(after.len().max(before.len()), 0);
                let range = if is_end { cut..after.len() } else { 0..cut };
                torn[range.clone()].copy_from_slice(&after[range]);
                let disk = disk.copy();
                disk.set(CURSORS_NAME, torn);
                match open(&disk).await.cursor("a").await.unwrap() {
                    place if place == at(7) => old += 1,
                    place if place == at(300) => new += 1,
                    place => panic!("{place:?}"),
                }
            }
        }
        assert!(old > 10 && new > 0, "{old} {new}");
    });
}

#[test]
fn a_file_that_cannot_be_used_is_an_error_and_records_go_on() {
    run(async {
        let whole = MemoryDisk::new(1);
        let log = open(&whole).await;
        fill(&log, 9).await;
        log.put_cursor("a", at(7)).await.unwrap();
        log.close().await.unwrap();
        let other = MemoryDisk::new(1);
        open(&other).await.put_cursor("a", at(7)).await.unwrap();
        let bytes = whole.get(CURSORS_NAME);
        let changed = |change: &dyn Fn(&mut Vec<u8>, usize)| {
            let mut bytes = bytes.clone();
            for at in CURSOR_SLOTS_AT {
                change(&mut bytes, at as usize);
            }
            bytes
        };
        let newer = changed(&|bytes, at| {
            bytes[at + 8] = 2;
            let crc = crc32(&bytes[at..at + 36]);
            bytes[at + 36..at + 40].copy_from_slice(&crc.to_le_bytes());
        });
        for (bytes, expected, advice) in [
            (
                changed(&|bytes, at| bytes[at + 50] ^= 1),
                MarkDefect::Damaged,
                "move it away",
            ),
            (
                changed(&|bytes, at| bytes[at] ^= 1),
                MarkDefect::Damaged,
                "move it away",
            ),
            (Vec::new(), MarkDefect::Damaged, "move it away"),
            (newer, MarkDefect::Newer, "use that version"),
            (
                other.get(CURSORS_NAME),
                MarkDefect::OtherLog,
                "move it away",
            ),
        ] {
            let disk = whole.copy();
            disk.set(CURSORS_NAME, bytes.clone());
            let log = open(&disk).await;
            for error in [
                log.cursor("a").await.unwrap_err(),
                log.put_cursor("a", at(3)).await.unwrap_err(),
                count_cursors(&disk).await.unwrap_err(),
            ] {
                assert!(error.to_string().contains(advice), "{error}");
                let LogError::Cursors { defect } = error else {
                    panic!("{error}")
                };
                assert_eq!(defect, expected);
            }
            assert_eq!(disk.get(CURSORS_NAME), bytes, "nothing was changed");
            fill(&log, 3).await;
            assert_eq!(check_numbered(&log).await, 12);
            verify(&disk, |_, _, _| ()).await.unwrap();
            // Without the file, and without another start.
            disk.take_away(CURSORS_NAME);
            assert_eq!(log.cursor("a").await.unwrap(), None);
            log.put_cursor("a", at(2)).await.unwrap();
            assert_eq!(log.cursor("a").await.unwrap(), at(2));
        }
    });
}

#[test]
fn a_file_that_is_moved_away_while_it_is_used_acknowledges_nothing() {
    run(async {
        let disk = MemoryDisk::new(1);
        let log = open(&disk).await;
        log.put_cursor("a", at(7)).await.unwrap();
        disk.take_away(CURSORS_NAME);
        let error = log.put_cursor("a", at(8)).await.unwrap_err();
        assert!(error.to_string().contains("is missing"), "{error}");
        assert_eq!(log.cursor("a").await.unwrap(), None);
        log.put_cursor("a", at(9)).await.unwrap();
        drop(log);
        assert_eq!(open(&disk).await.cursor("a").await.unwrap(), at(9));
    });
}

#[test]
fn cursors_that_are_put_at_the_same_time_share_a_sync() {
    const COUNT: u64 = 200;
    run(async {
        let disk = MemoryDisk::new(1);
        let log = open(&disk).await;
        log.put_cursor("first", at(1)).await.unwrap();
        let before = disk.syncs_done();
        let mut tasks = JoinSet::new();
        for number in 0..COUNT {
            let log = log.clone();
            tasks.spawn(async move {
                log.put_cursor(&format!("c{number}"), at(number))
                    .await
                    .unwrap();
                // As far as it was acknowledged.
                assert_eq!(log.cursor(&format!("c{number}")).await.unwrap(), at(number));
            });
        }
        while let Some(task) = tasks.join_next().await {
            task.unwrap();
        }
        let syncs = disk.syncs_done() - before;
        assert!(syncs < COUNT / 2, "{syncs} syncs for {COUNT} cursors");
        assert_eq!(log.cursors().await.unwrap().len() as u64, COUNT + 1);
    });
}

#[test]
fn there_is_room_for_as_many_as_there_may_be_and_no_more() {
    run(async {
        let disk = MemoryDisk::new(1);
        let log = open(&disk).await;
        let name = |number: usize| format!("{number:x<NAME_BYTES_MAX$}");
        let mut tasks = JoinSet::new();
        for number in 0..CURSORS_MAX {
            let log = log.clone();
            tasks.spawn(async move { log.put_cursor(&name(number), at(u64::MAX)).await });
        }
        while let Some(task) = tasks.join_next().await {
            task.unwrap().unwrap();
        }
        let error = log.put_cursor("one-more", at(1)).await.unwrap_err();
        assert!(matches!(error, LogError::TooManyCursors { .. }), "{error}");
        log.put_cursor(&name(7), at(3)).await.unwrap();
        drop(log);
        let log = open(&disk).await;
        assert_eq!(log.cursors().await.unwrap().len(), CURSORS_MAX);
        assert_eq!(log.cursor(&name(7)).await.unwrap(), at(3));
        log.put_cursor(&name(7), None).await.unwrap();
        log.put_cursor("one-more", at(1)).await.unwrap();
    });
}

#[test]
fn a_failed_sync_acknowledges_nothing_and_the_next_one_goes_on() {
    run(async {
        let mut disk = MemoryDisk::new(3);
        let log = open(&disk).await;
        log.put_cursor("a", at(1)).await.unwrap();
        disk.set_faults(Faults {
            syncs: Some((0, EIO)),
            ..Faults::default()
        });
        log.put_cursor("a", at(2)).await.unwrap_err();
        assert_eq!(log.cursor("a").await.unwrap(), at(1), "it is not durable");
        log.put_cursor("a", at(3)).await.unwrap();
        disk.crash();
        assert_eq!(open(&disk).await.cursor("a").await.unwrap(), at(3));
    });
}

#[test]
fn a_cursor_that_could_not_be_written_is_written_when_it_is_put_there_again() {
    run(async {
        let mut disk = MemoryDisk::new(3);
        let log = open(&disk).await;
        log.put_cursor("a", at(1)).await.unwrap();
        disk.set_faults(Faults {
            syncs: Some((0, EIO)),
            ..Faults::default()
        });
        log.put_cursor("a", at(2)).await.unwrap_err();
        log.put_cursor("a", at(2)).await.unwrap();
        disk.crash();
        assert_eq!(open(&disk).await.cursor("a").await.unwrap(), at(2));
    });
}

/// Its making has steps, each of which may fail, and the next cursor is to go on from there.
#[test]
fn a_file_that_could_not_be_made_is_made_for_the_next_cursor() {
    let syncs = |syncs| Faults {
        syncs: Some((syncs, EIO)),
        ..Faults::default()
    };
    let writes = |writes| Faults {
        writes: Some((writes, EIO)),
        ..Faults::default()
    };
    let names = Faults {
        name_syncs: Some((0, EIO)),
        ..Faults::default()
    };
    for faults in [syncs(0), syncs(1), writes(0), writes(1), names] {
        run(async {
            let mut disk = MemoryDisk::new(3);
            let log = open(&disk).await;
            disk.set_faults(faults);
            log.put_cursor("a", at(1)).await.unwrap_err();
            assert_eq!(log.cursor("a").await.unwrap(), None, "{faults:?}");
            disk.set_faults(Faults::default());
            log.put_cursor("b", at(2)).await.unwrap();
            disk.crash();
            let all = open(&disk).await.cursors().await.unwrap();
            let all: Vec<_> = all.into_iter().collect();
            let put = [("a", at(1)), ("b", at(2))];
            let put = put.map(|(name, place)| (name.to_owned(), place.unwrap()));
            assert_eq!(all, put, "both were wanted: {faults:?}");
        });
    }
}

#[test]
fn cursors_that_cannot_be_read_are_said_to_be_until_they_can() {
    run(async {
        let disk = MemoryDisk::new(1);
        let log = open(&disk).await;
        assert_eq!(log.figures().are_cursors_unreadable, None, "nobody looked");
        log.put_cursor("a", at(1)).await.unwrap();
        assert_eq!(log.figures().are_cursors_unreadable, Some(false));
        drop(log);
        disk.set(CURSORS_NAME, vec![7; 100]);
        let log = open(&disk).await;
        log.maintain().await.unwrap();
        let figures = log.figures();
        assert_eq!(figures.are_cursors_unreadable, Some(true));
        assert_eq!(figures.consumers, None, "nothing is known of them");
        // The operator moves it away, and no consumer has come yet.
        disk.take_away(CURSORS_NAME);
        log.maintain().await.unwrap();
        let figures = log.figures();
        assert_eq!(figures.are_cursors_unreadable, Some(false));
        assert_eq!(figures.consumers, Some(ConsumerFigures::default()));
    });
}

/// A slot that was read may be only in the system's memory, as its sync failed before the process
/// ended. It is made durable before the other one is overwritten.
#[test]
fn a_slot_that_was_read_is_on_the_disk_before_the_other_is_written() {
    for seed in 0..100 {
        run(async {
            let mut disk = MemoryDisk::new(seed);
            let log = open(&disk).await;
            // The last of these is in the second slot, and the first one has an older one.
            for sequence in 1..=3 {
                log.put_cursor("a", at(sequence)).await.unwrap();
            }
            disk.set_faults(Faults {
                syncs: Some((0, EIO)),
                ..Faults::default()
            });
            log.put_cursor("a", at(4)).await.unwrap_err();
            drop(log);
            let log = open(&disk).await;
            let found = log.cursor("a").await.unwrap();
            assert_eq!(found, at(4), "as the system has it");
            // Each sync may be the last call before the crash, or each write, of a part.
            disk.set_faults(Faults {
                short: true,
                syncs: (seed % 2 == 0).then_some((seed / 2 % 3, EIO)),
                writes: (seed % 2 == 1).then_some((seed / 2 % 5, EIO)),
                ..Faults::default()
            });
            let put = log.put_cursor("a", at(5)).await;
            disk.crash();
            let kept = open(&disk).await.cursor("a").await.unwrap();
            let sequence = kept.expect("one of them").sequence;
            assert!(
                (3..=5).contains(&sequence) && (put.is_err() || sequence == 5),
                "{kept:?}"
            );
        });
    }
}

#[test]
fn copies_of_a_log_have_no_cursors_and_a_repaired_one_has_those_of_its_old_epoch() {
    run(async {
        let disk = MemoryDisk::new(1);
        let log = open(&disk).await;
        fill(&log, 9).await;
        log.put_cursor("a", at(7)).await.unwrap();
        log.close().await.unwrap();
        drop(log);
        let (copy, restored) = (MemoryDisk::new(2), MemoryDisk::new(3));
        backup(&disk, &copy, None).await.unwrap();
        restore(&copy, &restored).await.unwrap();
        for disk in [&copy, &restored] {
            assert!(!disk.names().contains(&CURSORS_NAME.to_owned()));
        }
        assert_eq!(open(&restored).await.cursor("a").await.unwrap(), None);
        let newest = disk.segments().last().unwrap().clone();
        disk.take_away(&newest);
        repair(&disk).await.unwrap().unwrap();
        let log = open(&disk).await;
        assert!(log.identity().epoch > 1);
        assert_eq!(log.cursor("a").await.unwrap(), at(7), "in epoch 1");
    });
}

fn places() -> impl Strategy<Value = Places> {
    let name = "[a-zA-Z0-9_][a-zA-Z0-9._-]{0,63}";
    let place = any::<(u64, u64)>().prop_map(|(epoch, sequence)| Place { epoch, sequence });
    prop::collection::btree_map(name, place, 0..9).prop_map(BTreeMap::from)
}

proptest! {
    #[test]
    fn a_slot_is_what_was_written_or_an_error(
        places in places(),
        (log_id, serial) in any::<(u32, u64)>(),
        at in any::<prop::sample::Index>(),
        flip in 1..=255_u8,
    ) {
        let bytes = encode_cursors(log_id, serial, &places);
        prop_assert_eq!(decode_cursors(&bytes, log_id), Ok((places, serial)));
        prop_assert_eq!(decode_cursors(&bytes, !log_id), Err(MarkDefect::OtherLog));
        prop_assert!(decode_cursors(&bytes[..at.index(bytes.len())], log_id).is_err());
        let mut changed = bytes.to_vec();
        let at = at.index(changed.len());
        changed[at] ^= flip;
        prop_assert!(decode_cursors(&changed, log_id).is_err());
    }

    #[test]
    fn any_bytes_are_cursors_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = decode_cursors(&bytes, 1);
    }
}

#[test]
fn slots_of_a_log_name_it() {
    run(async {
        let disk = MemoryDisk::new(1);
        open(&disk).await.put_cursor("a", at(1)).await.unwrap();
        let bytes = disk.get(CURSORS_NAME);
        let slot = &bytes[CURSOR_SLOTS_AT[1] as usize..];
        let (places, serial) = decode_cursors(slot, id(&disk)).unwrap();
        assert_eq!((places.len(), serial), (1, 1));
        assert_eq!(count_cursors(&disk).await.unwrap(), 1);
    });
}
