//! A machine of many workers in virtual time, with the rules of `sched::worker`: what shares and
//! ledger make of tasks that lie in queues of single workers, and have to be stolen.
//!
//! # What it shows
//!
//! - Over any second, each class that can use its share has it to within [`ERROR_MAX`] of all time,
//!   from 1 to 128 workers; and however little of its share a class can use, the others divide what
//!   it leaves to within the same.
//! - A task of an urgent class that uses less than its share waits at most [`WAIT_MAX`] in 99
//!   cases of 100, for the rest of the poll that is under way. Where one task is entitled to more
//!   than one processor, it has that one to itself, and what else is queued there waits until a
//!   worker takes it, which is after one of its next polls: at most [`WAIT_MAX_BESIDE_FEW`].

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::*;

/// How much a class's part of all time may be off, over any second.
const ERROR_MAX: f64 = 0.02;
const WAIT_MAX: u64 = POLL_MAX;
const WAIT_MAX_BESIDE_FEW: u64 = 4 * POLL_MAX;
const POLL_MIN: u64 = 10 * US;
const POLL_MAX: u64 = MS;
/// Before this time, tasks spread from where they began.
const WARM_UP: u64 = 200 * MS;
const END: u64 = 1_300 * MS;
/// The second is any that begins at a multiple of this.
const STRIDE: u64 = 100 * MS;
const STEAL_MAX: usize = 64;
/// How long a worker without work sleeps at most.
const NAP: u64 = 100 * US;

/// Where the tasks of a class are to begin with, and how many there are.
#[derive(Clone, Copy, Debug)]
enum Load {
    /// As many at each worker, always with more to do.
    Everywhere(usize),
    /// That many for each worker, all at the first.
    Piled(usize),
    /// So many in all.
    Few(usize),
    /// Each worker gets one after a random time of this mean, for a poll of at most 100 us.
    Sparse(u64),
}

#[derive(Clone, Copy, Debug)]
struct Task {
    class: Class,
    /// It has no more to do after a poll.
    once: bool,
    queued_at: u64,
}

struct Seat {
    shares: Shares,
    queues: Vec<VecDeque<Task>>,
    poll: Option<(Task, u64)>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Event {
    Worker(usize),
    Arrival(usize, usize),
}

struct Mix {
    name: &'static str,
    classes: Vec<(Term, Load)>,
}

struct Simulation {
    ledger: Ledger,
    seats: Vec<Seat>,
    events: BinaryHeap<Reverse<(u64, Event)>>,
    classes: Vec<(Term, Load)>,
    now: u64,
    random: Random,
    /// What each class got in each stride.
    got: Vec<Vec<u64>>,
    idle: u64,
    waits: Vec<u64>,
}

impl Simulation {
    fn new(workers: usize, classes: &[(Term, Load)]) -> Self {
        let terms: Vec<Term> = classes.iter().map(|&(term, _)| term).collect();
        let ledger = Ledger::new(limits(workers), &terms);
        let strides = (END / STRIDE) as usize + 1;
        let mut simulation = Self {
            seats: (0..workers)
                .map(|_| Seat {
                    shares: ledger.view(),
                    queues: vec![VecDeque::new(); classes.len()],
                    poll: None,
                })
                .collect(),
            ledger,
            events: BinaryHeap::new(),
            classes: classes.to_vec(),
            now: 0,
            random: Random(workers as u64),
            got: vec![vec![0; strides]; classes.len()],
            idle: 0,
            waits: Vec::new(),
        };
        (0..classes.len()).for_each(|index| simulation.load(index));
        (0..workers).for_each(|seat| simulation.at(0, Event::Worker(seat)));
        simulation
    }

    fn load(&mut self, index: usize) {
        let workers = self.seats.len();
        match self.classes[index].1 {
            Load::Everywhere(count) => {
                (0..count * workers).for_each(|task| self.queue(task % workers, index, false));
            }
            Load::Piled(count) => (0..count * workers).for_each(|_| self.queue(0, index, false)),
            Load::Few(count) => (0..count).for_each(|_| self.queue(workers - 1, index, false)),
            Load::Sparse(mean) => (0..workers).for_each(|seat| self.expect(seat, index, mean)),
        }
    }

    fn at(&mut self, time: u64, event: Event) {
        self.events.push(Reverse((time, event)));
    }

    fn expect(&mut self, seat: usize, index: usize, mean: u64) {
        let gap = self.random.below(2 * mean);
        self.at(self.now + gap, Event::Arrival(seat, index));
    }

    fn queue(&mut self, seat: usize, index: usize, once: bool) {
        let class = Class::at(index);
        let seat = &mut self.seats[seat];
        seat.queues[index].push_back(Task {
            class,
            once,
            queued_at: self.now,
        });
        seat.shares.wake(class);
    }

