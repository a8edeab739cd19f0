//! Stacks of this thread, and their bookkeeping.

use std::panic::Location;

use super::*;
use crate::class::Class;
use crate::sched::task::cell::{Attributes, Header, Runnable, Schedule, new_task};

struct Never;

impl Schedule for Never {
    fn schedule(&self, _: Runnable) {
        unreachable!("the task is never woken")
    }
}

/// Takes an event in the place of whichever thread does, and is done with it.
fn next(stacks: &Stacks) -> Option<Event> {
    let server = stacks.state.lock().server;
    let event = stacks.next(server, false);
    assert!(stacks.put_down(server, || ()));
    event
}

fn attributes() -> Attributes {
    Attributes {
        class: Class::BULK,
        spawned_at: Location::caller(),
        name: None,
    }
}

fn end_of(since: u64, length: u64) -> Ended {
    Ended {
        poll: PollId { desk: 0, since },
        class: Class::BULK,
        length,
        blocked: false,
    }
}

fn report_of(task: &Runnable, poll: PollId, clock: Clock) -> HogReport {
    let kinds = crate::sched::kinds::Kinds::new();
    let hog = crate::sched::hog::Hog::of(task.header(), poll, 1, false);
    let row = kinds.hogged(&hog.kind, clock.cycles(), 1).unwrap();
    hog.report(&row, &clock)
}

/// Begins a poll of this thread's, whose stack is taken. Returns when it began.
fn caught_poll(stacks: &Stacks, desks: &Desks, clock: Clock, task: &Header) -> u64 {
    let since = clock.cycles();
    desks.get(0).begin_poll(task, since);
    let began = clock.instant();
    let caught = loop {
        stacks.catch(desks, PollId { desk: 0, since }, false);
        while stacks.collect(desks) {}
        if let Some(event) = next(stacks) {
            break event;
        }
        let waited = began.elapsed();
        assert!(waited < Duration::from_secs(60), "no stack is taken");
    };
    assert!(matches!(caught, Event::Caught(it) if it.kind.class == Class::BULK));
    since
}

/// A poll of this thread's whose stack was taken is over, and the lock is taken when its thread
/// would tell that, if it does. Returns the length that is known in the end.
fn length_of_poll(tells: Option<u64>) -> u64 {
    let (clock, desks) = (Clock::start(), Desks::new(1, 3));
    let stacks = Stacks::new(true, clock);
    let (task, _join) = new_task(async {}, Never, attributes());
    let desk = desks.get(0);
    desk.sit();
    let since = caught_poll(&stacks, &desks, clock, task.header());
    let _ = desk.tenure().end_poll();
    if let Some(length) = tells {
        let lock = stacks.state.lock();
        assert!(stacks.ended(desk, end_of(since, length)));
        drop(lock);
    }
    while stacks.collect(&desks) {}
    desk.rise();
    task.cancel(|_| ());
    let Some(Event::Ended { end, .. }) = next(&stacks) else {
        panic!("its end is not known");
    };
    assert!(next(&stacks).is_none() && stacks.unknown().is_empty());
    end.length
}

#[test]
fn an_end_that_cannot_be_told_is_found() {
    assert_eq!(length_of_poll(Some(1 << 40)), 1 << 40);
    assert!((1..1 << 40).contains(&length_of_poll(None)), "at its stack");
}

/// A thread that lost its seat tells of its poll when that is over. As a hog's it has a low
/// priority, and may take any time.
#[test]
fn who_lost_the_seat_in_a_poll_has_any_time_to_tell_its_end() {
    let (clock, desks) = (Clock::start(), Desks::new(1, 3));
    let stacks = Stacks::new(true, clock);
    let desk = desks.get(0);
    let (task, _join) = new_task(async {}, Never, attributes());
    desk.sit();
    let since = caught_poll(&stacks, &desks, clock, task.header());
    assert!(desk.tenure().claim(since).is_some());
    assert!(!desk.tenure().end_poll());
    for _ in 0..3 {
        assert!(stacks.collect(&desks), "it is still to come");
    }
    assert!(next(&stacks).is_none(), "nobody knows how long it took");
    let end = end_of(since, 1 << 40);
    assert!(stacks.ended(desk, end));
    desk.tenure().tell();
    assert!(!stacks.collect(&desks));
    let told = next(&stacks);
    assert!(matches!(told, Some(Event::Ended { end: it, .. }) if it == end));
    assert!(next(&stacks).is_none(), "once");
    assert!(stacks.unknown().is_empty());
    desk.rise();
    task.cancel(|_| ());
}

