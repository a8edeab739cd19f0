//! Rates of requests: how many a client may ask for in a time, and how many at once.
//!
//! Each client has a bucket, by the generic cell rate algorithm of `governor`. The table of clients
//! is divided by the hash of the client, so that requests seldom wait for each other's lock. In
//! each part a client whose bucket is full again is forgotten, since it is like one that has never
//! come; a newcomer looks at a few of the oldest for that. Where all places are taken by clients
//! that have asked lately, newcomers share one bucket: nobody gets more than the rate, and those
//! who are known keep theirs, but many newcomers can take it from each other.

use std::collections::hash_map::RandomState;
use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasher;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use governor::clock::{Clock, MonotonicClock, Reference};
use governor::middleware::NoOpMiddleware;
use governor::state::{InMemoryState, NotKeyed};
use governor::{Quota, RateLimiter};
use servers_common::slots::network;

use crate::config::{Per, RateLimit};
use crate::counters::Counter;

/// Parts of the table, if it is large.
const PARTS_MAX: usize = 64;

/// Clients of which a newcomer looks whether they can be forgotten.
const LOOKS: usize = 4;

/// One bucket.
type Bucket<C> = RateLimiter<NotKeyed, InMemoryState, C, NoOpMiddleware<<C as Clock>::Instant>>;

/// Whose bucket it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Key<'a> {
    /// A client, or a network of IPv6 with 64 bits; all on Unix sockets are one.
    Client(Option<IpAddr>),
    /// The value of a header.
    Value(&'a [u8]),
}

/// The buckets of a limit.
#[derive(Debug)]
pub struct Limiter<C: Clock = MonotonicClock> {
    config: RateLimit,
    quota: Quota,
    /// In which an empty bucket is full again.
    refill: Duration,
    clock: C,
    hasher: RandomState,
    parts: Vec<Mutex<Part<C>>>,
    clients_of_part_max: usize,
    /// Requests that were refused.
    pub refused: Counter,
    /// Requests of newcomers for whom the table had no place.
    pub crowded: Counter,
}

#[derive(Debug)]
struct Part<C: Clock> {
    known: HashMap<u64, Known<C>>,
    /// The same, from the oldest on.
    order: VecDeque<u64>,
    /// That of newcomers who find no place.
    shared: Bucket<C>,
}

#[derive(Debug)]
struct Known<C: Clock> {
    bucket: Bucket<C>,
    /// When a request was last let through: later the bucket only gets fuller.
    last: C::Instant,
}

impl Limiter {
    /// With all buckets full.
    pub fn new(config: &RateLimit) -> Self {
        Self::with_clock(config, MonotonicClock)
    }
}

impl<C: Clock + Clone> Limiter<C> {
    fn with_clock(config: &RateLimit, clock: C) -> Self {
        let interval = config.interval();
        // The configuration was checked: it is not 0.
        let quota = Quota::with_period(interval).unwrap_or(Quota::per_second(config.burst()));
        let quota = quota.allow_burst(config.burst());
        let parts = match config.per {
            Per::All => 1,
            Per::Client | Per::Header(_) => config.clients_max.div_ceil(PARTS_MAX).min(PARTS_MAX),
        };
        let part = || {
            Mutex::new(Part {
                known: HashMap::new(),
                order: VecDeque::new(),
                shared: RateLimiter::direct_with_clock(quota, clock.clone()),
            })
        };
        Self {
            config: config.clone(),
            quota,
            refill: interval.saturating_mul(config.burst().get()),
            hasher: RandomState::new(),
            clients_of_part_max: config.clients_max.div_ceil(parts),
            parts: (0..parts).map(|_| part()).collect(),
            clock,
            refused: Counter::default(),
            crowded: Counter::default(),
        }
    }

    /// What the configuration says.
    pub fn config(&self) -> &RateLimit {
        &self.config
    }

    /// Takes one from a bucket.
    ///
    /// # Errors
    ///
    /// How long it takes until there is one again.
    pub fn check(&self, key: Key<'_>) -> Result<(), Duration> {
        let result = match self.config.per {
            Per::All => self.take(&self.part(0).shared),
            Per::Client | Per::Header(_) => self.check_one(key),
        };
        if result.is_err() {
            self.refused.one();
        }
        result
    }

    fn check_one(&self, key: Key<'_>) -> Result<(), Duration> {
        let key = match key {
            Key::Client(client) => Key::Client(client.map(network)),
            value => value,
        };
        let hash = self.hasher.hash_one(key);
        // By other bits than the map's.
        let mut part = self.part((hash >> 32) as usize % self.parts.len());
        let part = &mut *part;
        if !part.known.contains_key(&hash) {
            part.forget(self.clock.now(), self.refill);
            if part.known.len() >= self.clients_of_part_max {
                self.crowded.one();
                return self.take(&part.shared);
            }
            let bucket = RateLimiter::direct_with_clock(self.quota, self.clock.clone());
            let last = self.clock.now();
            part.known.insert(hash, Known { bucket, last });
            part.order.push_back(hash);
        }
        match part.known.get_mut(&hash) {
            Some(known) => {
                self.take(&known.bucket)?;
                known.last = self.clock.now();
                Ok(())
            }
            None => self.take(&part.shared),
        }
    }

