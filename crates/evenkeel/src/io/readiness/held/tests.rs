//! Delivery in virtual time: one descriptor, a simulated kernel, and the real wheel.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::io::interest::Direction;
use crate::io::pace::{PRESSURE_MAX, Pace, TICK_NS};
use crate::timer::wheel::Wheel;

/// The time between two rounds of the worker.
const STEP_NS: u64 = TICK_NS / 4;

/// The kernel, the clock and the sweep.
struct World {
    now: Cell<u64>,
    pressure: Cell<u64>,
    /// When bytes arrived, and how many of them are unread.
    arrived: RefCell<VecDeque<(u64, usize)>>,
    watermark: Cell<usize>,
    /// Whether there is an event that the worker has not got.
    event: Cell<bool>,
    kernel: Kernel,
    calls: Cell<usize>,
    looks: Cell<usize>,
    wheel: RefCell<Wheel<()>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kernel {
    Heeds,
    /// Known to have no watermark.
    Lacks,
    /// Refuses to set a watermark.
    Refuses,
}

impl World {
    fn new(kernel: Kernel) -> Self {
        // Neither at the beginning of time nor of a tick.
        let now = 1_234_567_890;
        Self {
            now: Cell::new(now),
            pressure: Cell::new(0),
            arrived: RefCell::default(),
            watermark: Cell::new(1),
            event: Cell::new(false),
            kernel,
            calls: Cell::new(0),
            looks: Cell::new(0),
            wheel: RefCell::new(Wheel::starting_at(now / TICK_NS)),
        }
    }

    fn available(&self) -> usize {
        self.arrived.borrow().iter().map(|(_, bytes)| bytes).sum()
    }

    fn report(&self) {
        let available = self.available();
        if available > 0 && available >= self.watermark.get() {
            self.event.set(true);
        }
    }

    fn send(&self, bytes: usize) {
        self.arrived.borrow_mut().push_back((self.now.get(), bytes));
        self.report();
    }

    /// A read into `room` bytes.
    fn read(&self, mut room: usize) -> usize {
        let mut arrived = self.arrived.borrow_mut();
        let asked = room;
        while let Some((_, bytes)) = arrived.front_mut()
            && room > 0
        {
            let taken = room.min(*bytes);
            room -= taken;
            *bytes -= taken;
            if *bytes == 0 {
                arrived.pop_front();
            }
        }
        asked - room
    }
}

impl Ground for World {
    fn now(&self) -> u64 {
        self.now.get()
    }

    fn pressure(&self) -> u64 {
        self.pressure.get()
    }

    fn set_watermark(&self, _fd: RawFd, bytes: usize) -> bool {
        assert_ne!(self.kernel, Kernel::Lacks, "nothing is told to it");
        assert_ne!(self.watermark.get(), bytes, "a call in vain");
        self.calls.set(self.calls.get() + 1);
        if self.kernel == Kernel::Refuses {
            return false;
        }
        self.watermark.set(bytes);
        self.report();
        true
    }

    fn arm(&self, tick: u64) -> Key {
        self.wheel.borrow_mut().insert(tick, ())
    }

    fn disarm(&self, key: Key) {
        self.wheel.borrow_mut().cancel(key);
    }
}

/// One descriptor, its worker and its reader.
struct Bench {
    world: World,
    readiness: Readiness,
    mode: Delivery,
    room: usize,
    /// Bytes that the current delivery has brought.
    brought: usize,
    received: usize,
    deliveries: usize,
    empty_reads: usize,
    /// Rounds for which the reader does not come.
    absent: usize,
}

impl Bench {
    fn new(kernel: Kernel, mode: Delivery, room: usize) -> Self {
        let bench = Self {
            world: World::new(kernel),
            readiness: Readiness::new(Ready::EMPTY),
            mode: Delivery::Immediate,
            room,
            brought: 0,
            received: 0,
            deliveries: 0,
            empty_reads: 0,
            absent: 0,
        };
        let mut bench = bench;
        bench.set_mode(mode);
        bench.round();
        bench.empty_reads = 0;
        bench
    }

    fn set_mode(&mut self, mode: Delivery) {
        self.mode = mode;
        let has_watermark = self.world.kernel != Kernel::Lacks;
        let mut wakers = WakeList::new();
        self.readiness
            .set_delivery(mode, has_watermark, Some((3, &self.world)), &mut wakers);
    }

    /// The worker checks its queue and its sweep, and the reader runs if it is awake.
    fn round(&mut self) {
        let (world, mut wakers) = (&self.world, WakeList::new());
        if world.event.take() {
            self.readiness.arrive(Ready::READABLE, world, &mut wakers);
        }
        let tick = world.now.get() / TICK_NS;
        let mut due = 0;
        world
            .wheel
            .borrow_mut()
            .advance(tick, 99, &mut |()| due += 1);
        for _ in 0..due {
            world.looks.set(world.looks.get() + 1);
            self.readiness.due(world, &mut wakers);
        }
        self.check();
        match self.absent {
            0 => self.read(),
            absent => self.absent = absent - 1,
        }
    }

