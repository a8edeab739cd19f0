//! The monitor: a thread that keeps a poll which does not return from holding up anything else.
//!
//! It looks at the workers from time to time (`pace`). If one has been in a poll for longer than
//! the hand-off threshold, the monitor starts a thread, which takes over the seat
//! (`worker::heavy`); the stuck thread continues as one of the heavy pool (`heavy_pool`). If
//! hand-off is switched off, or the pool is full, a parked worker is woken instead: it takes tasks
//! from the stuck worker's run queues, visits its readiness queue and fires its timers.
//!
//! Workers look at each other as well, and rouse the monitor if one is stuck. So the monitor need
//! not look often.
//!
//! A worker whose thread is not scheduled by the kernel is not stuck: the monitor sees that the
//! thread was runnable and used no processor time.
//!
//! A poll that may be a hog's, by its task's profile (`hog`), is *on guard*: the worker rouses the
//! monitor when it begins. The monitor then looks five times as often, and hands the poll off after
//! a fifth of the time. So nothing waits for long behind such a poll. If it returns before the
//! threshold, its task does not count as a hog.
//!
//! The monitor also starts threads for tasks that wait in the pool, takes out those that were
//! aborted, and charges the polls there while they go on. It runs no code of the user's, except the
//! drop of an aborted task when the runtime ends and no worker takes the task any more. While all
//! workers are parked and the pool is at rest, it sleeps until a worker wakes.
//! `Idle::monitor_may_sleep` and `Idle::rouses_monitor` explain why no worker is missed.

pub(crate) mod lookout;
mod pace;

use std::io;
use std::time::Duration;

use crate::sync::Arc;
use crate::sys::thread;

use super::placement::Level;
use super::shared::{Seat, Shared};
use super::stacks::PollId;
use lookout::guard_after;
use pace::LookPace;

/// How long a poll has to last before its worker counts as stuck, where there is no hand-off.
pub(crate) const STUCK_AFTER: Duration = Duration::from_millis(1);
/// How often the monitor looks while no worker is stuck, where there is no hand-off. One look reads
/// a few words for each worker.
const LOOK: Duration = Duration::from_millis(5);
/// How often polls in the pool are charged while they go on.
const SAMPLE: Duration = Duration::from_millis(4);
/// After how many looks their cost is noted: to ask for it costs a twentieth of a look.
const NOTED_EACH: u32 = 8;
/// How long after a hand-off that failed the next one is tried.
const RETRY: Duration = Duration::from_millis(10);

/// A thread that is stuck in a poll.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stuck {
    pub(crate) worker: usize,
    /// When the poll began.
    pub(crate) since: u64,
    /// It is blocked, and does not compute.
    pub(crate) blocked: bool,
    /// It asked for an heir itself, and needs none when it no longer does.
    pub(crate) gives_up: bool,
}

/// A thread that the monitor wants.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Start {
    /// One that takes over the seat of a stuck thread.
    Seat(Stuck),
    /// One for the heavy pool.
    HeavyThread,
}

/// How the monitor starts threads.
pub(crate) type Starter<'a> = dyn Fn(Start) -> io::Result<()> + 'a;

/// What the monitor knows of the workers.
struct Watches {
    each: Vec<Watch>,
    pace: LookPace,
}

/// What the monitor knows of a worker.
#[derive(Clone, Copy, Debug, Default)]
struct Watch {
    /// When the poll began that was under way at the last look; 0 between polls.
    since: u64,
    /// When the last look was, in cycles, and the thread's processor time then.
    seen_at: u64,
    cpu: Duration,
    /// How much the poll has used at least.
    used: Duration,
    /// The thread used nothing between the last two looks.
    stood_still: bool,
    /// The poll was found to be too long without computing.
    doubted: bool,
    /// When a hand-off was last tried in this poll, in cycles; 0 if none was.
    dealt_with: u64,
}