    fn run(&mut self) {
        while let Some(Reverse((time, event))) = self.events.pop() {
            if time >= END {
                break;
            }
            self.now = time;
            match event {
                Event::Worker(seat) => self.work(seat),
                Event::Arrival(seat, index) => {
                    self.queue(seat, index, true);
                    if let Load::Sparse(mean) = self.classes[index].1 {
                        self.expect(seat, index, mean);
                    }
                }
            }
        }
    }

    fn work(&mut self, index: usize) {
        self.end_poll(index);
        let task = self.next(index).or_else(|| {
            let seat = &mut self.seats[index];
            if self.ledger.has_published(index) {
                self.ledger.exchange(index, &mut seat.shares);
            }
            self.search(index);
            self.next(index)
        });
        let Some(task) = task else {
            self.idle += NAP;
            return self.at(self.now + NAP, Event::Worker(index));
        };
        let most = if task.once { 100 * US } else { POLL_MAX };
        let length = self.random.between(POLL_MIN, most);
        if task.once && self.now >= WARM_UP {
            self.waits.push(self.now - task.queued_at);
        }
        self.seats[index].poll = Some((task, length));
        self.at(self.now + length, Event::Worker(index));
    }

    fn end_poll(&mut self, index: usize) {
        let seat = &mut self.seats[index];
        let Some((task, length)) = seat.poll.take() else {
            return;
        };
        self.got[task.class.index()][(self.now / STRIDE) as usize] += length;
        if seat.shares.charge(task.class, length) >= EXCHANGE {
            self.ledger.exchange(index, &mut seat.shares);
            if let Some(class) = seat.shares.owed_elsewhere() {
                let start = self.random.next() as usize;
                self.steal(index, class, start);
            }
        }
        if !task.once {
            self.queue(index, task.class.index(), false);
        }
    }

    fn next(&mut self, index: usize) -> Option<Task> {
        let seat = &mut self.seats[index];
        while let Some(next) = seat.shares.first() {
            let Choice::Here(class) = next else {
                unreachable!("nothing is in the pool")
            };
            if let Some(task) = seat.queues[class.index()].pop_front() {
                return Some(task);
            }
            seat.shares.rest(class);
        }
        None
    }

    /// Steals half of what some other worker has of a class, the first that has any.
    fn steal(&mut self, thief: usize, class: Class, start: usize) -> bool {
        let workers = self.seats.len();
        let victims = (0..workers).map(|offset| (start + offset) % workers);
        for victim in victims.filter(|&victim| victim != thief) {
            let queue = &mut self.seats[victim].queues[class.index()];
            let count = queue.len().div_ceil(2).min(STEAL_MAX);
            if count > 0 {
                let tasks: Vec<Task> = queue.drain(..count).collect();
                let seat = &mut self.seats[thief];
                seat.queues[class.index()].extend(tasks);
                seat.shares.wake(class);
                return true;
            }
        }
        false
    }

    fn search(&mut self, thief: usize) {
        let workers = self.seats.len();
        let start = self.random.next() as usize;
        let victims = (0..workers).map(|offset| (start + offset) % workers);
        for victim in victims.filter(|&victim| victim != thief) {
            for class in (0..self.classes.len()).map(Class::at) {
                if self.seats[victim].queues[class.index()].is_empty() {
                    continue;
                }
                self.steal(thief, class, victim);
                return;
            }
        }
    }

    /// The worst error of any class over any second, as a part of all time.
    fn error(&self) -> f64 {
        let strides = (SECOND / STRIDE) as usize;
        let first = (WARM_UP / STRIDE) as usize;
        let last = (END / STRIDE) as usize - strides;
        let errors = (first..=last).map(|begin| {
            let sum = |got: &Vec<u64>| got[begin..begin + strides].iter().sum::<u64>() as f64;
            let got: Vec<f64> = self.got.iter().map(sum).collect();
            let total: f64 = got.iter().sum();
            let pairs = got.iter().zip(self.due(total, &got));
            pairs
                .map(|(got, due)| (got - due).abs() / total)
                .fold(0.0, f64::max)
        });
        errors.fold(0.0, f64::max)
    }

    /// What each class is entitled to, of `total`. One that has few tasks cannot use more than as
    /// many workers; one that seldom has work is entitled to what it got.
    fn due(&self, total: f64, got: &[f64]) -> Vec<f64> {
        let most = |index: usize| match self.classes[index].1 {
            Load::Sparse(_) => got[index],
            Load::Few(count) => total / self.seats.len() as f64 * count as f64,
            _ => total,
        };
        let mut due: Vec<Option<f64>> = vec![None; got.len()];
        loop {
            let open: Vec<usize> = (0..got.len())
                .filter(|&index| due[index].is_none())
                .collect();
            let left = total - due.iter().flatten().sum::<f64>();
            let share = |index: usize| f64::from(self.classes[index].0.share);
            let sum: f64 = open.iter().map(|&index| share(index)).sum();
            let part = |index: usize| left * share(index) / sum;
            let sparse = |index: usize| matches!(self.classes[index].1, Load::Sparse(_));
            let full = open
                .iter()
                .find(|&&index| sparse(index) || most(index) < part(index));
            match full {
                Some(&index) => due[index] = Some(most(index)),
                None => {
                    open.iter()
                        .for_each(|&index| due[index] = Some(part(index)));
                    return due.into_iter().flatten().collect();
                }
            }
        }
    }