/// Whether the lock is free or not, and whoever looks when: no end is lost or counted twice.
#[test]
fn polls_without_a_stack_are_counted_by_their_class() {
    let (clock, desks) = (Clock::start(), Desks::new(1, 3));
    let stacks = Stacks::new(true, clock);
    let desk = desks.get(0);
    let told: Vec<u64> = (1..=4).collect();
    assert!(!stacks.ended(desk, end_of(1, told[0])));
    let lock = stacks.state.lock();
    // The first of these stays at the desk.
    assert!(stacks.ended(desk, end_of(2, told[1])));
    assert!(stacks.ended(desk, end_of(3, told[2])));
    drop(lock);
    assert!(!stacks.ended(desk, end_of(4, told[3])));
    while stacks.collect(&desks) {}
    let expected = UnknownPolls {
        class: Class::BULK,
        polls: 4,
        blocked: 0,
        total: told.iter().sum(),
        longest: 4,
    };
    assert_eq!(stacks.unknown(), [expected]);
}

/// The end of a poll comes to its desk just when its stack is to be taken.
#[test]
fn a_poll_that_ends_while_it_is_caught_is_counted_once() {
    let (clock, desks) = (Clock::start(), Desks::new(1, 3));
    let stacks = Stacks::new(true, clock);
    let desk = desks.get(0);
    let (task, _join) = new_task(async {}, Never, attributes());
    desk.sit();
    let since = clock.cycles();
    desk.begin_poll(task.header(), since);
    let lock = stacks.state.lock();
    assert!(stacks.ended(desk, end_of(since, 5)));
    drop(lock);
    stacks.catch(&desks, PollId { desk: 0, since }, false);
    let _ = desk.tenure().end_poll();
    for _ in 0..3 {
        stacks.collect(&desks);
    }
    let unknown = stacks.unknown();
    assert_eq!((unknown[0].polls, unknown[0].total), (1, 5));
    assert!(next(&stacks).is_none(), "it was over");
    desk.rise();
    task.cancel(|_| ());
}

#[test]
fn only_a_thread_that_certainly_runs_may_be_signalled() {
    let runs = [Some(true), Some(false), None];
    let may = runs.map(|runs| may_be_signalled(|| runs));
    assert_eq!(may, [true, false, false]);
}

/// A poll without a stack, though several were due, is one poll.
#[test]
fn a_poll_that_is_skipped_again_and_again_counts_once() {
    let (clock, desks) = (Clock::start(), Desks::new(1, 3));
    let stacks = Stacks::new(true, clock);
    let desk = desks.get(0);
    let (task, _join) = new_task(async {}, Never, attributes());
    desk.sit();
    for polls in 1..=2 {
        let since = clock.cycles();
        desk.begin_poll(task.header(), since);
        for _ in 0..5 {
            let mut state = stacks.state.lock();
            (state.allowed, state.reckoned_at) = (0.0, clock.cycles());
            drop(state);
            stacks.catch(&desks, PollId { desk: 0, since }, false);
            // A catch may come so late that a stack is allowed again.
            if stacks.counts().taken > 0 {
                return;
            }
        }
        assert_eq!(stacks.counts().skipped, polls);
        let _ = desk.tenure().end_poll();
    }
    desk.rise();
    task.cancel(|_| ());
}

/// Without the thread that makes names reports go without, and it is tried again.
#[test]
fn reports_go_unnamed_while_nobody_can_make_names() {
    let (clock, desks) = (Clock::start(), Desks::new(1, 3));
    let stacks = Stacks::new(true, clock);
    let desk = desks.get(0);
    let (task, _join) = new_task(async {}, Never, attributes());
    desk.sit();
    let since = caught_poll(&stacks, &desks, clock, task.header());
    let poll = PollId { desk: 0, since };
    let report = || report_of(&task, poll, clock);
    // As the stack was taken out, the poll is only watched.
    assert!(stacks.keep_report(poll, report()).is_none());
    assert!(stacks.wants_server().is_some());
    assert_eq!(stacks.refuse_serving().len(), 1, "delivered without a name");
    assert!(!stacks.is_served());
    assert!(stacks.keep_report(poll, report()).is_some(), "so is this");
    assert_eq!(stacks.counts().unnamed, 2);
    // The poll's end has no name either.
    assert!(stacks.ended(desk, end_of(since, 1_000)));
    assert_eq!(stacks.refuse_serving().len(), 0);
    assert_eq!(stacks.unknown()[0].total, 1_000);
    // The time is over.
    stacks.state.lock().refused_until = 0;
    let _ = desk.tenure().end_poll();
    let since = caught_poll(&stacks, &desks, clock, task.header());
    assert!(
        stacks
            .keep_report(PollId { desk: 0, since }, report())
            .is_none()
    );
    assert!(stacks.wants_server().is_some(), "it is tried again");
    let _ = desk.tenure().end_poll();
    desk.rise();
    task.cancel(|_| ());
}