    /// Repeats `Source::poll_transfer` until it would wait.
    fn read(&mut self) {
        loop {
            let seen = self.readiness.look();
            if !seen.ready().is_readable() {
                return;
            }
            let count = self.world.read(self.room);
            if count == self.room {
                self.got(count);
                continue;
            }
            if count == 0 {
                self.empty_reads += 1;
                self.readiness.clear_blocked(seen, Direction::Read);
            } else {
                self.got(count);
                self.readiness.clear(seen, Direction::Read);
            }
            let brought = std::mem::take(&mut self.brought);
            match (seen.is_paced(), brought) {
                (false, _) => {}
                (true, 0) => self.readiness.found_nothing(&self.world),
                (true, _) => {
                    let held = self.readiness.drained(&self.world);
                    let most = self.longest().as_nanos() as u64 + TICK_NS + STEP_NS;
                    assert!(held <= most, "{held} ns in {:?}", self.mode);
                }
            }
        }
    }

    fn got(&mut self, count: usize) {
        self.deliveries += usize::from(self.brought == 0);
        self.brought += count;
        self.received += count;
    }

    fn longest(&self) -> Duration {
        if self.mode.is_immediate() {
            return Duration::ZERO;
        }
        self.mode.delay_max().max(Duration::from_nanos(TICK_NS))
    }

    /// Checks the invariants after each round of the worker, before the reader's.
    fn check(&self) {
        let world = &self.world;
        assert!(
            world.wheel.borrow().len() <= 1,
            "one entry for each descriptor"
        );
        if self.readiness.look().ready().is_readable() {
            return;
        }
        if let Some((since, _)) = world.arrived.borrow().front() {
            let waits = Duration::from_nanos(world.now.get() - since);
            let most = self.longest() + Duration::from_nanos(TICK_NS + STEP_NS);
            assert!(waits <= most, "bytes wait for {waits:?} in {:?}", self.mode);
        }
        if let (Delivery::Coalesce { bytes, .. }, Kernel::Heeds) = (self.mode, world.kernel) {
            let event_to_come = world.event.get();
            // An empty socket causes no event, even with a watermark of 0.
            assert!(
                world.available() < bytes.max(1) || event_to_come,
                "the watermark is reached, and nobody is told"
            );
        }
    }

    fn pass(&mut self, time: Duration) {
        let end = self.world.now.get() + time.as_nanos() as u64;
        while self.world.now.get() < end {
            self.world.now.set(self.world.now.get() + STEP_NS);
            self.round();
        }
    }

