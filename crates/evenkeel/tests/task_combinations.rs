//! Every combination of events in the life of a task: a panic in a poll, in the drop of the future
//! or of the output; an abort, a join, the drop of a handle, and the end of the runtime, each at
//! every point of the task's life; and wakers that panic.
//!
//! For each combination a simple oracle predicts the output, and everything that was created must
//! be dropped, once.
#![allow(unsafe_code, reason = "wakers are made by hand")]

#[path = "support/hang.rs"]
mod hang;

use std::any::Any;
use std::future::Future;
use std::panic::{self, AssertUnwindSafe};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, Once, mpsc};
use std::task::{Context, Poll, RawWaker, RawWakerVTable, Wake, Waker};
use std::time::Duration;

use evenkeel::runtime::{Builder, Handle, Runtime};
use evenkeel::task::{AbortHandle, JoinError, JoinHandle};
use hang::{until, watched};

/// Points in a task's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
enum Point {
    /// It is in a queue and has not been polled.
    Queued,
    /// It has been polled once and waits.
    Waiting,
    /// It has ended.
    Ended,
}

use Point::{Ended, Queued, Waiting};

const POINTS: [Point; 3] = [Queued, Waiting, Ended];

/// The use of the join handle.
#[derive(Clone, Copy, Debug)]
enum Fate {
    /// It is dropped without having been polled.
    Detached(Point),
    /// It is polled from a point on until it gives the output.
    Joined(Point, WakerKind),
    /// It is polled at one point and dropped at another.
    GivenUp(Point, Point, WakerKind),
}

#[derive(Clone, Copy, Debug)]
enum WakerKind {
    Plain,
    PanicsWhenWoken,
    PanicsWhenDropped,
}

const WAKERS: [WakerKind; 3] = [
    WakerKind::Plain,
    WakerKind::PanicsWhenWoken,
    WakerKind::PanicsWhenDropped,
];

/// The poll that panics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PollPanic {
    Never,
    First,
    Last,
}

/// The thread that spawns.
#[derive(Clone, Copy, Debug)]
enum From {
    Outside,
    Worker,
}

#[derive(Clone, Copy, Debug)]
struct Case {
    from: From,
    poll_panic: PollPanic,
    future_panics: bool,
    output_panics: bool,
    fate: Fate,
    abort: Option<Point>,
    /// `Ended`: after everything else.
    shutdown: Point,
}

fn fates() -> Vec<Fate> {
    let mut fates: Vec<_> = POINTS.into_iter().map(Fate::Detached).collect();
    for waker in WAKERS {
        for from in POINTS {
            fates.push(Fate::Joined(from, waker));
            let later = POINTS.into_iter().filter(|&point| point > from);
            fates.extend(later.map(|point| Fate::GivenUp(from, point, waker)));
        }
    }
    fates
}

fn cases(from: From) -> Vec<Case> {
    let mut cases = Vec::new();
    for poll_panic in [PollPanic::Never, PollPanic::First, PollPanic::Last] {
        for (future_panics, output_panics) in
            [(false, false), (false, true), (true, false), (true, true)]
        {
            for fate in fates() {
                for abort in [None, Some(Queued), Some(Waiting), Some(Ended)] {
                    for shutdown in POINTS {
                        cases.push(Case {
                            from,
                            poll_panic,
                            future_panics,
                            output_panics,
                            fate,
                            abort,
                            shutdown,
                        });
                    }
                }
            }
        }
    }
    cases
}

/// The payload of a planned panic, which tells it from a failed assertion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Planned {
    Poll,
    FutureDrop,
    OutputDrop,
    Waker,
}

/// The expected result of the join handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Output,
    Cancelled,
    Panicked(Planned),
}

/// The oracle: the possible results of the handle.
fn expected(case: &Case) -> Vec<Outcome> {
    let mut outcomes = vec![expected_if_stopped_at_once(case)];
    if case.shutdown == Queued {
        // A worker that returns from a long poll may run queued tasks for a moment, until it
        // looks around and sees that it has to stop.
        outcomes.push(expected_if_stopped_at_once(&Case {
            shutdown: Waiting,
            ..*case
        }));
    }
    outcomes
}

fn expected_if_stopped_at_once(case: &Case) -> Outcome {
    let cut = |outcome| {
        if case.future_panics {
            Outcome::Panicked(Planned::FutureDrop)
        } else {
            outcome
        }
    };
    // Before a point is reached, events at it cannot matter.
    if case.abort == Some(Queued) || case.shutdown == Queued {
        return cut(Outcome::Cancelled);
    }
    if case.poll_panic == PollPanic::First {
        return Outcome::Panicked(Planned::Poll);
    }
    if case.abort == Some(Waiting) || case.shutdown == Waiting {
        return cut(Outcome::Cancelled);
    }
    if case.poll_panic == PollPanic::Last {
        return Outcome::Panicked(Planned::Poll);
    }
    cut(Outcome::Output)
}

