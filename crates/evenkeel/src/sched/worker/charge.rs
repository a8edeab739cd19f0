//! Charging CPU time to classes, and exchanging it with the other workers.

use crate::class::Class;
use crate::sched::ledger::Party;

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
        if self.shared.ledger.has_published(self.index) {
            self.settle();
            self.shared.ledger.publish(Party::Worker(self.index), 0);
        }
    }

    fn settle(&self) {
        let mut shares = self.shares.borrow_mut();
        let (waiting, served) = (shares.waiting(), shares.served());
        self.accounts()
            .note_waiting(waiting, served, self.now.get());
        self.shared.ledger.exchange(self.index, &mut shares);
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
