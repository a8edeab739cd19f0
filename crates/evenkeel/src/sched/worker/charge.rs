//! Charging CPU time to classes, and exchanging it with the other workers.

use crate::class::Class;
use crate::sched::ledger::Published;

use super::Worker;

impl Worker {
    #[inline]
    pub(super) fn charge_class(&self, class: Class, length: u64) {
        let unsettled = self.shares.borrow_mut().charge(class, length);
        if unsettled >= self.bounds.exchange {
            self.lending.begin_anew();
            self.exchange();
        }
    }

    /// Publishes what was spent here, and reads what the others spent. If a class without work here
    /// is owed the most, steals work of it.
    pub(super) fn exchange(&self) {
        self.settle();
        let owed = self.shares.borrow().owed_elsewhere();
        if let Some(class) = owed {
            self.steal_of(class);
        }
    }

    /// Publishes what was spent here, and that no class has work here. For a worker about to sleep.
    pub(super) fn retire(&self) {
        if self.published() != Published::default() {
            self.settle();
            let mut published = self.published();
            self.shared.ledger.publish(&mut published, 0);
            self.seat.published.put(published.bits());
        }
    }

    fn settle(&self) {
        let now = self.now.get();
        self.note_served(self.shares.borrow().served(), now);
        let mut published = self.published();
        let mut shares = self.shares.borrow_mut();
        self.shared.ledger.exchange(&mut shares, &mut published);
        self.seat.published.put(published.bits());
    }

    /// Records that no task of these classes has been waiting here since before `now`.
    pub(super) fn note_served(&self, classes: impl Iterator<Item = Class>, now: u64) {
        for class in classes {
            self.accounts().note_served(class, now);
        }
    }

    /// What was last published for this seat, by this thread or its predecessor.
    fn published(&self) -> Published {
        Published::of_bits(self.seat.published.load())
    }

    /// Steals tasks of one class from another worker.
    fn steal_of(&self, class: Class) {
        let seats = self.shared.seats.iter().enumerate();
        let others = seats.filter(|&(index, _)| index != self.index);
        let stolen = others
            .map(|(_, seat)| self.shared.desk_of(seat))
            .map(|desk| desk.run_queues.steal_into(class, &self.desk.run_queues))
            .find(|&count| count > 0);
        if let Some(count) = stolen {
            self.accounts().steals.add(count as u64);
            self.note_ready(class);
        }
    }
}
