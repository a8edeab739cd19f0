//! Finding records by their time in a store that can only be read by numbers.

use txlog_client::frame::Code;

use super::{Store, StoreError};
use crate::log::ReadLimits;

/// The least that can be read.
const ONE: ReadLimits = ReadLimits {
    records_max: 1,
    bytes_max: 0,
};

/// The number from which on to read records of this time or later, by halving: as many single reads
/// as the number of records has binary digits. If times step back, it is one of the places where
/// they pass this time.
pub(super) async fn by_halves<S: Store>(store: &S, time_ms: u64) -> Result<u64, StoreError> {
    let (mut low, mut high) = store.bounds();
    // All records before `low` are older, or gone; that at `high`, if there is one, is not.
    while low < high {
        let middle = low + (high - low) / 2;
        let found = match store.read(middle, ONE).await {
            // Records have gone meanwhile.
            Err(error) if error.code == Code::Trimmed => {
                let (first, next) = store.bounds();
                low = first.max(middle + 1);
                high = high.max(low).min(next.max(low));
                continue;
            }
            found => found?,
        };
        match found.records.first() {
            Some(record) if record.sequence < high && record.time_ms < time_ms => {
                low = record.sequence + 1;
            }
            // Between the middle and `high` there are none, or it is this one.
            _ => high = middle,
        }
    }
    Ok(low)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::future::{Ready, ready};
    use std::sync::Arc;

    use bytes::Bytes;
    use evenkeel::runtime::Builder;
    use proptest::prelude::*;
    use txlog_client::Record;

    use super::*;
    use crate::store::{Found, Identity};

    /// Records with these numbers and times.
    #[derive(Clone)]
    struct Times(Arc<BTreeMap<u64, u64>>);

    impl Store for Times {
        type Pending = Ready<Result<u64, StoreError>>;
        type PendingBatch = std::future::Ready<Result<crate::log::Stored, StoreError>>;

        async fn submit_batch(
            &self,
            _: crate::log::Batch,
        ) -> Result<Self::PendingBatch, StoreError> {
            unreachable!("nothing is appended here")
        }

        fn batch_bytes_max(&self) -> usize {
            0
        }

        async fn submit(&self, _: Bytes) -> Result<Self::Pending, StoreError> {
            Ok(ready(Err(StoreError::new(Code::Closing, "it is full"))))
        }

        async fn read(&self, from: u64, _: ReadLimits) -> Result<Found, StoreError> {
            let first = self.0.range(from..).next();
            let record = |(&sequence, &time_ms): (&u64, &u64)| Record {
                sequence,
                time_ms,
                payload: Bytes::new(),
            };
            let records: Vec<Record> = first.map(record).into_iter().collect();
            let next = records.last().map_or(from, |record| record.sequence + 1);
            Ok(Found { records, next })
        }

        async fn wait_for(&self, _: u64) {}

        fn bounds(&self) -> (u64, u64) {
            let next = self.0.keys().next_back().map_or(1, |last| last + 1);
            (self.0.keys().next().copied().unwrap_or(next), next)
        }

        fn identity(&self) -> Identity {
            Identity { log: 1, epoch: 1 }
        }

        fn record_bytes_max(&self) -> usize {
            1
        }

        async fn maintain(&self) -> Result<(), StoreError> {
            Ok(())
        }

        async fn close(&self) -> Result<(), StoreError> {
            Ok(())
        }
    }

    fn sought(times: &Times, time_ms: u64) -> u64 {
        let runtime = Builder::new().workers(1).build().unwrap();
        runtime.block_on(by_halves(times, time_ms)).unwrap()
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

        /// Reading from there on gives the same records as looking at each.
        #[test]
        fn it_is_where_looking_at_each_record_leads(
            numbers in prop::collection::btree_set(1..60_u64, 0..20),
            steps in prop::collection::vec(0..3_u64, 20),
            wanted in 0..50_u64,
        ) {
            let mut now = 0;
            let timed = numbers.iter().zip(steps).map(|(&number, step)| {
                now += step;
                (number, now)
            });
            let times = Times(Arc::new(timed.collect()));
            let each = times.0.iter().find(|(_, time)| **time >= wanted);
            let found = sought(&times, wanted);
            prop_assert_eq!(times.0.range(found..).next(), each);
            prop_assert!(found <= times.bounds().1);
        }
    }
}
