//! Where groups go, whatever clocks do.

use super::*;
use crate::testing::{moment, pictures, second};

fn place(timeline: &mut Timeline, number: u64, change: impl FnOnce(&mut Gop)) -> Place {
    let mut gop = Gop::clone(&second(number, moment(), &pictures()));
    change(&mut gop);
    timeline.place(&gop).unwrap()
}

fn cause(place: Place) -> Option<Cause> {
    match place {
        Place::Same(_) => None,
        Place::New(_, cause) => Some(cause),
    }
}

#[test]
fn segments_are_as_long_as_they_are_to_be() {
    let mut timeline = Timeline::new(Duration::from_secs(10));
    let causes: Vec<_> = (0..21)
        .map(|number| cause(place(&mut timeline, number, |_| {})))
        .collect();
    for (number, cause) in causes.into_iter().enumerate() {
        let expected = match number {
            0 => Some(Cause::First),
            10 | 20 => Some(Cause::Full),
            _ => None,
        };
        assert_eq!(cause, expected, "{number}");
    }
}

#[test]
fn a_full_segment_goes_on_until_a_key_frame() {
    let mut timeline = Timeline::new(Duration::from_secs(1));
    place(&mut timeline, 0, |_| {});
    let without = place(&mut timeline, 3, |gop| gop.begins_with_key = false);
    assert_eq!(cause(without), None);
    assert_eq!(cause(place(&mut timeline, 4, |_| {})), Some(Cause::Full));
}

#[test]
fn a_clock_that_is_set_begins_a_segment_and_a_late_group_does_not() {
    let late = Duration::from_millis(900);
    let mut timeline = Timeline::new(Duration::from_secs(60));
    let first = place(&mut timeline, 0, |_| {});
    let held_up = place(&mut timeline, 1, |gop| {
        gop.start.wall += late;
        gop.start.monotonic += late;
    });
    assert_eq!(held_up, Place::Same(first.origin()));
    for ahead in [true, false] {
        let mut timeline = Timeline::new(Duration::from_secs(60));
        place(&mut timeline, 0, |_| {});
        let set = place(&mut timeline, 1, |gop| {
            gop.start.wall = if ahead {
                gop.start.wall + late
            } else {
                gop.start.wall - late
            };
        });
        assert_eq!(cause(set), Some(Cause::ClockStep));
        let moved = set.origin().us - first.origin().us;
        assert_eq!(moved, if ahead { 900_000 } else { -900_000 });
    }
}

#[test]
fn new_sessions_and_times_that_jump_begin_segments() {
    let mut timeline = Timeline::new(Duration::from_secs(60));
    place(&mut timeline, 0, |_| {});
    let jumped = place(&mut timeline, 1, |gop| {
        for sample in &mut gop.samples {
            sample.dts += 90_000 * 100;
        }
    });
    assert_eq!(cause(jumped), Some(Cause::TimesJump));
    let other = place(&mut timeline, 2, |gop| gop.generation = 2);
    assert_eq!(cause(other), Some(Cause::Parameters));
    timeline.broke_off();
    let after = place(&mut timeline, 3, |gop| gop.generation = 2);
    assert_eq!(cause(after), Some(Cause::First));
}

#[test]
fn a_clock_that_drifts_is_corrected_between_segments_and_little_at_a_time() {
    // A thousandth too slow: a day would be 86 seconds off.
    let drift = |gop: &mut Gop| {
        let number = i64::try_from(gop.number).unwrap();
        for sample in &mut gop.samples {
            sample.dts -= number * 90;
        }
    };
    let mut timeline = Timeline::new(Duration::from_secs(10));
    let first = place(&mut timeline, 0, |_| {}).origin();
    let mut origin = first;
    for number in 1..500 {
        let place = place(&mut timeline, number, drift);
        let moved = place.origin().us - origin.us;
        match cause(place) {
            None => assert_eq!(moved, 0),
            // Not before 400 ms have come together.
            Some(Cause::Full) if number > 400 => assert!([0, 20_000].contains(&moved), "{moved}"),
            Some(Cause::Full) => assert_eq!(moved, 0, "{number}"),
            other => panic!("{other:?}"),
        }
        origin = place.origin();
    }
    let moved = origin.us - first.us;
    assert!((80_000..=100_000).contains(&moved), "{moved}");
}

#[test]
fn groups_that_are_held_up_now_and_then_move_no_times() {
    let mut timeline = Timeline::new(Duration::from_secs(10));
    let first = place(&mut timeline, 0, |_| {}).origin();
    for number in 1..200 {
        let late = Duration::from_millis(number * 83 % 350);
        let place = place(&mut timeline, number, |gop| {
            gop.start.wall += late;
            gop.start.monotonic += late;
        });
        assert_eq!(place.origin(), first, "{number}");
    }
}
