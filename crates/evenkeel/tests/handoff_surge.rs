//! Hand-off in a surge: tasks that were well behaved begin to block, many at once.

#[path = "support/hang.rs"]
mod hang;
#[path = "support/hogs.rs"]
mod hogs;
mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use evenkeel::runtime::{Builder, Runtime};
use evenkeel::stats::HeavyStats;
use evenkeel::task::JoinHandle;
use hang::{until, watched};
use hogs::{Entrance, Gate, Hold};
use support::within;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

/// Longer than any test takes on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

/// A task that has one poll for each order, such as a connection for each request. With an entrance
/// the poll blocks there. All are of one kind.
struct Server {
    orders: UnboundedSender<Option<Entrance>>,
    polls: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl Server {
    fn start(runtime: &Runtime) -> Self {
        let (orders, mut received) = unbounded_channel::<Option<Entrance>>();
        let polls = Arc::<AtomicUsize>::default();
        let done = Arc::clone(&polls);
        let task = runtime.spawn(async move {
            while let Some(order) = received.recv().await {
                if let Some(entrance) = order {
                    entrance.wait(Hold::Locks);
                }
                done.fetch_add(1, SeqCst);
            }
        });
        Self {
            orders,
            polls,
            task,
        }
    }

    fn order(&self, order: Option<Entrance>) {
        self.orders.send(order).unwrap();
    }

    /// Has a number of short polls, one after the other.
    fn behave(&self, polls: usize) {
        for _ in 0..polls {
            let before = self.polls.load(SeqCst);
            self.order(None);
            until("it is polled", || self.polls.load(SeqCst) > before);
        }
    }

    fn end(self, runtime: &Runtime) {
        drop(self.orders);
        runtime.block_on(within(self.task)).unwrap();
    }
}

fn heavy(runtime: &Runtime) -> HeavyStats {
    runtime.stats().heavy
}

/// Has them all block at the same time, until the others have done `meanwhile`. Returns how many
/// seats were handed over for that.
fn block(runtime: &Runtime, servers: &[Server], meanwhile: impl FnOnce()) -> u64 {
    let before = heavy(runtime).hand_offs;
    let mut gate = Gate::closed();
    for server in servers {
        server.order(Some(gate.entrance()));
    }
    until("all are in their polls", || gate.arrived() == servers.len());
    // The statistics may be older while somebody uses the pool.
    until("a seat is lost", || heavy(runtime).hand_offs > before);
    until("all are found blocked", || {
        heavy(runtime).blocked == servers.len()
    });
    let lost = heavy(runtime).hand_offs - before;
    meanwhile();
    gate.open();
    until("the polls are over", || heavy(runtime).blocked == 0);
    lost
}

#[test]
fn many_that_begin_to_block_at_once_cost_few_seats_each_time() {
    const MANY: usize = 100;
    watched("many", || {
        let runtime = Builder::new().workers(2).build().unwrap();
        let servers: Vec<_> = (0..MANY).map(|_| Server::start(&runtime)).collect();
        for time in 0..2 {
            // The second time all have hogged before. They leave the pool by then.
            servers.iter().for_each(|server| server.behave(10));
            let lost = block(&runtime, &servers, || {});
            assert!(lost <= MANY as u64 / 2, "{lost} seats, time {time}");
        }
        servers.into_iter().for_each(|server| server.end(&runtime));
        runtime.shutdown(LIMIT).unwrap();
    });
}

/// It would wait there until one of those that block is done.
#[test]
fn beside_as_many_as_may_block_no_other_task_is_suspected() {
    const MANY: usize = 16;
    watched("full", || {
        let mut builder = Builder::new();
        let runtime = builder.workers(1).blocked_threads(MANY).build().unwrap();
        let servers: Vec<_> = (0..MANY).map(|_| Server::start(&runtime)).collect();
        servers.iter().for_each(|server| server.behave(2));
        let other = Server::start(&runtime);
        other.behave(2);
        block(&runtime, &servers, || other.behave(20));
        servers.into_iter().for_each(|server| server.end(&runtime));
        other.end(&runtime);
        runtime.shutdown(LIMIT).unwrap();
    });
}
