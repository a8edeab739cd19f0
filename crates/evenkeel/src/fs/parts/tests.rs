//! How long writes are cut up, without files and with one.

use std::io::ErrorKind;

use proptest::prelude::*;

use super::*;

fn parts(whole: bool) -> Parts {
    Parts {
        clock: Clock::start(),
        whole,
    }
}

/// Which parts are asked for, where `answer` says what becomes of each.
fn asked(
    whole: bool,
    (offset, length): (u64, usize),
    mut answer: impl FnMut(usize, Range<usize>) -> io::Result<usize>,
) -> (Vec<Range<usize>>, io::Result<usize>) {
    let mut asked = Vec::new();
    let result = parts(whole).each(offset, length, |part| {
        asked.push(part.clone());
        answer(asked.len() - 1, part)
    });
    (asked, result)
}

fn slowly() {
    std::thread::sleep(4 * CALL);
}

proptest! {
    #[test]
    fn parts_follow_each_other_and_end_with_pages(
        offset in 0_u64..1 << 40,
        length in 1_usize..8 << 20,
    ) {
        let (asked, result) = asked(false, (offset, length), |_, part| Ok(part.len()));
        prop_assert_eq!(result.unwrap(), length);
        let mut done = 0;
        for part in &asked {
            prop_assert_eq!(part.start, done);
            prop_assert!(part.end > part.start);
            prop_assert!(part.end == length || (offset + part.end as u64).is_multiple_of(PAGE));
            done = part.end;
        }
        prop_assert_eq!(done, length);
        prop_assert!(asked[0].len() <= FIRST, "its pace is not known");
    }

    #[test]
    fn the_first_of_some_buffers(
        lengths in prop::collection::vec(0_usize..5, 0..40),
        wanted in 0_usize..100,
    ) {
        let bytes: Vec<u8> = (0..200).collect();
        let mut begins = 0;
        let next = |&length: &usize| {
            begins += length;
            IoSlice::new(&bytes[begins - length..begins])
        };
        let buffers: Vec<_> = lengths.iter().map(next).collect();
        let total: usize = lengths.iter().sum();
        let first = first_of(&buffers, wanted);
        let none_is_empty = first.iter().all(|slice| !slice.is_empty());
        prop_assert!(none_is_empty, "such a write would look like a full device");
        let first: Vec<&[u8]> = first.iter().map(|slice| &**slice).collect();
        prop_assert_eq!(first.concat(), &bytes[..wanted.min(total)]);
    }
}

#[test]
fn a_call_takes_as_many_buffers_as_the_system() {
    let buffers = [IoSlice::new(b"x"); 3_000];
    assert_eq!(first_of(&buffers, 3_000).len(), 1_024);
}

#[test]
fn where_copying_is_slow_parts_are_short() {
    let (asked, result) = asked(false, (0, 1 << 20), |_, part| {
        slowly();
        Ok(part.len())
    });
    assert_eq!(result.unwrap(), 1 << 20);
    let lengths: Vec<_> = asked.iter().map(Range::len).collect();
    assert_eq!(lengths[0], FIRST);
    assert!(
        lengths[1..].iter().all(|&length| length == LEAST),
        "{lengths:?}"
    );
}

#[test]
fn where_copying_is_fast_parts_are_long() {
    let (asked, result) = asked(false, (0, 1 << 30), |_, part| Ok(part.len()));
    assert_eq!(result.unwrap(), 1 << 30);
    // Some may have been interrupted, and so looked slow.
    assert!(asked.len() < 1 << 10, "{} parts", asked.len());
}

#[test]
fn the_pace_is_that_of_the_last_call() {
    let (wanted, copied) = (50, 128 << 10);
    assert_eq!(length_in(wanted, copied, 50), copied);
    assert_eq!(length_in(wanted, copied, 25), 2 * copied);
    assert_eq!(
        length_in(wanted, copied, 5_000),
        LEAST,
        "it waits for something else"
    );
    assert_eq!(length_in(u64::MAX, usize::MAX, 0), usize::MAX);
}

#[test]
fn what_is_to_stay_whole_is_one_call() {
    let (asked, result) = asked(true, (1, 8 << 20), |_, part| {
        slowly();
        Ok(part.len())
    });
    assert_eq!((asked.len(), result.unwrap()), (1, 8 << 20));
    assert_eq!(asked[0], 0..8 << 20);
}

#[test]
fn a_short_write_is_the_last() {
    let (asked, result) = asked(false, (0, 1 << 20), |call, part| {
        Ok(part.len() - usize::from(call == 1))
    });
    assert_eq!((asked.len(), result.unwrap()), (2, asked[1].end - 1));
}

#[test]
fn an_error_is_told_where_nothing_was_written_before_it() {
    let full = || Err(ErrorKind::StorageFull.into());
    let (_, at_once) = asked(false, (0, 1 << 20), |_, _| full());
    assert_eq!(at_once.unwrap_err().kind(), ErrorKind::StorageFull);
    let (asked, later) = asked(false, (0, 1 << 20), |call, part| match call {
        0 => Ok(part.len()),
        _ => full(),
    });
    assert_eq!((asked.len(), later.unwrap()), (2, asked[0].len()));
}

#[test]
fn what_a_signal_interrupts_is_done_again() {
    let (asked, result) = asked(false, (0, 10), |call, part| match call {
        0 => Err(ErrorKind::Interrupted.into()),
        _ => Ok(part.len()),
    });
    assert_eq!((asked, result.unwrap()), (vec![0..10, 0..10], 10));
}

#[test]
fn all_of_nothing_is_written_and_a_full_device_is_an_error() {
    assert!(all(0, |_| unreachable!("there is nothing to write")).is_ok());
    assert_eq!(all(5, |_| Ok(0)).unwrap_err().kind(), ErrorKind::WriteZero);
}

#[test]
fn each_way_of_writing_writes_all() {
    let path = std::env::temp_dir().join(format!("evenkeel-parts-{}", std::process::id()));
    let mut open = File::options();
    let file = (open.read(true).write(true).create(true).truncate(true)).open(&path);
    let mut file = file.unwrap();
    std::fs::remove_file(&path).unwrap();
    let length = (1 << 20) + 77;
    let bytes: Vec<u8> = (0..length).map(|at| (at % 251) as u8).collect();
    let way = parts(false);

    assert_eq!(way.write_at(&file, &bytes, 3).unwrap(), length);
    way.write_all_at(&file, &bytes, 2_000_003).unwrap();
    let mut slices: Vec<_> = bytes.chunks(99).map(IoSlice::new).collect();
    way.write_all_vectored_at(&file, &mut slices, 4_000_003)
        .unwrap();
    file.seek(io::SeekFrom::Start(6_000_003)).unwrap();
    way.write_all(&file, &bytes).unwrap();

    for offset in [3, 2_000_003, 4_000_003, 6_000_003] {
        let mut found = vec![0; length];
        file.read_exact_at(&mut found, offset).unwrap();
        assert!(found == bytes, "what was written at {offset}");
    }
    assert_eq!(file.stream_position().unwrap(), 6_000_003 + length as u64);
}
