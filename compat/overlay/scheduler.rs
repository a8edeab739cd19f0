//! Evenkeel's runtime in the place of Tokio's workers.

use crate::runtime::scheduler::{self, multi_thread};
use crate::runtime::task::{Id, JoinHandle, SpawnLocation};
#[cfg(tokio_unstable)]
use crate::runtime::{TaskHooks, TaskMeta};
use super::is_on;
use super::report::spawn_site;
use crate::runtime::{context, Handle, WorkerMetrics};
use crate::task::coop;
use pin_project_lite::pin_project;
use std::cell::Cell;
use std::fmt;
use std::future::Future;
use std::io;
use std::mem::ManuallyDrop;
use std::pin::Pin;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

/// The place of Evenkeel in a handle of Tokio's: empty if the runtime is Tokio's own.
#[derive(Default)]
pub(crate) struct Place {
    scheduler: OnceLock<Scheduler>,
    /// Why the launch has failed, until the builder asks.
    failure: Mutex<Option<io::Error>>,
}

impl Place {
    #[inline]
    pub(crate) fn get(&self) -> Option<&Scheduler> {
        self.scheduler.get()
    }

    /// Tokio's launch gives no error, so the builder asks for it here.
    pub(crate) fn check(&self) -> io::Result<()> {
        lock(&self.failure).take().map_or(Ok(()), Err)
    }
}

thread_local! {
    /// What has a thread of Evenkeel's belong to the runtime. It is dropped before the locals are,
    /// or not at all.
    static STAY: Cell<Option<ManuallyDrop<context::SetCurrentGuard>>> = const { Cell::new(None) };
}

/// Evenkeel's runtime beneath one of Tokio's.
pub(crate) struct Scheduler {
    handle: evenkeel::runtime::Handle,
    /// From when all its threads have started until it is shut down.
    runtime: Mutex<Option<evenkeel::runtime::Runtime>>,
    tasks: Arc<Tasks>,
    unpark: Box<dyn Fn() + Send + Sync>,
}

/// The runtimes whose drivers have a thread.
static DRIVERS: Mutex<Vec<Weak<multi_thread::Handle>>> = Mutex::new(Vec::new());

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A process is left to whichever driver turns next, when this is dropped. Tokio's drivers turn
/// often; these have nothing else to do.
#[allow(dead_code)]
pub(crate) struct Orphaned;

impl Drop for Orphaned {
    fn drop(&mut self) {
        let alive: Vec<_> = {
            let mut drivers = lock(&DRIVERS);
            drivers.retain(|driver| driver.strong_count() > 0);
            drivers.iter().filter_map(Weak::upgrade).collect()
        };
        // A handle may be the last one, so it is dropped without the lock.
        alive.iter().filter_map(|driver| driver.evenkeel.get()).for_each(Scheduler::wake_driver);
    }
}

/// What all tasks of a runtime share. Its references count those that are alive.
pub(crate) struct Tasks {
    /// What the program wants to be told of. Only an unstable interface can ask for it.
    #[cfg(tokio_unstable)]
    hooks: TaskHooks,
    #[cfg(tokio_unstable)]
    spawned: std::sync::atomic::AtomicU64,
}

#[cfg(tokio_unstable)]
fn meta(id: Id, spawned_at: SpawnLocation) -> TaskMeta<'static> {
    TaskMeta {
        id,
        spawned_at,
        #[cfg(feature = "schedule-latency")]
        schedule_latency: None,
        _phantom: std::marker::PhantomData,
    }
}

impl fmt::Debug for Scheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scheduler").finish_non_exhaustive()
    }
}

/// As many workers as Evenkeel's runtime can have.
const WORKERS_MAX: usize = 1024;

/// The smallest stack that a thread of Evenkeel's has.
const STACK_MIN: usize = 64 * 1024;

/// The names of workers, which come from the program.
fn names(next: impl Fn() -> String, workers: usize) -> Vec<String> {
    let is_name = |name: &String| !name.is_empty() && !name.contains('\0');
    let names = (0..workers).map(|_| Some(next()).filter(is_name));
    // What Tokio names them.
    names.map(|name| name.unwrap_or_else(|| "tokio-rt-worker".into())).collect()
}

