//! Rounds: who is measured when, so that what one leaves behind for the next falls on all alike.

use std::io;

/// Something of each that is measured.
pub(crate) struct Each<T> {
    pub(crate) evenkeel: T,
    pub(crate) tokio: T,
    /// Servers without any runtime, where there are such for the load.
    pub(crate) limits: Vec<T>,
}

impl<T> Each<T> {
    pub(crate) fn map<U>(&self, change: impl Fn(&T) -> U) -> Each<U> {
        Each {
            evenkeel: change(&self.evenkeel),
            tokio: change(&self.tokio),
            limits: self.limits.iter().map(change).collect(),
        }
    }
}

/// Measures each once a round, in another order every round, and says on stderr how far it is.
pub(crate) fn in_turn<C, T>(
    name: &str,
    rounds: usize,
    each: &Each<C>,
    mut measure: impl FnMut(&C) -> io::Result<T>,
) -> io::Result<Vec<Each<T>>> {
    let mut results = Vec::with_capacity(rounds);
    for round in 0..rounds {
        eprint!("\r{name}: round {}/{rounds}   ", round + 1);
        results.push(one_round(round, each, &mut measure)?);
    }
    eprint!("\r{:60}\r", "");
    Ok(results)
}

fn one_round<C, T>(
    round: usize,
    each: &Each<C>,
    mut measure: impl FnMut(&C) -> io::Result<T>,
) -> io::Result<Each<T>> {
    let contenders: Vec<_> = [&each.evenkeel, &each.tokio]
        .into_iter()
        .chain(&each.limits)
        .collect();
    let mut results: Vec<_> = contenders.iter().map(|_| None).collect();
    for index in order(round, contenders.len()) {
        results[index] = Some(measure(contenders[index])?);
    }
    let mut results = results
        .into_iter()
        .map(|result| result.expect("every order holds each"));
    let mut next = || results.next().expect("a result of each contender");
    Ok(Each {
        evenkeel: next(),
        tokio: next(),
        limits: results.collect(),
    })
}

/// The order of `count` contenders in a round. Each order is followed by its reverse, and the
/// next starts one further on, so that three contenders go through all their six orders, and of
/// more each has each place equally often.
fn order(round: usize, count: usize) -> Vec<usize> {
    let mut order: Vec<_> = (0..count).collect();
    order.rotate_left(round / 2 % count);
    if round % 2 == 1 {
        order.reverse();
    }
    order
}
