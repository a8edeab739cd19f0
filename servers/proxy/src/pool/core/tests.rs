//! The order of choices, and who is left out.

use proptest::prelude::*;

use super::*;

const NOW: Duration = Duration::from_secs(100);

fn pool(balance: Balance, weights: &[u32]) -> Core {
    let member = |(index, &weight): (usize, &u32)| Member::new(&format!("s{index}"), weight, 1_000);
    let members = weights.iter().enumerate().map(member).collect();
    Core::new(balance, None, members)
}

fn chosen(core: &mut Core, key: u64) -> usize {
    match core.choose(NOW, key, &[]) {
        Choice::Server(index) => index,
        other => panic!("{other:?}"),
    }
}

#[test]
fn turns_are_by_weight_and_spread() {
    let mut core = pool(Balance::RoundRobin, &[5, 1, 1]);
    let turns: Vec<usize> = (0..7).map(|_| chosen(&mut core, 0)).collect();
    assert_eq!(turns, [0, 0, 1, 0, 2, 0, 0]);
}

#[test]
fn the_fewest_connections_for_its_weight_is_taken() {
    let mut core = pool(Balance::LeastConnections, &[1, 1, 2]);
    let mut counts = [0; 3];
    for _ in 0..8 {
        counts[chosen(&mut core, 0)] += 1;
    }
    assert_eq!(counts, [2, 2, 4]);
    core.release(1);
    core.release(1);
    assert_eq!(chosen(&mut core, 0), 1);
}

#[test]
fn equals_take_turns() {
    let mut core = pool(Balance::LeastConnections, &[1, 1, 1]);
    let mut seen = Vec::new();
    for _ in 0..3 {
        let index = chosen(&mut core, 0);
        core.release(index);
        seen.push(index);
    }
    assert_eq!(seen, [0, 1, 2]);
}

#[test]
fn a_server_without_room_is_left_out_and_all_of_them_are_busy() {
    let mut core = pool(Balance::RoundRobin, &[1, 1]);
    core.members[0].active_max = 1;
    core.members[1].active_max = 1;
    let (first, second) = (chosen(&mut core, 0), chosen(&mut core, 0));
    assert_ne!(first, second);
    assert_eq!(core.choose(NOW, 0, &[]), Choice::Busy);
    core.release(first);
    assert_eq!(chosen(&mut core, 0), first);
}

#[test]
fn what_operators_and_checks_say_is_followed() {
    let mut core = pool(Balance::RoundRobin, &[1, 1, 1]);
    core.set_admin(0, Admin::Drain, NOW);
    assert_eq!(core.set_up(1, false, NOW), Change::Down);
    for _ in 0..3 {
        assert_eq!(chosen(&mut core, 0), 2);
    }
    core.set_weight(2, 0);
    assert_eq!(core.choose(NOW, 0, &[]), Choice::NoneUp);
    core.set_admin(0, Admin::Ready, NOW);
    assert_eq!(chosen(&mut core, 0), 0);
}

#[test]
fn checks_count_in_a_row() {
    let mut core = pool(Balance::RoundRobin, &[1]);
    let mut check = |good| core.checked(0, good, (2, 3), NOW);
    let found = [
        false, false, true, false, false, false, true, false, true, true,
    ];
    let changes: Vec<Change> = found.into_iter().map(&mut check).collect();
    let (none, down, up) = (Change::None, Change::Down, Change::Up);
    assert_eq!(
        changes,
        [none, none, none, none, none, down, none, none, none, up]
    );
}

#[test]
fn one_that_was_tried_comes_last() {
    let mut core = pool(Balance::Hash, &[1, 1]);
    let own = chosen(&mut core, 7);
    let other = 1 - own;
    assert_eq!(core.choose(NOW, 7, &[own]), Choice::Server(other));
    assert_eq!(core.choose(NOW, 7, &[own, other]), Choice::Server(own));
}

#[test]
fn a_request_that_is_taken_back_leaves_the_next_one_to_try_an_ejected_server() {
    let mut core = pool(Balance::RoundRobin, &[1, 1]);
    let outliers = toml::from_str("consecutive = 1\nejection = \"10s\"\nejected_percent_max = 50");
    core.limit(1_000, Some(outliers.unwrap()));
    assert_eq!(core.choose(NOW, 0, &[]), Choice::Server(0));
    let verdict = core.outcome(0, false, NOW);
    assert!(matches!(verdict, Verdict::Ejected(_)), "{verdict:?}");
    core.release(0);
    let later = NOW + Duration::from_secs(11);
    let mut tries = || {
        let turns = (0..4).map(|_| core.choose(later, 0, &[]));
        let tries = turns.filter(|&turn| turn == Choice::Server(0)).count();
        (0..tries).for_each(|_| core.release(0));
        tries
    };
    assert_eq!(tries(), 1, "one alone tries it");
    assert_eq!(
        tries(),
        1,
        "and another one when that has ended and said nothing"
    );
}

