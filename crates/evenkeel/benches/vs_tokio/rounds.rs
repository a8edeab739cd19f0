//! Rounds: who is measured when, so that what one leaves behind for the next falls on all alike.

use std::io;

/// Something of each that is measured.
pub(crate) struct Each<T> {
    pub(crate) evenkeel: T,
    pub(crate) tokio: T,
    /// A server without any runtime, where there is one for the load.
    pub(crate) bare: Option<T>,
}

impl<T> Each<T> {
    pub(crate) fn map<U>(&self, change: impl Fn(&T) -> U) -> Each<U> {
        Each {
            evenkeel: change(&self.evenkeel),
            tokio: change(&self.tokio),
            bare: self.bare.as_ref().map(change),
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
    let (mut evenkeel, mut tokio, mut bare) = (None, None, None);
    for index in order(round, if each.bare.is_some() { 3 } else { 2 }) {
        match (index, &each.bare) {
            (0, _) => evenkeel = Some(measure(&each.evenkeel)?),
            (1, _) => tokio = Some(measure(&each.tokio)?),
            (_, contender) => bare = contender.as_ref().map(&mut measure).transpose()?,
        }
    }
    Ok(Each {
        evenkeel: evenkeel.expect("every order holds 0"),
        tokio: tokio.expect("every order holds 1"),
        bare,
    })
}

/// The order of `count` contenders in a round. Each order is followed by its reverse, and the
/// next starts one further on, so that three contenders go through all their six orders.
fn order(round: usize, count: usize) -> Vec<usize> {
    let mut order: Vec<_> = (0..count).collect();
    order.rotate_left(round / 2 % count);
    if round % 2 == 1 {
        order.reverse();
    }
    order
}