/// How many threads the pool for blocking work may have. Tokio's workers are threads of the pool;
/// Evenkeel's are not, but the thread of Tokio's driver is.
pub(crate) fn thread_cap(cap: usize, workers: usize) -> usize {
    if is_on() && workers > 0 {
        cap - workers + 1
    } else {
        cap
    }
}

/// Whether this thread polls one of the runtime's own tasks. At the runtime's end these are
/// dropped, so they may wait for what never comes. A `block_on` inside a `block_in_place` may not:
/// nothing would end it.
pub(crate) fn is_own_task(on: &evenkeel::runtime::Handle) -> bool {
    evenkeel::drop_in::worker_index(on).is_some() && !evenkeel::drop_in::is_in_place()
}

pin_project! {
    /// A task's future, polled as Tokio polls it: with a budget, and with its id at hand.
    struct Polled<F> {
        #[pin]
        future: Option<F>,
        id: Id,
        // Empty, unless unstable interfaces are there.
        spawned_at: SpawnLocation,
        tasks: Arc<Tasks>,
    }

    impl<F> PinnedDrop for Polled<F> {
        fn drop(this: Pin<&mut Self>) {
            let mut this = this.project();
            if this.future.is_some() {
                let _id = Running::new(*this.id);
                this.future.set(None);
            }
            #[cfg(tokio_unstable)]
            if let Some(hook) = &this.tasks.hooks.task_terminate_callback {
                let meta = meta(*this.id, *this.spawned_at);
                // As Tokio does: a panic there is not the task's.
                _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| hook(&meta)));
            }
        }
    }
}

/// While it lives, the thread runs this task.
struct Running(Option<Id>);

impl Running {
    fn new(id: Id) -> Self {
        Self(context::set_current_task_id(Some(id)))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        context::set_current_task_id(self.0);
    }
}

/// Drops a future in place, if it is dropped itself.
struct OnPanic<'a, F>(Pin<&'a mut Option<F>>);

impl<F: Future> OnPanic<'_, F> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<F::Output> {
        let future = (self.0.as_mut().as_pin_mut()).expect("polled until it is ready");
        coop::budget(|| future.poll(cx))
    }
}

impl<F> Drop for OnPanic<'_, F> {
    fn drop(&mut self) {
        self.0.set(None);
    }
}

impl<F: Future> Future for Polled<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let mut this = self.project();
        let _id = Running::new(*this.id);
        // A future that panics is dropped while the panic unwinds, as Tokio does.
        let mut guard = OnPanic(this.future.as_mut());
        #[cfg(tokio_unstable)]
        (this.tasks.hooks).poll_start_callback(&meta(*this.id, *this.spawned_at));
        let output = guard.poll(cx);
        std::mem::forget(guard);
        #[cfg(tokio_unstable)]
        (this.tasks.hooks).poll_stop_callback(&meta(*this.id, *this.spawned_at));
        if output.is_ready() {
            this.future.set(None);
        }
        output
    }
}

/// Evenkeel's runtime, with what Tokio's builder was given. `put` fills the place in the handle
/// before threads start, whose hooks may spawn: a task would be Tokio's.
fn build(
    handle: &Arc<multi_thread::Handle>,
    put: impl FnOnce(&evenkeel::runtime::Handle),
) -> io::Result<evenkeel::runtime::Runtime> {
    // Not counted: Evenkeel's runtime keeps the hook, and the handle keeps the runtime.
    let entered = Arc::downgrade(handle);
    let mut builder = evenkeel::runtime::Builder::new();
    builder.workers(handle.num_workers().min(WORKERS_MAX));
    let spawner = &handle.blocking_spawner;
    let names = names(|| spawner.thread_name(), handle.num_workers().min(WORKERS_MAX));
    builder.thread_name(&*names[0]).worker_name_fn(move |worker| names[worker].clone());
    if let Some(bytes) = spawner.stack_size() {
        builder.thread_stack_size(bytes.max(STACK_MIN));
    }
    let [before_park, after_unpark] = handle.park_hooks();
    let [after_start, before_stop] = spawner.hooks();
    if let Some(hook) = before_park {
        builder.on_thread_park(move || hook());
    }
    if let Some(hook) = after_unpark {
        builder.on_thread_unpark(move || hook());
    }
    builder.on_thread_start(move || {
        if let Some(handle) = entered.upgrade() {
            let stay = context::enter_thread(&scheduler::Handle::MultiThread(handle));
            STAY.set(Some(ManuallyDrop::new(stay)));
        }
        after_start.iter().for_each(|hook| hook());
    });
    builder.on_thread_stop(move || {
        before_stop.iter().for_each(|hook| hook());
        if let Some(stay) = STAY.take() {
            context::leave_thread(ManuallyDrop::into_inner(stay));
        }
    });
    builder.settings_from_env();
    Ok(evenkeel::drop_in::build(&builder, put)?)
}

