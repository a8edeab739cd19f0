//! What goes, what stays, and that nothing disappears.

use proptest::prelude::*;

use super::*;
use crate::testing::{moment, pictures, second};

/// A group of so many bytes.
fn gop(number: u64, bytes: usize) -> Arc<Gop> {
    let mut gop = Gop::clone(&second(number, moment(), &pictures()));
    gop.footprint = bytes;
    Arc::new(gop)
}

fn backlog(camera_bytes: usize, all_bytes: usize) -> Backlog {
    Backlog::new(Budgets {
        camera_bytes,
        all_bytes,
    })
}

#[test]
fn groups_come_out_as_they_went_in() {
    let mut backlog = backlog(100, 100);
    let slot = backlog.add();
    for number in 0..3 {
        assert!(backlog.push(slot, gop(number, 10)).is_empty());
    }
    for number in 0..3 {
        let taken = backlog.take(slot).unwrap();
        assert_eq!((taken.gop.number, taken.gap), (number, None));
        backlog.done(slot);
    }
    assert!(backlog.take(slot).is_none());
    assert_eq!(backlog.bytes(), 0);
}

#[test]
fn the_oldest_groups_go_and_leave_one_gap() {
    let mut backlog = backlog(30, 1_000);
    let slot = backlog.add();
    let dropped: usize = (0..8)
        .map(|number| backlog.push(slot, gop(number, 10)).len())
        .sum();
    assert_eq!(dropped, 5);
    let taken = backlog.take(slot).unwrap();
    assert_eq!(taken.gop.number, 5);
    let gap = taken.gap.unwrap();
    assert_eq!((gap.reason, gap.gops), (Reason::SlowDisk, 5));
    let second = 1_000_000;
    assert_eq!(gap.until_us - gap.from_us, 5 * second);
    assert!(backlog.take(slot).unwrap().gap.is_none());
}

#[test]
fn a_group_that_is_being_written_counts_and_stays() {
    let mut backlog = backlog(20, 1_000);
    let slot = backlog.add();
    backlog.push(slot, gop(0, 10));
    assert_eq!(backlog.take(slot).unwrap().gop.number, 0);
    backlog.push(slot, gop(1, 10));
    assert_eq!(backlog.push(slot, gop(2, 10)).len(), 1);
    assert_eq!(backlog.waiting(slot).bytes, 20);
    backlog.done(slot);
    assert_eq!(backlog.take(slot).unwrap().gop.number, 2);
}

#[test]
fn a_camera_whose_disk_hangs_pays_for_what_it_holds() {
    let mut backlog = backlog(1_000, 100);
    let (hangs, works) = (backlog.add(), backlog.add());
    for number in 0..20 {
        backlog.push(hangs, gop(number, 10));
        let dropped = backlog.push(works, gop(number, 10));
        assert!(dropped.iter().all(|(slot, _)| *slot == hangs), "{number}");
        assert_eq!(backlog.take(works).unwrap().gop.number, number);
        backlog.done(works);
    }
    assert!(backlog.bytes() <= 100);
}

#[test]
fn what_could_not_be_written_is_in_front_of_what_was_dropped_since() {
    let mut backlog = backlog(20, 1_000);
    let slot = backlog.add();
    backlog.push(slot, gop(0, 10));
    let taken = backlog.take(slot).unwrap();
    for number in 1..4 {
        backlog.push(slot, gop(number, 10));
    }
    backlog.missing(slot, lost(&taken.gop, Reason::WriteFailed));
    backlog.done(slot);
    let gap = backlog.take(slot).unwrap().gap.unwrap();
    assert_eq!((gap.reason, gap.gops), (Reason::WriteFailed, 3));
}

#[derive(Clone, Debug)]
enum Step {
    Push(usize, usize),
    Take(usize),
    Done(usize),
    Replace(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..3_usize, 1..40_usize).prop_map(|(camera, bytes)| Step::Push(camera, bytes)),
        2 => (0..3_usize).prop_map(Step::Take),
        2 => (0..3_usize).prop_map(Step::Done),
        1 => (0..3_usize).prop_map(Step::Replace),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Every group is waiting, being written, written, or in a gap; and no budget is exceeded by
    /// what could be dropped.
    #[test]
    fn nothing_disappears(steps in prop::collection::vec(step(), 0..200)) {
        let mut backlog = backlog(60, 100);
        let mut slots = [backlog.add(), backlog.add(), backlog.add()];
        let (mut pushed, mut taken, mut missing) = ([0; 3], [0; 3], [0; 3]);
        let (mut last, mut held) = ([None; 3], [0; 3]);
        for (number, step) in steps.into_iter().enumerate() {
            match step {
                Step::Push(camera, bytes) => {
                    backlog.push(slots[camera], gop(number as u64, bytes));
                    pushed[camera] += 1;
                }
                Step::Take(camera) if held[camera] == 0 => {
                    if let Some(it) = backlog.take(slots[camera]) {
                        prop_assert!(last[camera] < Some(it.gop.number));
                        last[camera] = Some(it.gop.number);
                        held[camera] = it.gop.footprint;
                        taken[camera] += 1;
                        missing[camera] += it.gap.map_or(0, |gap| gap.gops);
                    }
                }
                Step::Take(_) => {}
                Step::Done(camera) => {
                    backlog.done(slots[camera]);
                    held[camera] = 0;
                }
                Step::Replace(camera) => {
                    backlog.remove(slots[camera]);
                    slots[camera] = backlog.add();
                    (pushed[camera], taken[camera], missing[camera]) = (0, 0, 0);
                    (last[camera], held[camera]) = (None, 0);
                }
            }
            let mut bytes = 0;
            for camera in 0..3 {
                let waiting = backlog.waiting(slots[camera]);
                let known = taken[camera] + waiting.gops as u32 + missing[camera];
                let known = known + waiting.gap.map_or(0, |gap| gap.gops);
                prop_assert_eq!(known, pushed[camera]);
                prop_assert!(waiting.bytes - held[camera] <= 60_usize.saturating_sub(held[camera]));
                bytes += waiting.bytes;
            }
            prop_assert_eq!(bytes, backlog.bytes());
            prop_assert!(bytes <= 100_usize.max(held.iter().sum()));
        }
    }
}