    fn take(&self, bucket: &Bucket<C>) -> Result<(), Duration> {
        let taken = bucket.check();
        taken.map_err(|until| until.wait_time_from(self.clock.now()))
    }

    /// How many clients are known.
    pub fn clients(&self) -> usize {
        (0..self.parts.len())
            .map(|part| self.part(part).known.len())
            .sum()
    }

    fn part(&self, part: usize) -> MutexGuard<'_, Part<C>> {
        // A client that is in one of the two only is found or forgotten as any other.
        self.parts[part]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl<C: Clock> Part<C> {
    /// Looks at a few of the oldest, and forgets those whose buckets are full again.
    fn forget(&mut self, now: C::Instant, refill: Duration) {
        for _ in 0..LOOKS.min(self.order.len()) {
            let Some(hash) = self.order.pop_front() else {
                return;
            };
            let is_full = self
                .known
                .get(&hash)
                .is_none_or(|known| Duration::from(now.duration_since(known.last)) >= refill);
            if is_full {
                self.known.remove(&hash);
            } else {
                self.order.push_back(hash);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use governor::clock::FakeRelativeClock;

    use super::*;

    fn limiter(toml: &str) -> (Limiter<FakeRelativeClock>, FakeRelativeClock) {
        let clock = FakeRelativeClock::default();
        let config = toml::from_str(toml).unwrap();
        (Limiter::with_clock(&config, clock.clone()), clock)
    }

    fn client(number: u32) -> Key<'static> {
        Key::Client(Some(IpAddr::from(number.to_be_bytes())))
    }

    #[test]
    fn each_client_has_its_rate_and_its_burst() {
        let (limiter, clock) = limiter("requests = 10\nburst = 3");
        for one in [1, 2] {
            for _ in 0..3 {
                assert_eq!(limiter.check(client(one)), Ok(()));
            }
            let wait = limiter.check(client(one)).unwrap_err();
            assert_eq!(wait, Duration::from_millis(100));
        }
        clock.advance(Duration::from_millis(100));
        assert_eq!(limiter.check(client(1)), Ok(()));
        assert!(limiter.check(client(1)).is_err());
        clock.advance(Duration::from_secs(60));
        let let_through = (0..9).filter(|_| limiter.check(client(1)).is_ok());
        assert_eq!(let_through.count(), 3, "no more is saved up than a burst");
        assert_eq!(limiter.refused.total(), 3 + 6);
    }

    #[test]
    fn a_network_of_64_bits_is_one_client() {
        let (limiter, _) = limiter("requests = 1");
        let address = |text: &str| Key::Client(Some(text.parse().unwrap()));
        assert_eq!(limiter.check(address("2001:db8:0:1::1")), Ok(()));
        assert!(limiter.check(address("2001:db8:0:1:ffff::2")).is_err());
        assert_eq!(limiter.check(address("2001:db8:0:2::1")), Ok(()));
    }

    #[test]
    fn all_together_have_one_bucket() {
        let (limiter, _) = limiter("requests = 2\nper = \"all\"");
        assert_eq!(limiter.check(client(1)), Ok(()));
        assert_eq!(limiter.check(client(2)), Ok(()));
        assert!(limiter.check(client(3)).is_err());
    }

    #[test]
    fn the_table_has_its_limit_and_newcomers_without_a_place_share_one_bucket() {
        let (limiter, clock) = limiter("requests = 1\nperiod = \"10s\"\nclients_max = 8");
        for one in 0..8 {
            assert_eq!(limiter.check(client(one)), Ok(()));
        }
        // No more get in than the one whom the shared bucket lets through.
        let newcomers = (100..1_000).filter(|&one| limiter.check(client(one)).is_ok());
        assert_eq!(newcomers.count(), 1);
        assert_eq!((limiter.clients(), limiter.crowded.total()), (8, 900));
        assert!(limiter.check(client(7)).is_err(), "it is still known");
        // Those that are like new are forgotten.
        clock.advance(Duration::from_secs(10));
        let newcomers = (2_000..2_008).filter(|&one| limiter.check(client(one)).is_ok());
        assert_eq!(newcomers.count(), 8);
        assert_eq!((limiter.clients(), limiter.crowded.total()), (8, 900));
    }

    #[test]
    fn values_of_headers_have_a_bucket_each() {
        let (limiter, _) = limiter("requests = 1\nper = \"header:x-key\"");
        assert_eq!(limiter.check(Key::Value(b"one")), Ok(()));
        assert_eq!(limiter.check(Key::Value(b"two")), Ok(()));
        assert!(limiter.check(Key::Value(b"one")).is_err());
    }
}
