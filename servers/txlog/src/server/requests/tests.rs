//! Producers' records in their order, whatever their store refuses.

use std::future::{Ready, pending, ready};
use std::sync::Mutex;

use evenkeel::runtime::Runtime;
use tokio::sync::oneshot;
use txlog_client::frame::{MAY_PASS, Produced};
use txlog_client::{Connect, Session, SessionOptions};

use super::super::{Server, ServerConfig};
use super::*;
use crate::store::Found;

/// A store that knows no numbers of producers, as NATS, and is away for every seventh record.
#[derive(Clone, Default)]
struct Away {
    records: Arc<Mutex<Vec<(Produced, Bytes)>>>,
    came: Arc<Mutex<usize>>,
}

impl Store for Away {
    type Pending = Ready<Result<u64, StoreError>>;
    type PendingBatch = Ready<Result<Stored, StoreError>>;

    async fn submit_batch(&self, batch: Batch) -> Result<Self::PendingBatch, StoreError> {
        if batch.records.iter().count() > 1 {
            return Err(StoreError::new(Code::Unsupported, "one at a time"));
        }
        let mut came = self.came.lock().unwrap();
        *came += 1;
        if came.is_multiple_of(7) {
            return Err(StoreError {
                numbers: Some(MAY_PASS),
                ..StoreError::new(Code::LogFailedBefore, "away")
            });
        }
        let mut records = self.records.lock().unwrap();
        let produced = batch.producer.unwrap();
        let place = records.iter().position(|(other, _)| *other == produced);
        let repeated = place.is_some();
        let place = place.unwrap_or(records.len());
        if !repeated {
            let record = batch.records.iter().next().unwrap();
            records.push((produced, Bytes::copy_from_slice(record)));
        }
        Ok(ready(Ok(Stored {
            first: place as u64 + 1,
            count: 1,
            repeated,
        })))
    }

    fn batch_bytes_max(&self) -> usize {
        1_000
    }

    async fn submit(&self, _: Bytes) -> Result<Self::Pending, StoreError> {
        Err(StoreError::new(Code::Unsupported, "not in this test"))
    }

    async fn read(&self, from: u64, _: ReadLimits) -> Result<Found, StoreError> {
        let records = Vec::new();
        Ok(Found {
            records,
            next: from,
        })
    }

    async fn wait_for(&self, _: u64) {
        pending().await
    }

    fn bounds(&self) -> (u64, u64) {
        (1, self.records.lock().unwrap().len() as u64 + 1)
    }

    fn identity(&self) -> Identity {
        Identity { log: 1, epoch: 0 }
    }

    fn record_bytes_max(&self) -> usize {
        500
    }

    async fn maintain(&self) -> Result<(), StoreError> {
        Ok(())
    }

    async fn close(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

/// A record that a store refused comes again, and what was sent behind it is behind it.
#[test]
fn records_stay_in_their_order_though_their_store_is_away_for_some_of_them() {
    const RECORDS: u64 = 40;
    let store = Away::default();
    let records = Arc::clone(&store.records);
    Runtime::new().unwrap().block_on(async {
        let server = Server::bind("127.0.0.1:0", store, ServerConfig::default()).await;
        let server = server.unwrap();
        let address = server.local_addr().unwrap().to_string();
        let (end, ends) = oneshot::channel::<()>();
        let server = evenkeel::spawn(server.run(async {
            let _ = ends.await;
        }));
        let options = SessionOptions::default();
        let session = Session::open(Connect::new(), [address], options).unwrap();
        let mut pending = Vec::new();
        for number in 1..=RECORDS {
            pending.push(session.submit(number.to_string()).await.unwrap());
        }
        for (number, pending) in (1..).zip(pending) {
            assert_eq!(pending.await.unwrap(), number);
        }
        drop(end);
        server.await.unwrap().unwrap();
    });
    let records = records.lock().unwrap();
    let payloads = records.iter().map(|(_, payload)| payload.clone());
    let expected: Vec<_> = (1..=RECORDS).map(|number| number.to_string()).collect();
    assert_eq!(payloads.collect::<Vec<_>>(), expected);
}