#[test]
fn a_client_comes_back_to_its_drained_server_also_when_there_is_no_other() {
    let mut core = pool(Balance::RoundRobin, &[1]);
    core.members[0].token = 7;
    core.set_admin(0, Admin::Drain, NOW);
    assert_eq!(core.choose(NOW, 7, &[]), Choice::Server(0));
    assert_eq!(core.choose(NOW, 8, &[]), Choice::NoneUp);
    core.limit(1, None);
    assert_eq!(core.choose(NOW, 7, &[]), Choice::NoneUp, "no room for it");
}

#[test]
fn a_slow_start_grows_to_the_whole_share() {
    let mut core = pool(Balance::RoundRobin, &[1, 1]);
    core.slow_start = Some(Duration::from_secs(10));
    assert_eq!(core.set_up(0, false, NOW), Change::Down);
    assert_eq!(core.set_up(0, true, NOW), Change::Up);
    let mut share = |passed: u64| {
        let now = NOW + Duration::from_secs(passed);
        let mut count = 0;
        for _ in 0..110 {
            if core.choose(now, 0, &[]) == Choice::Server(0) {
                count += 1;
            }
        }
        count
    };
    // 1/101 of 110, 10/110 and half of them.
    assert!(share(0) <= 2);
    assert_eq!(share(1), 10);
    assert_eq!(share(20), 55);
}

#[test]
fn a_slow_start_by_hash_takes_keys_back_one_after_the_other() {
    let mut core = pool(Balance::Hash, &[1, 1]);
    core.slow_start = Some(Duration::from_secs(10));
    assert_eq!(core.set_up(0, false, NOW), Change::Down);
    assert_eq!(core.set_up(0, true, NOW), Change::Up);
    let mut keys = |passed: u64| -> Vec<u64> {
        let now = NOW + Duration::from_secs(passed);
        let of_first = |key: &u64| core.choose(now, mix(*key), &[]) == Choice::Server(0);
        (0..200).filter(of_first).collect()
    };
    let [begin, middle, end] = [0, 3, 20].map(&mut keys);
    assert!(begin.len() < 20 && (20..80).contains(&middle.len()));
    assert!((80..120).contains(&end.len()));
    // None that it has is given away again.
    assert!(begin.iter().all(|key| middle.contains(key)));
    assert!(middle.iter().all(|key| end.contains(key)));
}

proptest! {
    #[test]
    fn the_turns_of_a_round_are_the_weights(
        weights in prop::collection::vec(0..9_u32, 1..6), rounds in 1..4_u32,
    ) {
        prop_assume!(weights.iter().any(|&weight| weight > 0));
        let mut core = pool(Balance::RoundRobin, &weights);
        let mut counts = vec![0; weights.len()];
        for _ in 0..weights.iter().sum::<u32>() * rounds {
            counts[chosen(&mut core, 0)] += 1;
        }
        let expected: Vec<u32> = weights.iter().map(|weight| weight * rounds).collect();
        prop_assert_eq!(counts, expected);
    }

    #[test]
    fn a_server_that_leaves_moves_its_own_keys_alone(
        weights in prop::collection::vec(1..5_u32, 2..6), leaves in 0..6_usize,
        keys in prop::collection::vec(any::<u64>(), 1..50),
    ) {
        let leaves = leaves % weights.len();
        let mut core = pool(Balance::Hash, &weights);
        let before: Vec<usize> = keys.iter().map(|&key| chosen(&mut core, key)).collect();
        let _ = core.set_up(leaves, false, NOW);
        for (&key, &before) in keys.iter().zip(&before) {
            let after = chosen(&mut core, key);
            prop_assert!(before == leaves || after == before);
            prop_assert!(after != leaves);
        }
    }
}

#[test]
fn keys_are_spread_by_weight() {
    let mut core = pool(Balance::Hash, &[1, 3]);
    core.members[0].active_max = usize::MAX;
    core.members[1].active_max = usize::MAX;
    let count = (0..10_000_u64)
        .filter(|key| chosen(&mut core, hash(&key.to_le_bytes())) == 0)
        .count();
    // A quarter; the deviation of such a count is 43.
    assert!((2_280..2_720).contains(&count), "{count}");
}
