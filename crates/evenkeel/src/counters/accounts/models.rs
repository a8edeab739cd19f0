//! Models of the accounts.

use super::*;
use crate::sync::Arc;
use crate::sync::models::{model, role, roles};

/// At every moment, the states add up to wall time. The sum of the states of one reading.
fn sum(times: &Times) -> u64 {
    times.run.iter().sum::<u64>() + times.check + times.spin + times.park + times.steal + times.lend
}

#[test]
fn times_add_up_while_they_are_written() {
    model(|| {
        let accounts = Arc::new(Accounts::new(1));
        accounts.begin(100);
        let (worker, reader) = (Arc::clone(&accounts), Arc::clone(&accounts));
        let worker = role(move || {
            worker.charge(100, 110, State::Steal, State::Park);
            worker.charge(110, 130, State::Park, State::Check);
        });
        let reader = role(move || {
            let times = reader.times(|| 200);
            assert_eq!((sum(&times), times.wall), (100, 100), "{times:?}");
        });
        roles([worker, reader], move |_| {
            let times = accounts.times(|| 200);
            assert_eq!(
                (times.steal, times.park, times.check, times.wall),
                (10, 20, 70, 100)
            );
        })
    });
}