/// Counts the values created and dropped.
#[derive(Debug, Default)]
struct Tally {
    made: AtomicUsize,
    dropped: AtomicUsize,
}

impl Tally {
    fn is_even(&self) -> bool {
        self.made.load(SeqCst) == self.dropped.load(SeqCst)
    }

    fn assert_even(&self, what: &str) {
        let (made, dropped) = (self.made.load(SeqCst), self.dropped.load(SeqCst));
        assert_eq!(made, dropped, "{what}: made, dropped");
    }
}

#[derive(Debug, Default)]
struct World {
    futures: Tally,
    outputs: Tally,
    wakers: Tally,
    polls: AtomicUsize,
    open: AtomicBool,
    task_waker: Mutex<Option<Waker>>,
}

struct Output {
    world: Arc<World>,
    panics: bool,
}

impl Drop for Output {
    fn drop(&mut self) {
        self.world.outputs.dropped.fetch_add(1, SeqCst);
        if self.panics {
            panic::panic_any(Planned::OutputDrop);
        }
    }
}

struct Work {
    world: Arc<World>,
    case: Case,
}

impl Work {
    fn new(world: &Arc<World>, case: Case) -> Self {
        world.futures.made.fetch_add(1, SeqCst);
        Self {
            world: Arc::clone(world),
            case,
        }
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        self.world.futures.dropped.fetch_add(1, SeqCst);
        if self.case.future_panics {
            panic::panic_any(Planned::FutureDrop);
        }
    }
}

impl Future for Work {
    type Output = Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Output> {
        let world = &self.world;
        *world.task_waker.lock().unwrap() = Some(context.waker().clone());
        let before = world.polls.fetch_add(1, SeqCst);
        if self.case.poll_panic == PollPanic::First {
            panic::panic_any(Planned::Poll);
        }
        if before == 0 || !world.open.load(SeqCst) {
            return Poll::Pending;
        }
        if self.case.poll_panic == PollPanic::Last {
            panic::panic_any(Planned::Poll);
        }
        world.outputs.made.fetch_add(1, SeqCst);
        Poll::Ready(Output {
            world: Arc::clone(world),
            panics: self.case.output_panics,
        })
    }
}

/// A join handle's waker that counts itself and may panic.
struct CountedWaker {
    world: Arc<World>,
    kind: WakerKind,
}

impl CountedWaker {
    const VTABLE: RawWakerVTable = RawWakerVTable::new(
        |data| {
            // SAFETY: `data` comes from `Box::into_raw` below and has not been freed.
            let this = unsafe { &*data.cast::<CountedWaker>() };
            Self::make(&this.world, this.kind)
        },
        |data| {
            // SAFETY: as above; the waker is consumed.
            let this = unsafe { Box::from_raw(data.cast_mut().cast::<CountedWaker>()) };
            this.wake();
        },
        // SAFETY: as above.
        |data| unsafe { &*data.cast::<CountedWaker>() }.wake(),
        // SAFETY: as above; the waker is consumed.
        |data| drop(unsafe { Box::from_raw(data.cast_mut().cast::<CountedWaker>()) }),
    );

    fn make(world: &Arc<World>, kind: WakerKind) -> RawWaker {
        world.wakers.made.fetch_add(1, SeqCst);
        let this = Box::new(Self {
            world: Arc::clone(world),
            kind,
        });
        RawWaker::new(Box::into_raw(this).cast_const().cast(), &Self::VTABLE)
    }

    fn wake(&self) {
        if let WakerKind::PanicsWhenWoken = self.kind {
            panic::panic_any(Planned::Waker);
        }
    }
}

impl Drop for CountedWaker {
    fn drop(&mut self) {
        self.world.wakers.dropped.fetch_add(1, SeqCst);
        if let WakerKind::PanicsWhenDropped = self.kind {
            panic::panic_any(Planned::Waker);
        }
    }
}

/// Runs `act`, which may panic as planned. Returns the planned panic.
fn planned<R>(act: impl FnOnce() -> R) -> Result<R, Planned> {
    panic::catch_unwind(AssertUnwindSafe(act)).map_err(of_plan)
}

fn of_plan(payload: Box<dyn Any + Send>) -> Planned {
    match payload.downcast::<Planned>() {
        Ok(planned) => *planned,
        Err(payload) => panic::resume_unwind(payload),
    }
}

