//! Slots in which a signal's handler leaves what it found for the thread that asked.
//!
//! The asker takes a free slot and sends its [`Ticket`] with a signal. The handler fills the slot,
//! and the asker collects what is there, or gives up. A ticket is good for one use: a handler that
//! comes after the asker gave up finds another generation, and touches nothing.
//!
//! A slot is free, held by one thread that may touch its content, asked for, or filled. All that a
//! handler does here is safe in one: it neither waits, allocates nor panics.
#![allow(unsafe_code, reason = "one thread at a time has a slot's content")]

use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::cell::UnsafeCell;

const FREE: u64 = 0;
const HELD: u64 = 1;
const ASKED: u64 = 2;
const FILLED: u64 = 3;
/// The phases take two bits of a slot's state. The generation has the others.
const PHASES: u64 = 4;

#[derive(Debug)]
pub(crate) struct Slots<T, const N: usize>(pub(crate) [Slot<T>; N]);

#[derive(Debug)]
pub(crate) struct Slot<T> {
    state: AtomicU64,
    content: UnsafeCell<T>,
}

// SAFETY: the content is touched by the one thread that holds the slot. Each hand-over passes
// through `state` with Release and Acquire.
unsafe impl<T: Send, const N: usize> Sync for Slots<T, N> {}

/// The right to fill one slot once, as a number that a signal can carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket(u64);

impl Ticket {
    const INDEX_MAX: u64 = 255;

    pub(crate) fn number(self) -> u64 {
        self.0
    }

    pub(crate) fn of_number(number: u64) -> Self {
        Self(number)
    }

    fn new(index: usize, generation: u64) -> Self {
        Self(generation << 8 | index as u64)
    }

    fn index(self) -> usize {
        (self.0 & Self::INDEX_MAX) as usize
    }

    fn state(self, phase: u64) -> u64 {
        (self.0 >> 8).wrapping_mul(PHASES).wrapping_add(phase)
    }

    /// The state of its slot when this ticket is used up.
    fn next_free(self) -> u64 {
        self.state(FREE).wrapping_add(PHASES)
    }
}

impl<T> Slot<T> {
    #[cfg(not(evenkeel_loom))]
    pub(crate) const fn new(content: T) -> Self {
        Self {
            state: AtomicU64::new(FREE),
            content: UnsafeCell::new(content),
        }
    }

    #[cfg(evenkeel_loom)]
    fn new(content: T) -> Self {
        Self {
            state: AtomicU64::new(FREE),
            content: UnsafeCell::new(content),
        }
    }

    /// Moves on from one state to another. Returns whether it was in the first.
    fn moves(&self, from: u64, to: u64) -> bool {
        // AcqRel: Acquire pairs with the Release of whoever held the slot before, here or in
        // `hands_on`; Release publishes what this thread did with it.
        let moved = self
            .state
            .compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed);
        moved.is_ok()
    }

    /// Ends the holder's turn.
    fn hands_on(&self, to: u64) {
        // Release pairs with the Acquire in `moves`.
        self.state.store(to, Ordering::Release);
    }

    /// For the holder.
    fn touch<R>(&self, touch: impl FnOnce(&mut T) -> R) -> R {
        // SAFETY: only the thread that holds the slot calls this, between the `moves` that made it
        // the holder and its `hands_on`.
        self.content
            .with_mut(|content| touch(unsafe { &mut *content }))
    }
}

impl<T, const N: usize> Slots<T, N> {
    /// Takes a free slot, and puts into it what the handler has to know. `None` if all are in use.
    pub(crate) fn ask(&self, prepare: impl FnOnce(&mut T)) -> Option<Ticket> {
        let (slot, ticket) = self.0.iter().enumerate().find_map(|(index, slot)| {
            // Relaxed: `moves` finds out whether this is still so.
            let state = slot.state.load(Ordering::Relaxed);
            let ticket = Ticket::new(index, state / PHASES);
            let taken = state % PHASES == FREE && slot.moves(state, ticket.state(HELD));
            taken.then_some((slot, ticket))
        })?;
        slot.touch(prepare);
        slot.hands_on(ticket.state(ASKED));
        Some(ticket)
    }

    /// For the handler: fills the slot, unless the asker has given up. Any ticket will do, also one
    /// that never was.
    pub(crate) fn fill(&self, ticket: Ticket, fill: impl FnOnce(&mut T)) -> bool {
        let Some(slot) = self.0.get(ticket.index()) else {
            return false;
        };
        if !slot.moves(ticket.state(ASKED), ticket.state(HELD)) {
            return false;
        }
        slot.touch(fill);
        slot.hands_on(ticket.state(FILLED));
        true
    }