/// Watches the workers until the runtime stops.
pub(crate) fn run(shared: &Arc<Shared>, start: &Starter<'_>) {
    let lookout = &shared.monitor;
    thread::prefer_short_slices();
    let (workers, after) = (shared.seats.len(), shared.live.hand_off_after());
    let mut watches = Watches {
        each: vec![Watch::default(); workers],
        pace: LookPace::new(after.unwrap_or(STUCK_AFTER), workers),
    };
    let mut parks_before = 0;
    let mut sampled_at = Sampling {
        at: Duration::ZERO,
        pause: SAMPLE,
    };
    let mut looks = 0_u32;
    while !shared.is_stopping() {
        lookout.begin_look();
        lookout.do_asked(false);
        let pause = look(shared, &mut watches, start);
        let heavy_pool = tend_pool(shared, &mut sampled_at, start);
        let pause = heavy_pool.map_or(pause, |soonest| soonest.min(pause));
        let pool_rests = heavy_pool.is_none();
        let expects = shared.stacks.collect(&shared.desks);
        let pause = if expects {
            pause.min(STUCK_AFTER)
        } else {
            pause
        };
        shared.serve_stacks();
        // Workers that were awake in between are likely to wake again soon, and would each time
        // have to rouse the monitor.
        let parks = parks(shared);
        let at_rest = parks == parks_before && pool_rests;
        parks_before = parks;
        looks += 1;
        let sleeps = at_rest && shared.idle.monitor_may_sleep() && !shared.is_stopping();
        if sleeps || looks >= NOTED_EACH {
            watches.pace.cost(looks, lookout.note_used());
            looks = 0;
        }
        if sleeps {
            lookout.sleep();
        } else {
            lookout.pause(pause);
        }
    }
    lookout.do_asked(true);
    shared.stacks.abandon();
    // From now on nobody looks at the workers.
    let seats = shared.seats.iter();
    seats.for_each(|seat| shared.desk_of(seat).demote());
}

fn parks(shared: &Shared) -> u64 {
    let seats = shared.seats.iter();
    seats.map(|seat| seat.accounts.parks.load()).sum()
}

/// Looks at each worker once. Returns when to look again.
fn look(shared: &Shared, watches: &mut Watches, start: &Starter<'_>) -> Duration {
    let clock = &shared.clock;
    let Some(after) = shared.live.hand_off_after() else {
        // Tasks that hogged before it was switched off may still be polled on guard.
        shared.monitor.goes_on_guard(clock);
        return help_stuck(shared);
    };
    watches.pace.go_by(after);
    let mut soonest = Duration::MAX;
    let expects_hogs = watches.pace.expects_hogs(clock.to_duration(clock.cycles()));
    for (worker, watch) in watches.each.iter_mut().enumerate() {
        let before = watch.dealt_with;
        let relies = !expects_hogs && is_looked_at(shared, worker, after);
        let again = look_at(shared, worker, watch, (after, relies), start);
        soonest = again.map_or(soonest, |again| again.min(soonest));
        // Polls that were long by the clock alone do not count, as where a host takes processors
        // away.
        if watch.dealt_with > before {
            watches.pace.found(clock.to_duration(watch.dealt_with));
        }
    }
    if shared.monitor.goes_on_guard(clock) {
        soonest = soonest.min(guard_after(after));
    }
    let now = clock.to_duration(clock.cycles());
    soonest.min(watches.pace.pause(now))
}

/// Whether another worker has lately looked around, and so at this one.
fn is_looked_at(shared: &Shared, worker: usize, after: Duration) -> bool {
    let others = shared.seats.iter().enumerate();
    let lately = shared.clock.cycles_of(after);
    let now = shared.clock.cycles();
    let mut others = others.filter(|&(other, _)| other != worker);
    others.any(|(_, seat)| now.saturating_sub(seat.looked_at.load()) < lately)
}

/// Looks at one worker. Returns when to look again, if that is sooner than usual: it need not be if
/// the monitor `relies` on other workers.
fn look_at(
    shared: &Shared,
    worker: usize,
    watch: &mut Watch,
    (after, relies): (Duration, bool),
    start: &Starter<'_>,
) -> Option<Duration> {
    let clock = &shared.clock;
    let desk = shared.desk_of(&shared.seats[worker]);
    let since = desk.tenure().polling_since();
    let guarded = desk.is_on_guard();
    let full = after;
    let after = if guarded { guard_after(after) } else { after };
    let cpu = desk.ask_thread(thread::cpu_time).flatten();
    let now = clock.cycles();
    let age = clock.to_duration(now.saturating_sub(since));
    watch.take_in(shared, since, now, cpu.unwrap_or_default());
    if since == 0 || (age < after / 2 && !guarded) {
        return None;
    }
    let relies = relies && !guarded;
    if age < after {
        return (!relies).then(|| after - age);
    }
    if watch.dealt_with > 0 && clock.to_duration(now.saturating_sub(watch.dealt_with)) < RETRY {
        help(shared);
        return Some(STUCK_AFTER);
    }
    let is_runnable = || desk.ask_thread(thread::is_runnable).flatten();
    // Other workers have seen it for longer, perhaps.
    let reported = || desk.observed.has_computed(since) && is_runnable() == Some(true);
    // Where processor time cannot be asked for, the clock alone has to do.
    let computes = cpu.is_none() || watch.used >= after / 2 || reported();
    if !computes {
        let first = !std::mem::replace(&mut watch.doubted, true);
        if !(first || watch.stood_still) || is_runnable() != Some(false) {
            // The kernel has not scheduled it, for which the task is not to blame.
            return ((first && !relies) || guarded).then_some(after);
        }
    }
    watch.dealt_with = now.max(1);
    // Before any step that may wait for a thread which could not run because of this one.
    desk.demote();
    let blocked = !computes;
    if age >= full && !desk.gives_up(since) {
        // Also if it ends before anybody takes its seat, it is a hog's: its stack will say so.
        desk.keep(since, blocked);
        let desk = shared.seats[worker].desk();
        let poll = PollId { desk, since };
        shared.stacks.catch(&shared.desks, poll, blocked);
    }
    let seat = Start::Seat(Stuck {
        worker,
        since,
        blocked,
        gives_up: false,
    });
    if !shared.heavy_pool.seems_to_have_room(blocked) || start(seat).is_err() {
        shared.heavy_pool.refuse();
        desk.keep(since, blocked);
        help(shared);
    }
    Some(STUCK_AFTER)
}