/// Planned panics are not printed.
fn quiet() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !info.payload().is::<Planned>() {
                before(info);
            }
        }));
    });
}

/// A task that holds up the one worker until it is released.
struct Keeper {
    release: mpsc::Sender<()>,
}

impl Keeper {
    /// Holds up the worker, and spawns the task, on the worker or from here.
    fn keep(runtime: &Handle, world: &Arc<World>, case: Case) -> (Self, JoinHandle<Output>) {
        let (release, released) = mpsc::channel();
        let (keeps, kept) = mpsc::channel();
        let work = Work::new(world, case);
        let (work_there, work_here) = match case.from {
            From::Worker => (Some(work), None),
            From::Outside => (None, Some(work)),
        };
        drop(runtime.spawn(async move {
            keeps.send(work_there.map(evenkeel::spawn)).unwrap();
            // Blocks the worker on purpose.
            let _ = released.recv();
        }));
        let spawned = kept.recv().unwrap();
        let handle = spawned.or_else(|| work_here.map(|work| runtime.spawn(work)));
        (Self { release }, handle.expect("spawned here or there"))
    }
}

/// The handles of one task on their way through a case.
struct Course {
    case: Case,
    world: Arc<World>,
    handle: Option<JoinHandle<Output>>,
    abort: AbortHandle,
    waker: Option<Waker>,
    outcome: Option<Outcome>,
}

impl Course {
    /// What happens to the handles at a point.
    fn pass(&mut self, point: Point) {
        if self.case.abort == Some(point) {
            self.abort.abort();
        }
        match self.case.fate {
            Fate::Detached(at) if at == point => self.let_go(),
            Fate::Joined(from, kind) if from <= point => self.poll(kind),
            Fate::GivenUp(from, _, kind) if from == point => self.poll(kind),
            Fate::GivenUp(_, at, _) if at == point => self.let_go(),
            _ => {}
        }
    }

    /// Drops the handle, and with it perhaps an output and a waker, whose panics the runtime
    /// swallows: there is no handle left to report them.
    fn let_go(&mut self) {
        let handle = self.handle.take();
        assert_eq!(planned(|| drop(handle)), Ok(()), "a handle's drop panicked");
    }

    fn poll(&mut self, kind: WakerKind) {
        let Some(mut handle) = self.handle.take() else {
            return;
        };
        // Created anew each time, so that one replaces the other.
        // SAFETY: the table's functions do what a waker's have to.
        let waker = unsafe { Waker::from_raw(CountedWaker::make(&self.world, kind)) };
        let poll = planned(|| Pin::new(&mut handle).poll(&mut Context::from_waker(&waker)));
        let _ = planned(|| drop(self.waker.replace(waker)));
        match poll.expect("polling a handle does not panic") {
            Poll::Pending => self.handle = Some(handle),
            Poll::Ready(result) => {
                self.outcome = Some(outcome(result));
                assert_eq!(planned(|| drop(handle)), Ok(()), "a handle's drop panicked");
            }
        }
    }

    fn is_finished(&self) -> bool {
        self.abort.is_finished()
    }
}

fn outcome(result: Result<Output, JoinError>) -> Outcome {
    match result {
        Ok(output) => {
            let _ = planned(|| drop(output));
            Outcome::Output
        }
        Err(error) if error.is_cancelled() => Outcome::Cancelled,
        Err(error) => Outcome::Panicked(of_plan(error.into_panic())),
    }
}

fn new_runtime() -> Runtime {
    // The keeper must hold up the worker here, so that queued tasks stay queued.
    Builder::new()
        .workers(1)
        .hand_off_after(None)
        .build()
        .unwrap()
}

fn shut_down(runtime: Runtime) {
    runtime
        .shutdown(Duration::from_secs(60))
        .expect("nothing keeps the runtime");
}

/// Shuts down while the keeper holds up the worker.
fn shut_down_kept(runtime: Runtime, keeper: Keeper) {
    let handle = runtime.handle().clone();
    let thread = std::thread::spawn(move || shut_down(runtime));
    // A spawned task ends by itself once the shutdown has begun: the worker is held up.
    until("shut down", || handle.spawn(async {}).is_finished());
    drop(keeper.release);
    thread.join().unwrap();
}

