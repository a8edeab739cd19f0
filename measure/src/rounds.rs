//! Rounds: the order in which candidates are measured, so that caches, heat and other after-effects
//! of one measurement affect all candidates alike.

/// Measures each candidate once per round, in a different order each round.
///
/// Returns `figures[candidate][round]`, with the candidates as they were given. In each two rounds
/// of two candidates, each is first once. Three candidates go through all six orders in six rounds.
/// In twice as many rounds as there are candidates, each has each place twice.
///
/// # Errors
///
/// The first error of `measure`, which ends the measurement.
///
/// # Examples
///
/// ```
/// let mut log = String::new();
/// let figures = evenkeel_measure::rounds::alternate(2, &["a", "b"], |name| {
///     log.push_str(name);
///     Ok::<_, String>(log.len())
/// })?;
/// assert_eq!(log, "abba");
/// assert_eq!(figures, [[1, 4], [2, 3]]);
/// # Ok::<(), String>(())
/// ```
pub fn alternate<C, T, E>(
    rounds: usize,
    candidates: &[C],
    mut measure: impl FnMut(&C) -> Result<T, E>,
) -> Result<Vec<Vec<T>>, E> {
    run(rounds, candidates, |_, candidate| measure(candidate))
}

/// Like [`alternate`], with the progress on a line of standard error that is cleared at the end.
///
/// # Errors
///
/// The first error of `measure`, which ends the measurement.
pub fn alternate_aloud<C, T, E>(
    name: &str,
    rounds: usize,
    candidates: &[C],
    mut measure: impl FnMut(&C) -> Result<T, E>,
) -> Result<Vec<Vec<T>>, E> {
    let figures = run(rounds, candidates, |round, candidate| {
        eprint!("\r{name}: round {}/{rounds}   ", round + 1);
        measure(candidate)
    });
    eprint!("\r{:60}\r", "");
    figures
}

fn run<C, T, E>(
    rounds: usize,
    candidates: &[C],
    mut measure: impl FnMut(usize, &C) -> Result<T, E>,
) -> Result<Vec<Vec<T>>, E> {
    let mut figures: Vec<_> = candidates
        .iter()
        .map(|_| Vec::with_capacity(rounds))
        .collect();
    for round in 0..rounds {
        for index in order(round, candidates.len()) {
            figures[index].push(measure(round, &candidates[index])?);
        }
    }
    Ok(figures)
}

/// The order of `count` candidates in a round, for who measures by other means than [`alternate`].
/// Each order is followed by its reverse, and the next order starts with the next candidate.
///
/// # Examples
///
/// ```
/// let orders = [0, 1, 2].map(|round| evenkeel_measure::rounds::order(round, 3));
/// assert_eq!(orders, [[0, 1, 2], [2, 1, 0], [1, 2, 0]]);
/// ```
pub fn order(round: usize, count: usize) -> Vec<usize> {
    let mut order: Vec<_> = (0..count).collect();
    order.rotate_left(round / 2 % count.max(1));
    if round % 2 == 1 {
        order.reverse();
    }
    order
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_has_each_place_equally_often() {
        for count in 1..=5 {
            let mut places = vec![vec![0; count]; count];
            for round in 0..2 * count {
                for (place, candidate) in order(round, count).into_iter().enumerate() {
                    places[candidate][place] += 1;
                }
            }
            assert_eq!(places, vec![vec![2; count]; count]);
        }
    }

    #[test]
    fn two_go_first_in_turn_and_three_in_all_orders() {
        let firsts: Vec<_> = (0..8).map(|round| order(round, 2)[0]).collect();
        assert_eq!(firsts, [0, 1, 1, 0, 0, 1, 1, 0]);
        let orders: BTreeSet<_> = (0..6).map(|round| order(round, 3)).collect();
        assert_eq!(orders.len(), 6);
    }

    #[test]
    fn figures_are_by_candidate_and_then_by_round() {
        let mut turn = 0;
        let figures = alternate(3, &["a", "b", "c"], |name| {
            turn += 1;
            Ok::<_, ()>(format!("{name}{turn}"))
        });
        let expected = [["a1", "a6", "a9"], ["b2", "b5", "b7"], ["c3", "c4", "c8"]];
        assert_eq!(figures.unwrap(), expected);
        assert_eq!(
            alternate(3, &[], |(): &()| Ok::<(), ()>(())),
            Ok(Vec::new())
        );
    }

    #[test]
    fn an_error_ends_it() {
        let mut turns = 0;
        let ended = alternate(5, &[1, 2], |candidate| {
            turns += 1;
            if turns == 3 { Err(*candidate) } else { Ok(()) }
        });
        assert_eq!((ended, turns), (Err(2), 3));
    }
}