/// A queue with the end of a poll, which stands for so many cycles.
fn stacks_worth(cycles: u64) -> Stacks {
    let (clock, desks) = (Clock::start(), Desks::new(1, 3));
    let stacks = Stacks::new(true, clock);
    let (task, _join) = new_task(async {}, Never, attributes());
    let desk = desks.get(0);
    desk.sit();
    let since = caught_poll(&stacks, &desks, clock, task.header());
    let reached = stacks.state.lock().watched[0].reached;
    stacks.state.lock().waiting = 0;
    let _ = desk.tenure().end_poll();
    assert!(stacks.ended(desk, end_of(since, reached + cycles)));
    desk.rise();
    task.cancel(|_| ());
    stacks
}

#[test]
fn names_are_made_when_hogs_cost_as_much_or_somebody_asks() {
    let worth = Clock::start().cycles_of(WORTH_NAMES);
    assert!(stacks_worth(worth).wants_server().is_some());

    let stacks = stacks_worth(worth / 2);
    assert!(stacks.wants_server().is_none(), "too little");
    assert!(stacks.ask_for(), "some wait for it");
    assert!(stacks.wants_server().is_some());
    assert!(stacks.wants_server().is_none(), "there is one");
    assert!(!stacks.ask_for(), "it was asked before");
}

/// The end of a poll, and a stack, which the first thread has in hand.
#[test]
fn who_takes_over_has_the_stack_that_the_other_has_in_hand() {
    let stacks = stacks_worth(Clock::start().cycles_of(WORTH_NAMES));
    let first = stacks.wants_server().unwrap();
    let is_end = |event| matches!(event, Some(Event::Ended { .. }));
    assert!(is_end(stacks.next(first, false)));
    let TakeOver::Done(first) = stacks.take_over() else {
        panic!("the end is not counted");
    };
    assert!(is_end(stacks.next(first, false)));
    // Until it is counted, nobody finds that there is nothing to do.
    stacks.state.lock().hurries = false;
    assert!(stacks.put_down(first, || assert_eq!(stacks.take_over(), TakeOver::Busy)));
    assert!(stacks.next(first, false).is_none());
    assert_eq!(stacks.take_over(), TakeOver::NothingToDo);
    let (clock, desks) = (Clock::start(), Desks::new(1, 3));
    let (task, _join) = new_task(async {}, Never, attributes());
    let desk = desks.get(0);
    desk.sit();
    let since = clock.cycles();
    desk.begin_poll(task.header(), since);
    let began = clock.instant();
    let in_hand = loop {
        stacks.catch(&desks, PollId { desk: 0, since }, false);
        while stacks.collect(&desks) {}
        if let Some(Event::Caught(caught)) = stacks.next(first, false) {
            break caught;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "no stack");
    };
    let TakeOver::Done(second) = stacks.take_over() else {
        panic!("it has to be named");
    };
    assert_eq!(stacks.take_over(), TakeOver::Busy, "it is at it");
    assert!(stacks.next(first, false).is_none() && !stacks.is_server(first));
    let again = stacks.next(second, true);
    assert!(matches!(again, Some(Event::Caught(it)) if Arc::ptr_eq(&it, &in_hand)));
    assert!(!stacks.put_down(first, || unreachable!("it would count twice")));
    assert!(stacks.put_down(second, || ()));
    assert!(stacks.next(second, true).is_none() && !stacks.is_served());
    assert_eq!(stacks.take_over(), TakeOver::NothingToDo);
    let _ = desk.tenure().end_poll();
    desk.rise();
    task.cancel(|_| ());
}