/// Runs a case on `runtime`, which is returned unless it ends in the case.
fn run(runtime: Runtime, case: Case) -> Option<Runtime> {
    let world = Arc::new(World::default());
    let (keeper, handle) = Keeper::keep(runtime.handle(), &world, case);
    let abort = handle.abort_handle();
    let mut course = Course {
        case,
        world: Arc::clone(&world),
        handle: Some(handle),
        abort,
        waker: None,
        outcome: None,
    };
    let mut runtime = Some(runtime);
    let mut end = |keeper| {
        let runtime = runtime.take().expect("it ends once");
        match keeper {
            Some(keeper) => shut_down_kept(runtime, keeper),
            None => shut_down(runtime),
        }
    };

    course.pass(Queued);
    if case.shutdown == Queued {
        end(Some(keeper));
    } else {
        drop(keeper.release);
        let waits = || world.polls.load(SeqCst) > 0 || course.is_finished();
        until("polled or finished", waits);
    }
    course.pass(Waiting);
    if case.shutdown == Waiting {
        end(None);
    }
    world.open.store(true, SeqCst);
    let waker = world.task_waker.lock().unwrap().take();
    waker.iter().for_each(Waker::wake_by_ref);
    until("finished", || course.is_finished());
    // Wakers that outlive the task, and perhaps the runtime, are harmless.
    let later = world.task_waker.lock().unwrap().take();
    waker.into_iter().chain(later).for_each(Waker::wake);
    course.pass(Ended);

    if let Fate::Joined(..) = case.fate {
        assert!(
            course.outcome.is_some(),
            "a task that has ended has an outcome"
        );
    }
    if let Some(outcome) = course.outcome {
        let expected = expected(&case);
        assert!(
            expected.contains(&outcome),
            "{outcome:?} instead of {expected:?}"
        );
    }
    assert!(course.handle.is_none(), "the handle came to its end");
    let _ = planned(|| drop(course.waker));
    // Join wakers do not wait until the task's memory is freed: they may own what keeps it.
    until("join wakers are dropped", || world.wakers.is_even());
    drop((course.abort, course.world));
    if let Some(runtime) = &runtime {
        // The worker has survived everything that the task did.
        let answer = runtime.block_on(runtime.spawn(async { 42 }));
        assert_eq!(answer.unwrap(), 42);
    }
    // The task's memory is freed with its last reference, which the worker may be about to drop.
    until("all is dropped", || Arc::strong_count(&world) == 1);
    world.futures.assert_even("futures");
    world.outputs.assert_even("outputs");
    world.wakers.assert_even("wakers");
    runtime
}

/// A task that waits for another and may abort it: its waker owns a handle that keeps alive the
/// other's memory, which holds the waker.
#[test]
fn a_join_waker_that_owns_an_abort_handle_is_dropped() {
    struct Owner {
        abort: Mutex<Option<AbortHandle>>,
    }

    impl Wake for Owner {
        fn wake(self: Arc<Self>) {}
    }

    watched("a join waker that owns an abort handle", || {
        let runtime = new_runtime();
        for given_up in [None, Some(Waiting), Some(Ended)] {
            let (go, gone) = tokio::sync::oneshot::channel::<()>();
            let mut handle = runtime.spawn(async { gone.await.unwrap() });
            let abort = handle.abort_handle();
            let owner = Arc::new(Owner {
                abort: Mutex::new(Some(abort)),
            });
            let finished = || owner.abort.lock().unwrap().as_ref().unwrap().is_finished();
            let waker = Waker::from(Arc::clone(&owner));
            let poll = Pin::new(&mut handle).poll(&mut Context::from_waker(&waker));
            assert!(poll.is_pending());
            drop(waker);
            let mut handle = Some(handle);
            if given_up == Some(Waiting) {
                drop(handle.take());
                assert_eq!(
                    Arc::strong_count(&owner),
                    1,
                    "the handle took its waker with it"
                );
            }
            go.send(()).unwrap();
            until("it has ended", finished);
            if given_up == Some(Ended) {
                drop(handle.take());
            }
            until("the waker is dropped", || Arc::strong_count(&owner) == 1);
            drop(handle);
        }
        shut_down(runtime);
    });
}

fn run_all(from: From) {
    quiet();
    let mut spare = None;
    for case in cases(from) {
        let runtime = spare.take().unwrap_or_else(new_runtime);
        match panic::catch_unwind(AssertUnwindSafe(|| run(runtime, case))) {
            Ok(left) => spare = left,
            Err(payload) => {
                eprintln!("in {case:?}");
                panic::resume_unwind(payload);
            }
        }
    }
}

#[test]
fn every_combination_spawned_from_outside() {
    watched("combinations from outside", || run_all(From::Outside));
}

#[test]
fn every_combination_spawned_on_a_worker() {
    watched("combinations on a worker", || run_all(From::Worker));
}
