//! Models of a task's life: each runs once for every interleaving of its threads.
//!
//! The scheduler is a list, from which any thread runs tasks. Futures, outputs and the scheduler
//! hold a [`Canary`]. It fails the model when two threads touch one of them without order between
//! them, also in its drop, and counts that each is dropped once.
//!
//! Without effect: `drop_join_handle` keeps the flag of its waker, since a task without a join
//! handle does not look at that flag when it completes.

use std::sync::atomic::AtomicUsize as Untracked;

use super::*;
use crate::class::CLASSES_MAX;
use crate::sched::task::join::{AbortHandle, JoinHandle};
use crate::sched::task::registry::Registry;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::models::{Role, model, role, roles, waker_of_this_thread};
use crate::sync::thread;
use crate::sync::{Arc, Mutex};

/// A count of drops. Not loom's atomic, as it is no part of the model.
#[derive(Clone, Default)]
struct Drops(std::sync::Arc<Untracked>);

impl Drops {
    fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

/// See the module's documentation.
struct Canary {
    touched: UnsafeCell<()>,
    drops: Drops,
}

// SAFETY: the models check that no two threads touch it at a time.
unsafe impl Send for Canary {}
// SAFETY: as above.
unsafe impl Sync for Canary {}

impl Canary {
    fn new(drops: &Drops) -> Self {
        Self {
            touched: UnsafeCell::new(()),
            drops: drops.clone(),
        }
    }

