//! Running a model: every interleaving of a few threads, by loom.
//!
//! Loom leaves out interleavings that it takes for equivalent. To decide, it remembers only the
//! latest access to each location. So if one thread only reads a location, and another reads and
//! then changes it, loom sees no conflict if it happened to run the first one first. It starts
//! threads in the order in which they were spawned; so each model runs once for every order of its
//! threads.

use std::task::{Wake, Waker};

use super::thread::{self, Thread};

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: std::sync::Arc<Self>) {
        self.0.unpark();
    }
}

/// Unparks the calling thread through loom, which then sees the order that this makes.
pub(crate) fn waker_of_this_thread() -> Waker {
    Waker::from(std::sync::Arc::new(Unpark(thread::current())))
}

/// The part of one thread in a model.
pub(crate) type Role<R> = Box<dyn FnOnce() -> R + Send>;

/// Checks the outcome after all threads have ended, given their return values.
pub(crate) type Check<R, const N: usize> = Box<dyn FnOnce([R; N])>;

/// Makes a thread's part in a model.
pub(crate) fn role<R>(act: impl FnOnce() -> R + Send + 'static) -> Role<R> {
    Box::new(act)
}

/// The threads of a model, and the check after them.
pub(crate) fn roles<R, const N: usize>(
    roles: [Role<R>; N],
    check: impl FnOnce([R; N]) + 'static,
) -> ([Role<R>; N], Check<R, N>) {
    (roles, Box::new(check))
}

/// Runs the model that `build` makes once for every interleaving, in every order of its threads.
pub(crate) fn model<R, const N: usize>(
    build: impl Fn() -> ([Role<R>; N], Check<R, N>) + Clone + Send + Sync + 'static,
) where
    R: 'static,
{
    run(orders::<N>(), build);
}

/// As [`model`], if the first two roles are the same: leaves out the orders that only swap them.
pub(crate) fn model_with_twins<R, const N: usize>(
    build: impl Fn() -> ([Role<R>; N], Check<R, N>) + Clone + Send + Sync + 'static,
) where
    R: 'static,
{
    let mut orders = orders::<N>();
    orders.retain(|order| order.iter().find(|&&role| role < 2) == Some(&0));
    run(orders, build);
}

fn run<R, const N: usize>(
    orders: Vec<[usize; N]>,
    build: impl Fn() -> ([Role<R>; N], Check<R, N>) + Clone + Send + Sync + 'static,
) where
    R: 'static,
{
    for order in orders {
        let build = build.clone();
        loom::model(move || {
            let (roles, check) = build();
            let mut roles = roles.map(Some);
            let mut threads: [Option<thread::JoinHandle<R>>; N] = [const { None }; N];
            for &index in &order {
                let role = roles[index]
                    .take()
                    .expect("an order names each thread once");
                threads[index] = Some(thread::spawn(role));
            }
            let results = threads.map(|thread| {
                thread
                    .expect("all were started")
                    .join()
                    .expect("a panic ends the model")
            });
            check(results);
        });
    }
}

/// All orders of `0..N`.
fn orders<const N: usize>() -> Vec<[usize; N]> {
    let mut orders: Vec<Vec<usize>> = vec![Vec::new()];
    for next in 0..N {
        let inserted = |order: &Vec<usize>| {
            let order = order.clone();
            (0..=order.len()).map(move |place| {
                let mut longer = order.clone();
                longer.insert(place, next);
                longer
            })
        };
        orders = orders.iter().flat_map(inserted).collect();
    }
    orders
        .into_iter()
        .map(|order| order.try_into().expect("each order has N places"))
        .collect()
}

#[test]
fn models_run_in_every_order() {
    assert_eq!(orders::<2>(), [[1, 0], [0, 1]]);
    let mut three = orders::<3>();
    three.sort_unstable();
    three.dedup();
    assert_eq!(three.len(), 6);
}

/// Needs both orders of its threads, as the module's documentation explains.
#[test]
fn a_model_meets_a_read_before_a_change_and_after_it() {
    use std::collections::HashSet;
    use std::sync::{Arc, Mutex};

    use super::atomic::{AtomicUsize, Ordering};

    // Not loom's mutex: it collects from all interleavings.
    let met = Arc::new(Mutex::new(HashSet::new()));
    let collected = Arc::clone(&met);
    model(move || {
        let value = super::Arc::new(AtomicUsize::new(0));
        let (read, change) = (super::Arc::clone(&value), value);
        let met = Arc::clone(&collected);
        roles(
            [
                role(move || read.load(Ordering::Acquire)),
                role(move || {
                    change.load(Ordering::Acquire);
                    change.fetch_add(1, Ordering::AcqRel)
                }),
            ],
            move |[seen, _]| _ = met.lock().unwrap().insert(seen),
        )
    });
    assert_eq!(met.lock().unwrap().len(), 2);
}