impl Watch {
    /// Records a look at the worker. If the poll has begun since the last look, it has used at
    /// least what the thread used since then beyond the time before the poll.
    fn take_in(&mut self, shared: &Shared, since: u64, now: u64, cpu: Duration) {
        let used = cpu.saturating_sub(self.cpu);
        self.stood_still = used.is_zero();
        if since == self.since {
            self.used += used;
        } else {
            let before = shared.clock.to_duration(since.saturating_sub(self.seen_at));
            self.used = used.saturating_sub(before);
            self.dealt_with = 0;
            self.doubted = false;
        }
        (self.since, self.seen_at, self.cpu) = (since, now, cpu);
    }
}

/// Starts threads that the pool wants, charges its polls, and has aborted tasks dropped. Returns
/// when to do so again; `None` if the pool is at rest.
fn tend_pool(
    shared: &Arc<Shared>,
    sampled_at: &mut Sampling,
    start: &Starter<'_>,
) -> Option<Duration> {
    let heavy_pool = &shared.heavy_pool;
    match heavy_pool.is_at_rest() {
        Some(false) => {}
        Some(true) => return None,
        None => return Some(STUCK_AFTER),
    }
    let now = shared.clock.to_duration(shared.clock.cycles());
    if now.saturating_sub(sampled_at.at) >= sampled_at.pause {
        let sampled = heavy_pool.sample(&shared.ledger, &shared.desks);
        let pause = if sampled.unsettled {
            STUCK_AFTER
        } else {
            SAMPLE
        };
        *sampled_at = Sampling { at: now, pause };
        // First, so that the reports find that there will be stacks.
        for (poll, blocked) in sampled.hogging {
            shared.stacks.catch(&shared.desks, poll, blocked);
        }
        let hogs = sampled.hogs.into_iter();
        hogs.for_each(|hog| shared.note_hog(hog));
    }
    // A drop runs the user's code, so a worker does it, unless the runtime ends.
    let aborted = heavy_pool.take_aborted(&shared.ledger).into_iter();
    aborted.for_each(|task| shared.push_outside(task));
    while heavy_pool.wants_thread() {
        if start(Start::HeavyThread).is_err() {
            heavy_pool.give_up_thread();
            break;
        }
    }
    // A thread that did not know yet that it had lost its seat may have left a task at its desk.
    // The other threads of the pool leave none, and there may be hundreds.
    for desk in heavy_pool.desks_of_losers().unwrap_or_default() {
        while let Some(task) = shared.desks.get(desk).take_any() {
            shared.push_outside(task);
        }
    }
    Some(sampled_at.pause)
}

/// When the pool's threads were last sampled, and how long until the next time.
#[derive(Clone, Copy, Debug)]
struct Sampling {
    at: Duration,
    pause: Duration,
}

/// Without hand-off: if a worker is stuck and there is work that another could do, wakes one of the
/// parked workers, which searches as always.
fn help_stuck(shared: &Shared) -> Duration {
    if !shared.seats.iter().any(|seat| is_stuck(shared, seat)) {
        return LOOK;
    }
    help(shared);
    STUCK_AFTER
}

fn help(shared: &Shared) {
    let now = shared.clock.cycles();
    let mut is_worth = shared.has_injected();
    for (worker, seat) in shared.seats.iter().enumerate() {
        if wants_help(shared, seat) {
            // What comes for its descriptors' tasks had better come to whoever runs them.
            shared.placement.note(worker, Level::Overloaded, now);
            is_worth = true;
        }
    }
    if is_worth {
        shared.wake_one();
    }
}

/// Whether the worker in a seat has been in one poll for long.
fn is_stuck(shared: &Shared, seat: &Seat) -> bool {
    shared.is_held_up(seat, STUCK_AFTER)
}

/// Whether there may be work at the seat of a stuck worker, which another could do.
fn wants_help(shared: &Shared, seat: &Seat) -> bool {
    is_stuck(shared, seat)
        && (!shared.desk_of(seat).is_clear()
            || seat.driver.has_descriptors()
            || seat.timers.next_due() <= shared.clock.tick())
}
