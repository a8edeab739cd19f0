//! Which descriptor an event belongs to: the pure core of a readiness queue.
//!
//! The kernel returns a token with each event. A token names a slot and the slot's generation, so
//! that an event that is still on its way when its descriptor is closed cannot reach the next
//! descriptor in the same slot. (mio#172 and others: events delivered to a reused token.)

/// A slot and its generation, packed into the number that travels through the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Token(pub(crate) usize);

const INDEX_BITS: u32 = 32;
const INDEX_MASK: usize = (1 << INDEX_BITS) - 1;
/// One generation fewer than fit, so that no token is `usize::MAX`, the worker's wake-up.
const GENERATIONS: usize = (1 << (usize::BITS - INDEX_BITS)) - 1;

impl Token {
    fn new(index: usize, generation: usize) -> Self {
        debug_assert!(index <= INDEX_MASK && generation < GENERATIONS);
        Token(generation << INDEX_BITS | index)
    }

    fn index(self) -> usize {
        self.0 & INDEX_MASK
    }

    fn generation(self) -> usize {
        self.0 >> INDEX_BITS
    }
}

#[derive(Debug)]
struct Slot<T> {
    generation: usize,
    value: Option<T>,
}

/// The registered descriptors of one readiness queue.
#[derive(Debug)]
pub(crate) struct Slots<T> {
    slots: Vec<Slot<T>>,
    free: Vec<usize>,
}

impl<T> Slots<T> {
    pub(crate) fn new() -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
        }
    }

    /// Takes a slot, which is in use until [`remove`](Slots::remove).
    pub(crate) fn insert(&mut self, value: T) -> Token {
        match self.free.pop() {
            Some(index) => {
                let slot = &mut self.slots[index];
                debug_assert!(slot.value.is_none(), "slot {index} is free and in use");
                slot.value = Some(value);
                Token::new(index, slot.generation)
            }
            None => {
                self.slots.push(Slot {
                    generation: 0,
                    value: Some(value),
                });
                Token::new(self.slots.len() - 1, 0)
            }
        }
    }

    /// The value of the token, unless it was removed meanwhile.
    pub(crate) fn resolve(&self, token: Token) -> Option<&T> {
        let slot = self.slots.get(token.index())?;
        if slot.generation == token.generation() {
            slot.value.as_ref()
        } else {
            None
        }
    }

    /// Frees the slot. Its next user gets another token.
    pub(crate) fn remove(&mut self, token: Token) -> Option<T> {
        let slot = self.slots.get_mut(token.index())?;
        if slot.generation != token.generation() {
            return None;
        }
        let value = slot.value.take()?;
        slot.generation = (slot.generation + 1) % GENERATIONS;
        self.free.push(token.index());
        debug_assert!(self.free.len() <= self.slots.len());
        Some(value)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.slots.iter().filter_map(|slot| slot.value.as_ref())
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }
}

#[cfg(all(test, not(evenkeel_loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Clone, Debug)]
    enum Op {
        Insert,
        Remove(usize),
        Event(usize),
    }

    fn op() -> impl Strategy<Value = Op> {
        prop_oneof![
            Just(Op::Insert),
            any::<usize>().prop_map(Op::Remove),
            any::<usize>().prop_map(Op::Event),
        ]
    }

    proptest! {
        /// A token resolves to its own value while it is registered, and to nothing afterwards,
        /// even if its slot is in use again.
        #[test]
        fn a_stale_token_reaches_nobody(ops in prop::collection::vec(op(), 1..200)) {
            let mut slots = Slots::new();
            let mut given: Vec<(Token, Option<usize>)> = Vec::new();
            for op in ops {
                match op {
                    Op::Insert => {
                        let value = given.len();
                        let token = slots.insert(value);
                        prop_assert!(given.iter().all(|(other, _)| *other != token));
                        given.push((token, Some(value)));
                    }
                    Op::Remove(pick) if !given.is_empty() => {
                        let pick = pick % given.len();
                        let (token, value) = &mut given[pick];
                        prop_assert_eq!(slots.remove(*token), value.take());
                    }
                    Op::Event(pick) if !given.is_empty() => {
                        let (token, value) = &given[pick % given.len()];
                        prop_assert_eq!(slots.resolve(*token), value.as_ref());
                    }
                    _ => {}
                }
                let live = given.iter().filter(|(_, value)| value.is_some()).count();
                prop_assert_eq!(slots.len(), live);
                prop_assert_eq!(slots.iter().count(), live);
            }
        }
    }

    #[test]
    fn no_token_is_the_wakers() {
        let token = Token::new(INDEX_MASK, GENERATIONS - 1);
        assert_ne!(token.0, usize::MAX);
    }
}