    /// For the asker: reads what the handler left, and frees the slot. `None` if it has left
    /// nothing yet.
    pub(crate) fn collect<R>(&self, ticket: Ticket, read: impl FnOnce(&mut T) -> R) -> Option<R> {
        let slot = &self.0[ticket.index()];
        if !slot.moves(ticket.state(FILLED), ticket.state(HELD)) {
            return None;
        }
        let result = slot.touch(read);
        slot.hands_on(ticket.next_free());
        Some(result)
    }

    /// For the asker: frees the slot, unless a handler is at it. Returns whether the ticket is used
    /// up.
    pub(crate) fn give_up(&self, ticket: Ticket) -> bool {
        let slot = &self.0[ticket.index()];
        let frees = |phase| slot.moves(ticket.state(phase), ticket.next_free());
        // Relaxed: the asker itself has freed it before, or nobody has.
        let state = || slot.state.load(Ordering::Relaxed);
        let is_over = || state() / PHASES != ticket.state(FREE) / PHASES;
        frees(ASKED) || frees(FILLED) || is_over()
    }
}

#[cfg(all(test, evenkeel_loom))]
mod models {
    use super::*;
    use crate::sync::models::{model, role, roles};
    use crate::sync::{Arc, thread};

    /// Asks, and gives up at once or takes the answer.
    fn ask_briefly(slots: &Slots<u32, 1>, question: u32) -> Option<u32> {
        let ticket = slots.ask(|content| *content = question);
        let ticket = ticket.expect("the slot is free");
        assert!(slots.ask(|_| {}).is_none(), "the slot is in use");
        let answer = slots.collect(ticket, |content| *content);
        while !slots.give_up(ticket) {
            thread::yield_now();
        }
        answer
    }

    fn answer(slots: &Slots<u32, 1>, generation: u64) {
        slots.fill(Ticket::new(0, generation), |content| *content += 10);
    }

    /// The handler runs at any time, also after the asker gave up and asked anew.
    #[test]
    fn a_late_handler_answers_no_later_question() {
        model(|| {
            let slots = Arc::new(Slots([Slot::new(0_u32)]));
            let [asker, handler] = [(); 2].map(|()| Arc::clone(&slots));
            roles(
                [
                    role(move || {
                        let answers = [1, 2].map(|question| ask_briefly(&asker, question));
                        assert!(matches!(answers[0], None | Some(11)), "{answers:?}");
                        assert_eq!(answers[1], None, "nobody has answered that");
                    }),
                    role(move || answer(&handler, 0)),
                ],
                |_| {},
            )
        });
    }

    /// Two handlers have one ticket, as none ever should.
    #[test]
    fn one_handler_answers() {
        model(|| {
            let slots = Arc::new(Slots([Slot::new(0_u32)]));
            let [asker, first, second] = [(); 3].map(|()| Arc::clone(&slots));
            roles(
                [
                    role(move || {
                        let found = ask_briefly(&asker, 1);
                        assert!(matches!(found, None | Some(11)), "{found:?}");
                    }),
                    role(move || answer(&first, 0)),
                    role(move || answer(&second, 0)),
                ],
                |_| {},
            )
        });
    }
}

#[cfg(all(test, not(evenkeel_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_is_good_for_one_answer() {
        let slots = Slots([const { Slot::new(0) }; 2]);
        let ticket = slots.ask(|content| *content = 1).unwrap();
        assert_eq!(slots.collect(ticket, |content| *content), None);
        assert!(slots.fill(ticket, |content| *content += 1));
        assert!(!slots.fill(ticket, |_| unreachable!("it was filled")));
        assert_eq!(slots.collect(ticket, |content| *content), Some(2));
        assert_eq!(slots.collect(ticket, |content| *content), None);
        assert!(slots.give_up(ticket), "it is used up");
        let again = slots.ask(|_| {}).unwrap();
        assert_ne!(again, ticket);
        assert!(!slots.fill(ticket, |_| unreachable!("it is of another generation")));
        assert!(slots.give_up(again));
    }

    #[test]
    fn a_number_that_is_no_ticket_does_no_harm() {
        let slots = Slots([const { Slot::new(0) }; 2]);
        let _ticket = slots.ask(|_| {}).unwrap();
        for number in [2, 255, 256, u64::MAX, 1] {
            assert!(!slots.fill(Ticket::of_number(number), |_| unreachable!("{number}")));
        }
    }

    #[test]
    fn when_all_are_in_use_there_is_no_ticket() {
        let slots = Slots([const { Slot::new(0) }; 2]);
        let [first, _] = [(); 2].map(|()| slots.ask(|_| {}).unwrap());
        assert!(slots.ask(|_| {}).is_none());
        assert!(slots.give_up(first));
        assert!(slots.ask(|_| {}).is_some());
    }
}
