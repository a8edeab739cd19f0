//! What is deleted next, beside a list of all segments.

use proptest::prelude::*;

use super::*;

const MB: u64 = 1 << 20;

fn segment(start_ms: u64, bytes: u64) -> Closed {
    Closed {
        start_ms,
        length_ms: 60_000,
        bytes,
        gaps: 0,
    }
}

fn minutes(holdings: &mut Holdings, camera: &str, from_ms: u64, count: u64) {
    for minute in 0..count {
        holdings.add(camera, segment(from_ms + minute * 60_000, MB));
    }
}

#[test]
fn what_is_too_old_goes_first() {
    let mut holdings = Holdings::default();
    minutes(&mut holdings, "yard", 10 * DAY_MS, 3);
    minutes(&mut holdings, "door", 12 * DAY_MS, 3);
    let limits = VolumeLimits::default();
    let now = 13 * DAY_MS;
    assert_eq!(holdings.next(&limits, now, None), None);
    holdings.set_limits(
        "door",
        CameraLimits {
            age_max: Some(Duration::from_secs(3_600)),
            bytes_max: None,
        },
    );
    let victim = holdings.next(&limits, now, None).unwrap();
    assert_eq!(
        (&*victim.camera, victim.day_ms, victim.why),
        ("door", 12 * DAY_MS, Why::Age)
    );
    assert_eq!(victim.enough, Enough::Before(now - 3_600_000));
}

#[test]
fn a_camera_has_its_own_limit_and_the_oldest_of_all_make_room() {
    let mut holdings = Holdings::default();
    minutes(&mut holdings, "yard", 10 * DAY_MS, 5);
    minutes(&mut holdings, "door", 9 * DAY_MS, 5);
    holdings.set_limits(
        "yard",
        CameraLimits {
            age_max: None,
            bytes_max: Some(3 * MB),
        },
    );
    let now = 11 * DAY_MS;
    let mut limits = VolumeLimits::default();
    let victim = holdings.next(&limits, now, None).unwrap();
    assert_eq!((&*victim.camera, victim.why), ("yard", Why::CameraSize));
    assert_eq!(victim.enough, Enough::Bytes(2 * MB));
    holdings.set_limits("yard", CameraLimits::default());
    limits.bytes_max = Some(9 * MB);
    let victim = holdings.next(&limits, now, None).unwrap();
    assert_eq!((&*victim.camera, victim.why), ("door", Why::VolumeSize));
    limits.bytes_max = Some(10 * MB);
    assert_eq!(holdings.next(&limits, now, Some(0)), None);
    limits.reserve_bytes = 100;
    assert_eq!(holdings.next(&limits, now, Some(100)), None);
    let victim = holdings.next(&limits, now, Some(99)).unwrap();
    assert_eq!((&*victim.camera, victim.why), ("door", Why::Reserve));
    assert_eq!(holdings.next(&limits, now, None), None);
}

#[test]
fn a_day_that_is_set_aside_is_passed_over() {
    let mut holdings = Holdings::default();
    minutes(&mut holdings, "yard", 10 * DAY_MS, 2);
    minutes(&mut holdings, "yard", 11 * DAY_MS, 2);
    holdings.set_aside("yard", 10 * DAY_MS);
    assert_eq!(holdings.for_room(1).unwrap().day_ms, 11 * DAY_MS);
    holdings.look_again();
    assert_eq!(holdings.for_room(1).unwrap().day_ms, 10 * DAY_MS);
}

#[test]
fn what_is_protected_stays_and_what_is_enough_ends_it() {
    let day: Vec<Closed> = (0..5).map(|minute| segment(minute * 60_000, MB)).collect();
    let starts = |chosen: Vec<Closed>| -> Vec<u64> {
        chosen.iter().map(|it| it.start_ms / 60_000).collect()
    };
    let protected = [Protection {
        from_ms: 60_500,
        until_ms: 120_000,
        id: 0,
    }];
    assert_eq!(
        starts(choose(&day, &protected, Enough::Bytes(2 * MB))),
        [0, 2]
    );
    assert_eq!(starts(choose(&day, &protected, Enough::Bytes(1))), [0]);
    assert_eq!(starts(choose(&day, &[], Enough::Before(120_000))), [0, 1]);
    assert_eq!(starts(choose(&day, &[], Enough::Before(119_999))), [0]);
    assert_eq!(
        starts(choose(&day, &protected, Enough::Before(u64::MAX))),
        [0, 2, 3, 4]
    );
}

proptest! {
    /// Beside a list of all segments: totals agree, and whoever deletes what it is told to ends
    /// within the limits, with the newest segments left.
    #[test]
    fn limits_are_kept_by_deleting_the_oldest(
        starts in prop::collection::btree_set(0..5_000_u64, 0..80),
        camera_max in 0..40_u64,
        volume_max in 0..60_u64,
    ) {
        let mut holdings = Holdings::default();
        let mut all: Vec<(&str, Closed)> = Vec::new();
        for start in starts {
            let camera = if start % 3 == 0 { "a" } else { "b" };
            let segment = segment(start * 600_000, MB);
            holdings.add(camera, segment);
            all.push((camera, segment));
        }
        holdings.set_limits("a", CameraLimits { age_max: None, bytes_max: Some(camera_max * MB) });
        let limits = VolumeLimits { bytes_max: Some(volume_max * MB), reserve_bytes: 0 };
        let before = all.clone();
        while let Some(victim) = holdings.next(&limits, 0, None) {
            let of_day = |(camera, it): &&(&str, Closed)| {
                *camera == victim.camera && day_of(it.start_ms) == victim.day_ms
            };
            let oldest = *all.iter().find(of_day).unwrap();
            all.retain(|it| *it != oldest);
            let next = all.iter().find(of_day).map(|(_, next)| next.start_ms);
            holdings.removed(&victim.camera, oldest.1, next);
        }
        let of_a = |list: &[(&str, Closed)]| list.iter().filter(|it| it.0 == "a").count() as u64;
        prop_assert_eq!(holdings.bytes(), all.len() as u64 * MB);
        prop_assert!(all.len() as u64 <= volume_max && of_a(&all) <= camera_max);
        // No more than it takes: of each camera the newest are left.
        let others = before.len() as u64 - of_a(&before);
        let expected = (of_a(&before).min(camera_max) + others).min(volume_max);
        prop_assert_eq!(all.len() as u64, expected);
        for camera in ["a", "b"] {
            let left: Vec<_> = all.iter().filter(|it| it.0 == camera).collect();
            let newest = before.iter().filter(|it| it.0 == camera).rev().take(left.len());
            prop_assert!(newest.zip(left.iter().rev()).all(|(one, other)| one == *other));
        }
    }
}