    /// May happen at the same time as other looks.
    fn look(&self) {
        self.touched.with(|_| ());
    }
}

impl Drop for Canary {
    fn drop(&mut self) {
        self.touched.with_mut(|_| ());
        self.drops.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// The surroundings of a task.
#[derive(Clone)]
struct World(Arc<Inner>);

struct Inner {
    queue: Mutex<Vec<Runnable>>,
    registry: Registry,
    /// The condition that the future waits for. Relaxed throughout: the wake-up has to make it
    /// visible.
    go: AtomicBool,
    futures: Drops,
    outputs: Drops,
    cells: Drops,
}

/// The scheduler, one copy in each task.
struct Queue {
    world: World,
    canary: Canary,
}

impl Schedule for Queue {
    fn schedule(&self, task: Runnable) {
        self.canary.look();
        let mut queue = self.world.0.queue.lock();
        queue.push(task);
        assert_eq!(queue.len(), 1, "there is one right to run a task");
    }
}

/// Waits until it may go on, and publishes its waker.
struct Waits {
    world: World,
    canary: Canary,
    waker: Arc<Mutex<Option<Waker>>>,
}

impl Future for Waits {
    type Output = Canary;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Canary> {
        self.canary.touched.with_mut(|_| ());
        if self.world.0.go.load(Ordering::Relaxed) {
            return Poll::Ready(Canary::new(&self.world.0.outputs));
        }
        *self.waker.lock() = Some(context.waker().clone());
        Poll::Pending
    }
}

impl World {
    /// A task that has not been polled, in the queue.
    fn with_task() -> (World, JoinHandle<Canary>, Arc<Mutex<Option<Waker>>>) {
        let world = World(Arc::new(Inner {
            queue: Mutex::new(Vec::new()),
            registry: Registry::new(1),
            go: AtomicBool::new(false),
            futures: Drops::default(),
            outputs: Drops::default(),
            cells: Drops::default(),
        }));
        let waker = Arc::new(Mutex::new(None));
        let future = Waits {
            world: world.clone(),
            canary: Canary::new(&world.0.futures),
            waker: Arc::clone(&waker),
        };
        let queue = Queue {
            world: world.clone(),
            canary: Canary::new(&world.0.cells),
        };
        let attributes = Attributes {
            name: None,
            class: Class::NORMAL,
            spawned_at: Location::caller(),
        };
        let (task, join) = new_task(future, queue, attributes);
        world.0.queue.lock().push(task);
        (world, JoinHandle::new(join), waker)
    }

    /// As `with_task`, after a first poll: the task waits, and this is its waker.
    fn with_waiting_task() -> (World, JoinHandle<Canary>, Waker) {
        let (world, join, waker) = Self::with_task();
        world.run_all();
        let waker = waker.lock().take().expect("the first poll leaves a waker");
        (world, join, waker)
    }

    fn go(&self) {
        self.0.go.store(true, Ordering::Relaxed);
    }

    fn run_one(&self) -> bool {
        let registry = &self.0.registry;
        self.run_next(|_| (), |task| registry.insert(task, 0))
    }

    /// As `worker::run` does: whoever has the right to run the task looks for a class that others
    /// want, before the poll and after it.
    fn run_one_and_settle(&self) -> bool {
        let registry = &self.0.registry;
        let settle = |task: &Header| {
            while task.is_wanted()
                && let Some(class) = task.take_wanted()
            {
                registry.change_class(task, class);
            }
        };
        self.run_next(settle, |task| {
            settle(task.header());
            registry.insert(task, 0)
        })
    }

    fn run_next(
        &self,
        before_poll: impl FnOnce(&Header),
        before_wait: impl FnOnce(&Runnable) -> bool,
    ) -> bool {
        let next = self.0.queue.lock().pop();
        let Some(task) = next else { return false };
        let registry = &self.0.registry;
        before_poll(task.header());
        let ran = task.run(before_wait, |header| registry.remove(header));
        if let Ran::Again(task) = ran {
            let mut queue = self.0.queue.lock();
            queue.push(task);
            assert_eq!(queue.len(), 1, "there is one right to run a task");
        }
        true
    }

    fn run_all(&self) {
        while self.run_one() {}
    }

    /// As `runtime::shutdown`, step 3.
    fn drop_waiting(&self) {
        for task in self.0.registry.all() {
            task.cancel_waiting(|header| self.0.registry.remove(header));
        }
    }

    /// Everything that was made for the task has been dropped, once.
    fn assert_all_dropped(&self, outputs: usize) {
        assert_eq!(self.0.registry.len(), 0, "registered tasks");
        assert_eq!(self.0.futures.count(), 1, "drops of the future");
        assert_eq!(self.0.outputs.count(), outputs, "drops of outputs");
        assert_eq!(self.0.cells.count(), 1, "times the memory was freed");
    }
}

/// A waker that wakes no task and counts the drop of its last clone. It has no canary: std orders
/// the clones, which loom does not see.
fn waker_with(drops: &Drops) -> Waker {
    struct Counted(Drops);

    impl std::task::Wake for Counted {
        fn wake(self: std::sync::Arc<Self>) {}
    }

    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    Waker::from(std::sync::Arc::new(Counted(drops.clone())))
}

/// Polls a handle once. Returns it if the task has not completed.
fn poll_once(mut handle: JoinHandle<Canary>, waker: &Waker) -> Option<JoinHandle<Canary>> {
    let poll = Pin::new(&mut handle).poll(&mut Context::from_waker(waker));
    poll.is_pending().then_some(handle)
}

/// Waits for the output as `block_on` does; loom reports a missing wake-up.
fn join(mut handle: JoinHandle<Canary>) -> Result<Canary, JoinError> {
    let waker = waker_of_this_thread();
    loop {
        match Pin::new(&mut handle).poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(result) => return result,
            Poll::Pending => thread::park(),
        }
    }
}

/// The output of a task that must have completed, without waiting.
fn output_of(mut handle: JoinHandle<Canary>) -> Result<Canary, JoinError> {
    match Pin::new(&mut handle).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        Poll::Pending => panic!("the task has not completed"),
    }
}

/// Returns how many outputs there were.
fn assert_output_or_cancelled(result: Result<Canary, JoinError>) -> usize {
    match result {
        Ok(canary) => {
            canary.look();
            1
        }
        Err(error) => {
            assert!(error.is_cancelled(), "{error}");
            0
        }
    }
}

/// The task's output, if a thread of a model got it.
type Learned = Option<Result<Canary, JoinError>>;

fn act(world: &World, act: impl FnOnce(&World) + Send + 'static) -> Role<Learned> {
    let world = world.clone();
    role(move || {
        act(&world);
        None
    })
}

/// A worker that runs the queued tasks.
fn runner(world: &World) -> Role<Learned> {
    act(world, World::run_all)
}

fn joiner(handle: JoinHandle<Canary>) -> Role<Learned> {
    role(move || Some(join(handle)))
}

/// A wake-up before, during or after a poll leads to a poll that sees the writes before the
/// wake-up.
#[test]
fn a_wake_up_is_followed_by_a_poll() {
    model(|| {
        let (world, handle, waker) = World::with_waiting_task();
        // So that a poll is under way, or to come, when the other thread wakes.
        waker.wake_by_ref();
        let waking = act(&world, |world| {
            world.go();
            waker.wake();
        });
        roles([runner(&world), waking], move |_| {
            world.run_all();
            drop(output_of(handle).expect("it was told to go on"));
            world.assert_all_dropped(1);
        })
    });
}

/// A class that another thread wants comes before, during or after a poll. When nothing is left to
/// run, the task is in it, and counted there.
#[test]
fn a_class_that_is_wanted_is_taken_over() {
    model(|| {
        let (world, handle, waker) = World::with_task();
        let changing = act(&world, move |world| {
            handle.change_class(Class::BULK);
            world.run_one_and_settle();
            drop(handle);
        });
        let running = act(&world, |world| _ = world.run_one_and_settle());
        roles([changing, running], move |_| {
            while world.run_one_and_settle() {}
            let by_class = world.0.registry.len_by_class();
            assert_eq!(by_class[..3], [0, 0, 1], "by class");
            world.go();
            let waker = waker.lock().take().expect("a poll leaves a waker");
            waker.wake();
            world.run_all();
            assert_eq!(world.0.registry.len_by_class(), [0; CLASSES_MAX]);
            world.assert_all_dropped(1);
        })
    });
}

/// One thread wants a class and then another one, even the one that the task has: the last is taken
/// over, whatever the runner has read before.
#[test]
fn the_last_class_that_was_wanted_is_taken_over() {
    model(|| {
        let (world, handle, waker) = World::with_task();
        let changing = act(&world, move |_| {
            handle.change_class(Class::BULK);
            handle.change_class(Class::NORMAL);
        });
        let running = act(&world, |world| _ = world.run_one_and_settle());
        roles([changing, running], move |_| {
            while world.run_one_and_settle() {}
            let by_class = world.0.registry.len_by_class();
            assert_eq!(by_class[..3], [0, 1, 0], "by class");
            world.drop_waiting();
            drop(waker);
            world.assert_all_dropped(0);
        })
    });
}

/// Two threads want different classes at a time: one of them is taken over, and no count is off.
#[test]
fn two_classes_are_wanted_at_a_time() {
    model(|| {
        let (world, handle, waker) = World::with_waiting_task();
        let abort = handle.abort_handle();
        let changing = |handle: AbortHandle, class| {
            act(&world, move |world| {
                handle.change_class(class);
                world.run_one_and_settle();
            })
        };
        let threads = [
            changing(abort.clone(), Class::BULK),
            changing(abort, Class::URGENT),
        ];
        roles(threads, move |_| {
            while world.run_one_and_settle() {}
            let by_class = world.0.registry.len_by_class();
            assert!(
                matches!(by_class[..3], [1, 0, 0] | [0, 0, 1]),
                "{by_class:?}"
            );
            world.go();
            waker.wake();
            world.run_all();
            drop(output_of(handle).expect("it was told to go on"));
            assert_eq!(world.0.registry.len_by_class(), [0; CLASSES_MAX]);
            world.assert_all_dropped(1);
        })
    });
}

/// Two threads wake the task, and both run it if it is queued: one thread at a time polls it.
#[test]
fn two_wakers_and_two_runners() {
    model(|| {
        let (world, handle, waker) = World::with_waiting_task();
        let waking = |waker: Waker, goes| {
            act(&world, move |world| {
                if goes {
                    world.go();
                }
                waker.wake();
                world.run_one();
            })
        };
        roles(
            [waking(waker.clone(), true), waking(waker, false)],
            move |_| {
                world.run_all();
                drop(output_of(handle).expect("it was told to go on"));
                world.assert_all_dropped(1);
            },
        )
    });
}

#[test]
fn a_join_is_woken_by_completion() {
    model(|| {
        let (world, handle, _) = World::with_task();
        world.go();
        roles([runner(&world), joiner(handle)], move |[_, result]| {
            result
                .expect("it was joined")
                .expect("it was told to go on")
                .look();
            world.assert_all_dropped(1);
        })
    });
}

/// The handle is polled with one waker and then with another, while the task completes.
#[test]
fn a_join_that_changes_its_waker_is_woken() {
    model(|| {
        let (world, mut handle, _) = World::with_task();
        world.go();
        let first = Pin::new(&mut handle).poll(&mut Context::from_waker(Waker::noop()));
        assert!(first.is_pending());
        roles([runner(&world), joiner(handle)], move |[_, result]| {
            result
                .expect("it was joined")
                .expect("it was told to go on")
                .look();
            world.assert_all_dropped(1);
        })
    });
}

/// The handle goes away while the task completes: with a waker stored, or without.
fn handle_goes_away(polled: bool) {
    model(move || {
        let (world, mut handle, _) = World::with_task();
        world.go();
        if polled {
            let poll = Pin::new(&mut handle).poll(&mut Context::from_waker(Waker::noop()));
            assert!(poll.is_pending());
        }
        let detaching = act(&world, |_| drop(handle));
        roles([runner(&world), detaching], move |_| {
            world.assert_all_dropped(1)
        })
    });
}

#[test]
fn a_detached_task_drops_its_output() {
    handle_goes_away(false);
}

#[test]
fn a_task_detached_while_joined_drops_its_output() {
    handle_goes_away(true);
}

/// What happens to a polled join handle while its task completes.
#[derive(Clone, Copy, PartialEq)]
enum Again {
    Not,
    SameWaker,
    OtherWaker,
}

/// A join waker is dropped when its task has completed or its handle has gone, though an abort
/// handle keeps the memory, and the join handle may be there as well.
fn join_waker_goes(again: Again, goes: bool) {
    model(move || {
        let (world, handle, _) = World::with_task();
        world.go();
        let (abort, drops) = (handle.abort_handle(), Drops::default());
        let waker = waker_with(&drops);
        let handle = poll_once(handle, &waker).expect("it has not been run");
        let (kept, others) = (Arc::new(Mutex::new(None)), drops.clone());
        let keep = Arc::clone(&kept);
        let joining = act(&world, move |_| {
            let handle = match again {
                Again::Not => Some(handle),
                Again::SameWaker => poll_once(handle, &waker),
                Again::OtherWaker => poll_once(handle, &waker_with(&others)),
            };
            drop(waker);
            if !goes {
                *keep.lock() = handle;
            }
        });
        let wakers = 1 + usize::from(again == Again::OtherWaker);
        roles([runner(&world), joining], move |_| {
            assert!(abort.is_finished());
            assert_eq!(drops.count(), wakers, "drops of join wakers");
            assert_eq!(world.0.cells.count(), 0, "the memory is still there");
            let handle = kept.lock().take();
            drop((abort, handle));
            world.assert_all_dropped(1);
        })
    });
}

#[test]
fn a_join_waker_goes_with_completion() {
    join_waker_goes(Again::Not, false);
}

#[test]
fn a_join_waker_goes_with_its_handle_or_with_completion() {
    join_waker_goes(Again::Not, true);
}

#[test]
fn a_join_waker_that_is_given_again_goes_with_completion() {
    join_waker_goes(Again::SameWaker, false);
}

#[test]
fn a_join_waker_that_is_replaced_goes_with_completion() {
    join_waker_goes(Again::OtherWaker, false);
}

#[test]
fn a_join_waker_that_is_replaced_goes_with_its_handle_or_with_completion() {
    join_waker_goes(Again::OtherWaker, true);
}

/// An abort from elsewhere while the task is woken, polled, and perhaps finished.
#[test]
fn an_abort_meets_a_poll() {
    model(|| {
        let (world, handle, waker) = World::with_waiting_task();
        world.go();
        let abort = handle.abort_handle();
        let aborting = act(&world, move |world| {
            abort.abort();
            world.run_one();
        });
        let waking = act(&world, |world| {
            waker.wake();
            world.run_all();
        });
        roles([aborting, waking], move |_| {
            world.run_all();
            assert!(handle.is_finished());
            let outputs = assert_output_or_cancelled(output_of(handle));
            world.assert_all_dropped(outputs);
        })
    });
}

/// An abort of a task that is polled and would go on waiting.
#[test]
fn an_abort_ends_a_task_that_would_wait() {
    model(|| {
        let (world, handle, waker) = World::with_task();
        let abort = handle.abort_handle();
        let aborting = act(&world, move |world| {
            abort.abort();
            world.run_one();
        });
        let running = act(&world, |world| _ = world.run_one());
        roles([aborting, running], move |_| {
            world.run_all();
            let error = output_of(handle).err().expect("it was never told to go on");
            assert!(error.is_cancelled());
            drop(waker);
            world.assert_all_dropped(0);
        })
    });
}

/// The join handle, an abort handle, two wakers and the task's own reference go away on three
/// threads: the last one frees the memory, once.
#[test]
fn the_last_reference_frees() {
    model(|| {
        let (world, handle, waker) = World::with_waiting_task();
        world.go();
        waker.wake_by_ref();
        let (abort, clone) = (handle.abort_handle(), waker.clone());
        let threads = [
            runner(&world),
            act(&world, |_| drop((waker, handle))),
            act(&world, |_| {
                clone.wake();
                drop(abort);
            }),
        ];
        roles(threads, move |_| {
            world.run_all();
            world.assert_all_dropped(1);
        })
    });
}

/// Wakers that outlive the task do nothing but free it.
#[test]
fn a_waker_of_a_completed_task_is_harmless() {
    model(|| {
        let (world, handle, waker) = World::with_waiting_task();
        world.go();
        waker.wake_by_ref();
        let waking = act(&world, |_| {
            waker.wake_by_ref();
            waker.wake();
        });
        let joining = {
            let world = world.clone();
            role(move || {
                world.run_all();
                Some(join(handle))
            })
        };
        roles([waking, joining], move |results| {
            world.run_all();
            drop(results);
            world.assert_all_dropped(1);
        })
    });
}

fn shutdown(world: &World) -> Role<Learned> {
    act(world, |world| {
        world.0.registry.close();
        world.drop_waiting();
    })
}

/// Shutdown takes a waiting task while another thread wakes it, and runs it if it is queued.
#[test]
fn shutdown_meets_a_wake_up() {
    model(|| {
        let (world, handle, waker) = World::with_waiting_task();
        let waking = act(&world, |world| {
            world.go();
            waker.wake();
            world.run_one();
        });
        roles([shutdown(&world), waking], move |_| {
            world.run_all();
            let outputs = assert_output_or_cancelled(output_of(handle));
            world.assert_all_dropped(outputs);
        })
    });
}

/// Shutdown takes a task that another thread has just polled, which returned pending: the poll
/// comes before the drop.
#[test]
fn shutdown_meets_a_poll_in_vain() {
    model(|| {
        let (world, handle, waker) = World::with_waiting_task();
        let polling = act(&world, |world| {
            waker.wake();
            world.run_one();
        });
        roles([shutdown(&world), polling], move |_| {
            world.run_all();
            let error = output_of(handle).err().expect("it was never told to go on");
            assert!(error.is_cancelled());
            world.assert_all_dropped(0);
        })
    });
}

/// Shutdown comes while a task is polled for the first time and is about to wait: it is found in
/// the registry, or refused there.
#[test]
fn shutdown_meets_a_first_poll() {
    model(|| {
        let (world, handle, waker) = World::with_task();
        roles([shutdown(&world), runner(&world)], move |_| {
            // A task that was marked while it ran is queued again.
            world.run_all();
            let error = output_of(handle).err().expect("it was never told to go on");
            assert!(error.is_cancelled());
            drop(waker);
            world.assert_all_dropped(0);
        })
    });
}

/// Shutdown and an abort meet at a waiting task.
#[test]
fn shutdown_meets_an_abort() {
    model(|| {
        let (world, handle, waker) = World::with_waiting_task();
        let abort = handle.abort_handle();
        let aborting = act(&world, |world| {
            abort.abort();
            drop(abort);
            world.run_one();
        });
        roles([shutdown(&world), aborting], move |_| {
            drop(waker);
            world.run_all();
            let error = output_of(handle).err().expect("it was never told to go on");
            assert!(error.is_cancelled());
            world.assert_all_dropped(0);
        })
    });
}

/// A wake-up, an abort and shutdown meet at a waiting task.
#[test]
fn shutdown_an_abort_and_a_wake_up() {
    model(|| {
        let (world, handle, waker) = World::with_waiting_task();
        let waking = act(&world, |_| waker.wake());
        let aborting = act(&world, |world| {
            handle.abort();
            drop(handle);
            world.run_one();
        });
        roles([shutdown(&world), waking, aborting], move |_| {
            world.run_all();
            world.assert_all_dropped(0);
        })
    });
}