impl Scheduler {
    pub(crate) fn handle(&self) -> &evenkeel::runtime::Handle {
        &self.handle
    }

    #[track_caller]
    pub(crate) fn spawn<F>(&self, future: F, id: Id) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let site = spawn_site();
        let spawned_at = SpawnLocation::from(site);
        #[cfg(tokio_unstable)]
        {
            self.tasks.hooks.spawn(&meta(id, spawned_at));
            self.tasks.spawned.fetch_add(1, Relaxed);
        }
        let future = Polled {
            future: Some(future),
            id,
            spawned_at,
            tasks: Arc::clone(&self.tasks),
        };
        let join = evenkeel::drop_in::spawn(&self.handle, future, site);
        JoinHandle::of_evenkeel(join, id)
    }

    /// Begins the end; the thread of the driver waits for it.
    pub(crate) fn shut_down(&self) {
        evenkeel::drop_in::stop(&self.handle);
        self.wake_driver();
    }

    /// Starts Evenkeel's workers in the place of Tokio's, and a thread that serves what is left to
    /// Tokio's driver. If it cannot, the builder [learns](Place::check) why.
    pub(crate) fn launch(launch: multi_thread::Launch) {
        let (handle, parker) = launch.into_driver();
        if let Err(error) = Self::try_launch(&handle, parker) {
            *lock(&handle.evenkeel.failure) = Some(error);
        }
    }

    fn try_launch(
        handle: &Arc<multi_thread::Handle>,
        parker: multi_thread::Parker,
    ) -> io::Result<()> {
        let unparker = parker.unpark();
        let in_unpark = Arc::downgrade(handle);
        let unpark = move || {
            if let Some(handle) = in_unpark.upgrade() {
                unparker.unpark(&handle.driver);
            }
        };
        let runtime = build(handle, |native| {
            let scheduler = Scheduler {
                handle: native.clone(),
                runtime: Mutex::new(None),
                tasks: Arc::new(Tasks {
                    #[cfg(tokio_unstable)]
                    hooks: handle.task_hooks.clone(),
                    #[cfg(tokio_unstable)]
                    spawned: Default::default(),
                }),
                unpark: Box::new(unpark),
            };
            if handle.evenkeel.scheduler.set(scheduler).is_err() {
                unreachable!("a runtime is launched once");
            }
        })?;
        evenkeel::drop_in::begin(runtime.handle());
        let scheduler = handle.evenkeel.get().expect("set before");
        *lock(&scheduler.runtime) = Some(runtime);
        let mut drivers = lock(&DRIVERS);
        // Each keeps the memory of a handle, also of a runtime that has ended.
        drivers.retain(|driver| driver.strong_count() > 0);
        drivers.push(Arc::downgrade(handle));
        drop(drivers);
        Self::start_driver(handle, parker)
    }

    fn start_driver(
        handle: &Arc<multi_thread::Handle>,
        parker: multi_thread::Parker,
    ) -> io::Result<()> {
        // If there is no thread, the function stays in the pool, which the handle keeps.
        let parts = Arc::new(Mutex::new(Some((Arc::clone(handle), parker))));
        let taken = Arc::clone(&parts);
        let serve = move || {
            let parts = lock(&taken).take();
            if let Some((handle, parker)) = parts {
                Self::serve_driver(&handle, parker);
            }
        };
        let within = Handle {
            inner: scheduler::Handle::MultiThread(Arc::clone(handle)),
        };
        let started = handle.blocking_spawner.try_spawn_blocking(&within, serve);
        if started.is_err() {
            lock(&parts).take();
            let scheduler = handle.evenkeel.get().expect("set before");
            scheduler.end();
        }
        started
    }

    /// Runs in a thread of its own until the runtime ends.
    fn serve_driver(handle: &multi_thread::Handle, mut parker: multi_thread::Parker) {
        let scheduler = handle.evenkeel.get().expect("set before");
        while !evenkeel::drop_in::is_stopping(&scheduler.handle) {
            _ = parker.park(&handle.driver);
            // Who wakes it between two parks has the next one end at once, and it has not turned
            // then: a process that was left to it would not be reaped.
            _ = parker.park_timeout(&handle.driver, Duration::ZERO);
        }
        scheduler.end();
        parker.shutdown(&handle.driver);
    }

    /// Waits until Evenkeel's threads have ended.
    fn end(&self) {
        let runtime = lock(&self.runtime).take();
        if let Some(runtime) = runtime {
            _ = runtime.shutdown(Duration::from_secs(u32::MAX.into()));
        }
        evenkeel::drop_in::end(&self.handle);
    }

    /// Has the thread of the driver turn it once more.
    fn wake_driver(&self) {
        (self.unpark)();
    }

    /// How many tasks have been spawned and have not ended.
    pub(crate) fn alive(&self) -> usize {
        Arc::strong_count(&self.tasks) - 1
    }

    /// How many tasks have been spawned.
    #[cfg(tokio_unstable)]
    pub(crate) fn spawned(&self) -> u64 {
        self.tasks.spawned.load(Relaxed)
    }

    /// How many tasks wait in a worker's run queues.
    #[cfg(tokio_unstable)]
    pub(crate) fn queued(&self, worker: usize) -> usize {
        if worker >= WORKERS_MAX {
            return 0;
        }
        evenkeel::drop_in::figures(&self.handle, worker).queued
    }

    /// How many tasks wait in the injection queues.
    pub(crate) fn injected(&self) -> usize {
        evenkeel::drop_in::injected(&self.handle)
    }

    /// Brings a worker's figures up to date.
    pub(crate) fn refresh(&self, worker: usize, figures: &WorkerMetrics) {
        // Tokio may have been asked for more workers than there can be; those do nothing.
        if worker >= WORKERS_MAX {
            return;
        }
        let now = evenkeel::drop_in::figures(&self.handle, worker);
        let busy = now.busy.as_nanos().try_into().unwrap_or(u64::MAX);
        figures.busy_duration_total.store(busy, Relaxed);
        figures.park_count.store(now.parks, Relaxed);
        let unparks = now.parks - u64::from(now.is_parked);
        figures.park_unpark_count.store(now.parks + unparks, Relaxed);
        #[cfg(tokio_unstable)]
        {
            figures.poll_count.store(now.polls, Relaxed);
            figures.steal_count.store(now.steals, Relaxed);
            let poll_mean = now.poll_mean.as_nanos().try_into().unwrap_or(u64::MAX);
            figures.mean_poll_time.store(poll_mean, Relaxed);
        }
    }
}

/// Runs a function that blocks, in a poll of one of Evenkeel's tasks. Gives it back if it is called
/// elsewhere.
pub(crate) fn block_in_place<F: FnOnce() -> R, R>(function: F) -> Result<R, F> {
    // The handle may be another runtime's, which the task has entered.
    let on_worker = evenkeel::drop_in::is_worker()
        && Handle::try_current().is_ok_and(|current| current.inner.evenkeel().is_some());
    if !on_worker {
        return Err(function);
    }
    // Within another such call, the thread blocks already.
    if !matches!(context::current_enter_context(), context::EnterRuntime::Entered { .. }) {
        return Ok(function());
    }
    /// What was there before, also after a panic.
    struct Reset(coop::Budget);

    impl Drop for Reset {
        fn drop(&mut self) {
            coop::set(self.0);
        }
    }

    let _reset = Reset(coop::stop());
    Ok(evenkeel::block_in_place(|| context::exit_runtime(function)))
}