    fn is_silent(&self) -> bool {
        self.world.wheel.borrow().len() == 0 && self.world.watermark.get() == 1
    }
}

#[derive(Clone, Debug)]
enum Op {
    Send(usize),
    Pass(Duration),
    Absent(usize),
    Mode(Delivery),
    Pressure(u64),
}

fn mode() -> impl Strategy<Value = Delivery> {
    let delay = || (0_u64..40_000).prop_map(Duration::from_micros);
    let bytes = prop_oneof![0_usize..10_000, Just(usize::MAX)];
    prop_oneof![
        Just(Delivery::Immediate),
        (bytes, delay()).prop_map(|(bytes, delay)| Delivery::Coalesce { bytes, delay }),
        delay().prop_map(|max_delay| Delivery::Adaptive { max_delay }),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        8 => (1_usize..4_000).prop_map(Op::Send),
        6 => (0_u64..8_000).prop_map(|micros| Op::Pass(Duration::from_micros(micros))),
        1 => (40_u64..100).prop_map(|millis| Op::Pass(Duration::from_millis(millis))),
        1 => (1_usize..80).prop_map(Op::Absent),
        1 => mode().prop_map(Op::Mode),
        1 => (0..=PRESSURE_MAX).prop_map(Op::Pressure),
    ]
}

fn kernel() -> impl Strategy<Value = Kernel> {
    prop_oneof![
        3 => Just(Kernel::Heeds),
        1 => Just(Kernel::Lacks),
        1 => Just(Kernel::Refuses)
    ]
}

proptest! {
    /// At any times and in any modes, the reader is woken within the bound (`check`) and reads all
    /// bytes, and a silent descriptor leaves the sweep.
    #[test]
    fn all_bytes_are_delivered_in_time(
        kernel in kernel(),
        first in mode(),
        room in 1_usize..20_000,
        ops in prop::collection::vec(op(), 1..120),
    ) {
        let mut bench = Bench::new(kernel, first, room);
        let mut sent = 0;
        for op in ops {
            match op {
                Op::Send(bytes) => {
                    sent += bytes;
                    bench.world.send(bytes);
                }
                Op::Pass(time) => bench.pass(time),
                Op::Absent(rounds) => bench.absent = rounds,
                Op::Mode(mode) => bench.set_mode(mode),
                Op::Pressure(pressure) => bench.world.pressure.set(pressure),
            }
        }
        bench.pass(Duration::from_millis(200));
        prop_assert_eq!(bench.received, sent);
        prop_assert!(bench.is_silent(), "it said nothing for several delays");
    }
}

const DELAY: Duration = Duration::from_millis(20);

fn coalesce(bytes: usize) -> Delivery {
    Delivery::Coalesce {
        bytes,
        delay: DELAY,
    }
}

/// A stream of segments, each 4 ms, for 2 s.
fn stream(bench: &mut Bench) {
    for _ in 0..500 {
        bench.world.send(1460);
        bench.pass(Duration::from_millis(4));
    }
}

/// How many calls the deliveries of a steady stream may take: one to begin with, and two whenever a
/// pause is measured.
fn calls_of(deliveries: usize) -> usize {
    1 + 2 * deliveries.div_ceil(16)
}

#[test]
fn a_steady_stream_takes_no_system_call_for_most_deliveries() {
    let mut bench = Bench::new(Kernel::Heeds, coalesce(1 << 20), 64 * 1024);
    stream(&mut bench);
    assert!(bench.deliveries <= 110, "{} in 2 s", bench.deliveries);
    assert!(
        bench.world.looks.get() <= 220,
        "{} looks",
        bench.world.looks.get()
    );
    let calls = bench.world.calls.get();
    assert!(calls <= calls_of(bench.deliveries), "{calls}");
    assert_eq!(bench.empty_reads, 0);
}

/// With pauses as long as most of the delay, the delay begins with the byte after the pause: each
/// delivery has two segments, and not as many as come in a delay by chance.
#[test]
fn a_long_pause_is_no_part_of_the_delay() {
    let mut bench = Bench::new(Kernel::Heeds, coalesce(1 << 20), 64 * 1024);
    for _ in 0..200 {
        bench.world.send(1460);
        bench.pass(Duration::from_millis(15));
    }
    assert!(bench.deliveries <= 101, "{}", bench.deliveries);
    assert_eq!(bench.world.calls.get(), 2 * bench.deliveries);
    assert_eq!(bench.world.looks.get(), bench.deliveries);
    assert_eq!(bench.empty_reads, 0);
}

/// A worker that sleeps may come to its sweep a tick late. Long delays end in time nevertheless, as
/// they end a tick early; shorter ones may be late.
#[test]
fn a_worker_that_oversleeps_is_in_time_for_a_long_delay() {
    for (millis, most_late) in [(100, 0), (64, 0), (63, TICK_NS), (2, TICK_NS)] {
        for now in (0..TICK_NS).step_by(TICK_NS as usize / 7) {
            let delay = Duration::from_millis(millis);
            let mut pace = Pace::default();
            let bytes = 1 << 20;
            let _ = pace.set_mode(Delivery::Coalesce { bytes, delay }, true);
            let armed = pace.event(now, 0).arm.expect("it is held back");
            let longest = (armed + 1) * TICK_NS - now;
            let most = delay.as_nanos() as u64 + most_late;
            assert!(longest <= most, "{longest} of {delay:?}, from {now} on");
            assert!(longest > most - 2 * TICK_NS, "{longest} of {delay:?}");
        }
    }
}

#[test]
fn a_watermark_below_the_delay_decides() {
    let mut bench = Bench::new(Kernel::Heeds, coalesce(2 * 1460), 64 * 1024);
    stream(&mut bench);
    assert_eq!(bench.deliveries, 250);
    assert_eq!(bench.world.calls.get(), 1);
}

#[test]
fn without_a_watermark_the_delay_decides() {
    let mut bench = Bench::new(Kernel::Lacks, coalesce(2), 64 * 1024);
    stream(&mut bench);
    assert!(
        (80..=100).contains(&bench.deliveries),
        "{}",
        bench.deliveries
    );
    assert_eq!(bench.world.calls.get() + bench.empty_reads, 0);
}

#[test]
fn silence_costs_two_calls() {
    let mut bench = Bench::new(Kernel::Heeds, coalesce(1 << 20), 64 * 1024);
    for burst in 1..=10 {
        bench.world.send(1460);
        bench.pass(10 * DELAY);
        assert_eq!(bench.deliveries, burst);
        assert_eq!(bench.world.calls.get(), 2 * burst);
        assert_eq!(bench.empty_reads, 0);
        assert!(bench.is_silent());
    }
    let looks = bench.world.looks.get();
    bench.pass(1000 * DELAY);
    assert_eq!(bench.world.looks.get(), looks, "nothing to sweep");
}

#[test]
fn adaptive_is_immediate_without_pressure_and_again_after_it() {
    let mode = Delivery::Adaptive { max_delay: DELAY };
    let mut bench = Bench::new(Kernel::Heeds, mode, 64 * 1024);
    stream(&mut bench);
    assert_eq!(bench.deliveries, 500);
    assert_eq!(bench.world.calls.get() + bench.world.looks.get(), 0);

    bench.world.pressure.set(PRESSURE_MAX);
    stream(&mut bench);
    let under_pressure = bench.deliveries - 500;
    assert!(under_pressure <= 110, "{under_pressure} in 2 s");
    let calls = bench.world.calls.get();
    assert!(calls <= calls_of(under_pressure), "{calls}");

    bench.world.pressure.set(0);
    stream(&mut bench);
    let afterwards = bench.deliveries - 500 - under_pressure;
    assert!(afterwards >= 494, "{afterwards} in 2 s");
    assert!(bench.world.calls.get() <= calls + 1);
    assert!(bench.is_silent());
}

/// The entry in the sweep is from when tasks waited for long. Now they hardly do.
#[test]
fn a_delay_that_shrinks_wakes_the_reader_sooner() {
    let max_delay = Duration::from_millis(512);
    let mut bench = Bench::new(Kernel::Heeds, Delivery::Adaptive { max_delay }, 1 << 20);
    bench.world.pressure.set(PRESSURE_MAX);
    bench.world.send(1);
    bench.pass(Duration::from_millis(1));
    bench.world.pressure.set(PRESSURE_MAX / 64);
    bench.world.send(128 * 1024);
    bench.pass(Duration::from_millis(1));
    assert_eq!(bench.received, 1 + 128 * 1024, "the watermark is reached");
    bench.world.send(1);
    bench.pass(max_delay / 64 + Duration::from_millis(2));
    assert_eq!(bench.received, 2 + 128 * 1024, "the delay is 8 ms now");
}

#[test]
fn the_end_of_the_stream_is_not_held_back() {
    let mut bench = Bench::new(Kernel::Heeds, coalesce(1 << 20), 64 * 1024);
    bench.world.send(100);
    bench.pass(DELAY / 4);
    assert_eq!(bench.received, 0, "held back");
    let end = Ready::READABLE | Ready::READ_CLOSED;
    let (readiness, world) = (&bench.readiness, &bench.world);
    readiness.arrive(end, world, &mut WakeList::new());
    assert!(readiness.look().ready().is_read_closed());
}

/// The time for which a delivery was held back does not count for the next.
#[test]
fn deliveries_at_once_do_not_count_as_held_back() {
    let mut bench = Bench::new(Kernel::Heeds, coalesce(1 << 20), 64 * 1024);
    bench.world.send(100);
    bench.pass(4 * DELAY);
    assert_eq!(bench.received, 100);
    bench.world.send(1);
    let (readiness, world) = (&bench.readiness, &bench.world);
    let end = Ready::READABLE | Ready::READ_CLOSED;
    readiness.arrive(end, world, &mut WakeList::new());
    assert_eq!(world.read(bench.room), 1);
    assert_eq!(readiness.drained(world), 0);
}

/// Only the reading part of an event is held back.
#[test]
fn writers_are_not_held_back() {
    let mut bench = Bench::new(Kernel::Heeds, coalesce(1 << 20), 64 * 1024);
    bench.world.send(100);
    bench.world.event.set(false);
    let both = Ready::READABLE | Ready::WRITABLE;
    let (readiness, world) = (&bench.readiness, &bench.world);
    readiness.arrive(both, world, &mut WakeList::new());
    let ready = readiness.look().ready();
    assert!(ready.is_writable() && !ready.is_readable());
    bench.pass(2 * DELAY);
    assert_eq!(bench.received, 100);
}

/// After the descriptor is closed, its number may belong to another.
#[test]
fn a_closed_descriptor_is_not_touched() {
    let mut bench = Bench::new(Kernel::Heeds, coalesce(1 << 20), 64 * 1024);
    bench.world.send(100);
    bench.round();
    assert_eq!(bench.world.watermark.get(), 1 << 20);
    bench.readiness.unsettle(&bench.world);
    assert!(bench.is_silent(), "given back as it was");
    let calls = bench.world.calls.get();
    bench.world.event.set(true);
    bench.round();
    assert_eq!(bench.world.calls.get(), calls);
    assert_eq!(bench.world.wheel.borrow().len(), 0);
}
