//! Ranges and gaps.

use super::*;

fn piece(from_ms: u64, until_ms: u64, before: Option<Gap>) -> Piece {
    Piece {
        range: Range {
            from_ms,
            until_ms,
            bytes: 1,
        },
        before,
    }
}

fn gap() -> Option<Gap> {
    Some(Gap {
        reason: Reason::SlowDisk,
        gops: 2,
        bytes: 3,
        from_us: 4,
        until_us: 5,
    })
}

#[test]
fn segments_that_follow_each_other_are_one_range() {
    let pieces = vec![
        piece(120_000, 180_000, None),
        piece(0, 60_000, None),
        piece(60_040, 119_500, None),
    ];
    let (ranges, missing) = joined(pieces);
    assert_eq!((ranges.len(), missing.len()), (1, 0));
    assert_eq!(
        (ranges[0].from_ms, ranges[0].until_ms, ranges[0].bytes),
        (0, 180_000, 3)
    );
}

#[test]
fn a_pause_is_a_gap_and_says_why_if_that_is_known() {
    let pieces = vec![
        piece(0, 10_000, None),
        piece(14_000, 20_000, gap()),
        piece(50_000, 60_000, None),
    ];
    let (ranges, missing) = joined(pieces);
    assert_eq!((ranges.len(), missing.len()), (3, 2));
    let expected = Missing {
        from_ms: 10_000,
        until_ms: 14_000,
        reason: Reason::SlowDisk,
        gops: 2,
    };
    assert_eq!(missing[0], expected);
    assert_eq!((missing[1].reason, missing[1].gops), (Reason::NoStream, 0));
}

#[test]
fn a_short_group_that_is_known_to_be_missing_is_a_gap() {
    let pieces = |before| vec![piece(0, 10_000, None), piece(10_500, 20_000, before)];
    assert_eq!(joined(pieces(None)).0.len(), 1);
    assert_eq!(joined(pieces(gap())).0.len(), 2);
}

#[test]
fn gaps_stand_before_what_came_after_them() {
    let line = |number: u32, start_ms: i64| {
        Entry::Fragment(Line {
            number,
            begins_with_key: true,
            offset: 0,
            len: 7,
            checksum: 0,
            start_us: start_ms * 1000,
            duration_us: 1_000_000,
            monotonic_us: 0,
            wall_us: 0,
            synced: 0,
        })
    };
    let missing = Entry::Gap(gap().unwrap());
    let mut pieces = Vec::new();
    add(
        &mut pieces,
        &[
            missing,
            missing,
            line(1, 0),
            line(2, 1_000),
            missing,
            line(3, 3_000),
        ],
    );
    let before: Vec<_> = pieces
        .iter()
        .map(|it| it.before.map(|gap| gap.gops))
        .collect();
    assert_eq!(before, [Some(4), None, Some(2)]);
    assert_eq!(joined(pieces).1.len(), 1);
}