    fn wait(&mut self, part: f64) -> u64 {
        self.waits.sort_unstable();
        let last = self.waits.len().saturating_sub(1);
        self.waits
            .get((last as f64 * part) as usize)
            .copied()
            .unwrap_or(0)
    }
}

fn mixes() -> Vec<Mix> {
    let normal = |share, load| (term(share, 2 * MS), load);
    let bulk = |share, load| (term(share, 20 * MS), load);
    let urgent = (term(30, 200 * US), Load::Sparse(5 * MS));
    let mix = |name, classes| Mix { name, classes };
    let (all, piled, few) = (Load::Everywhere(4), Load::Piled(4), Load::Few(1));
    vec![
        mix("1:1", vec![normal(1, all), bulk(1, all)]),
        mix("1:1000", vec![normal(1, all), bulk(1000, all)]),
        mix("10:1, 10 piled", vec![normal(10, piled), bulk(1, all)]),
        mix("1:10, 1 piled", vec![normal(1, piled), bulk(10, all)]),
        mix("urgent:50:20", vec![urgent, normal(50, all), bulk(20, all)]),
        mix(
            "urgent:50:20, piled",
            vec![urgent, normal(50, piled), bulk(20, piled)],
        ),
        mix(
            BESIDE_FEW,
            vec![urgent, normal(10, all), bulk(1, all), bulk(400, few)],
        ),
        mix("16 classes", sixteen(Load::Everywhere(2))),
        mix(SIXTEEN_PILED, sixteen(Load::Piled(2))),
        mix(MANY, many(Load::Piled(2))),
    ]
}

const BESIDE_FEW: &str = "urgent:10:1:400, 1 task";
const SIXTEEN_PILED: &str = "16 classes, piled";
const MANY: &str = "64 classes, piled";

/// One urgent class with sparse work, and 15 of shares from 1 to 1000.
fn sixteen(load: Load) -> Vec<(Term, Load)> {
    let urgent = (term(300, 200 * US), Load::Sparse(5 * MS));
    let shares = [
        1, 2, 5, 10, 20, 50, 100, 200, 300, 400, 500, 600, 700, 800, 1000,
    ];
    let others = shares.iter().map(|&share| (term(share, 2 * MS), load));
    std::iter::once(urgent).chain(others).collect()
}

/// One urgent class with sparse work, one of a great share, and 62 of three small ones.
fn many(load: Load) -> Vec<(Term, Load)> {
    let urgent = (term(300, 200 * US), Load::Sparse(5 * MS));
    let great = (term(2_000, 20 * MS), load);
    let shares = [10, 20, 40].into_iter().cycle().take(62);
    let others = shares.map(|share| (term(share, 2 * MS), load));
    [urgent, great].into_iter().chain(others).collect()
}

#[test]
fn simulated_machines_divide_time_and_serve_the_urgent() {
    println!(
        "{:>24} {:>7} {:>7} {:>6} {:>6} {:>6}",
        "mix", "workers", "error %", "p50 us", "p99 us", "max us"
    );
    for mix in mixes() {
        // The larger machines take the longer, so they run what is hardest.
        let is_hard = [BESIDE_FEW, SIXTEEN_PILED].contains(&mix.name);
        let sizes: &[usize] = match is_hard {
            true => &[1, 2, 4, 8, 16, 32, 64, 128],
            false if mix.name == MANY => &[1, 4],
            false => &[1, 2, 4, 16],
        };
        for &workers in sizes {
            check(&mix, workers);
        }
    }
}

fn check(mix: &Mix, workers: usize) {
    let mut simulation = Simulation::new(workers, &mix.classes);
    simulation.run();
    let error = simulation.error();
    let [p50, p99, max] = [0.5, 0.99, 1.0].map(|part| simulation.wait(part));
    println!(
        "{:>24} {workers:>7} {:>7.2} {:>6} {:>6} {:>6}",
        mix.name,
        error * 100.0,
        p50 / US,
        p99 / US,
        max / US
    );
    assert!(
        error <= ERROR_MAX,
        "{}, {workers} workers: error {error}",
        mix.name
    );
    let most = if mix.name == BESIDE_FEW {
        WAIT_MAX_BESIDE_FEW
    } else {
        WAIT_MAX
    };
    assert!(
        p99 <= most,
        "{}, {workers} workers: waits {p99} ns",
        mix.name
    );
    assert_eq!(
        simulation.idle, 0,
        "{}: a worker had nothing to do",
        mix.name
    );
}
