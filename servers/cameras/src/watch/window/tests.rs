//! The newest parts, and viewers of them.

use bytes::Bytes;

use super::*;

fn head(name: &str) -> Head {
    Head {
        init: Bytes::copy_from_slice(name.as_bytes()),
        kind: name.to_owned(),
        codecs: name.to_owned(),
    }
}

/// A part of 200 ms, of ten bytes.
fn part(place: i64, is_key: bool) -> Part {
    Part {
        bytes: Bytes::from_static(&[0; 10]),
        start_us: place * 200_000,
        duration_us: 200_000,
        is_key,
    }
}

/// Parts with a key frame each second.
fn filled(parts: i64) -> Window {
    let mut window = Window::default();
    window.begin(head("a"));
    for place in 0..parts {
        window.push(part(place, place % 5 == 0), usize::MAX);
    }
    window
}

fn number(next: Next) -> Option<u64> {
    match next {
        Next::Part(placed) | Next::Jump(placed, _) => Some(placed.number),
        Next::Nothing => None,
    }
}

#[test]
fn segments_begin_with_key_frames_and_are_long_enough() {
    let window = filled(24);
    let lengths: Vec<_> = window.segments().map(|it| it.parts.len()).collect();
    assert_eq!(lengths, [10, 10, 4]);
    assert!(window.segments().all(|it| it.parts[0].part.is_key));
    let complete: Vec<_> = window.segments().map(|it| it.is_complete).collect();
    assert_eq!(complete, [true, true, false]);
    let numbers: Vec<_> = window.segments().map(|it| it.number).collect();
    assert_eq!(numbers, [1, 2, 3]);
}

#[test]
fn the_oldest_segments_go_by_time_and_by_bytes() {
    let mut window = filled(1_000);
    let kept: i64 = window.segments().map(Segment::duration_us).sum();
    assert!((12_000_000..=16_000_000).contains(&kept), "{kept}");
    assert_eq!(window.bytes(), usize::try_from(kept / 20_000).unwrap());
    window.trim(150);
    assert!(window.bytes() <= 150 && window.segments().len() >= 1);
    window.trim(0);
    assert_eq!(window.segments().len(), 1);
}

#[test]
fn a_viewer_gets_every_part_in_order() {
    let window = filled(20);
    // It begins with the newest key frame.
    assert_eq!(number(window.after(0, 15)), Some(16));
    for before in 16..20 {
        assert_eq!(
            window.after(before, 15),
            Next::Part(window.part(before + 1).unwrap())
        );
    }
    assert_eq!(window.after(20, 15), Next::Nothing);
}

#[test]
fn a_viewer_that_is_too_slow_goes_on_at_a_key_frame_and_hears_how_much_it_missed() {
    let window = filled(40);
    let Next::Jump(placed, missed) = window.after(20, 15) else {
        panic!("it is 20 parts behind");
    };
    assert!(placed.part.is_key);
    assert_eq!((placed.number, missed), (36, 15));
    assert_eq!(number(window.after(25, 15)), Some(26));
    let mut window = filled(1_000);
    window.trim(0);
    assert!(matches!(window.after(3, u64::MAX), Next::Jump(..)));
}

#[test]
fn a_new_session_is_no_continuation() {
    let mut window = filled(7);
    window.begin(head("b"));
    window.push(part(100, true), usize::MAX);
    let last = window.segments().next_back().unwrap();
    assert!(last.is_discontinuous && last.parts[0].head.kind == "b");
    assert!(window.segments().next().unwrap().is_complete);
    window.trim(0);
    assert_eq!(window.discontinuities_gone(), 0);
    window.end();
    window.push(part(101, true), usize::MAX);
    window.trim(0);
    assert_eq!(window.discontinuities_gone(), 1);
}
