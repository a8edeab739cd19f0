//! Who may have how many connections: in all, and from one address.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How many connections are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// From all clients together.
    pub all_max: usize,
    /// From one address, or one network of IPv6 with 64 bits, which one customer commonly has.
    pub per_client_max: usize,
}

/// Why there is no place for a connection. What a client is told names the server's own settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    /// There are so many of all clients together, which is the limit.
    All(usize),
    /// There are so many of this client, which is the limit.
    Client(usize),
    /// Operators have switched the listener off.
    Off,
}

/// The connections of a listener.
#[derive(Debug, Default)]
pub struct Slots(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    taken: usize,
    /// Operators have switched the listener off.
    is_off: bool,
    /// What operators say instead of the configuration.
    all_max: Option<usize>,
    /// Clients without a connection have no entry.
    by_client: HashMap<IpAddr, usize>,
}

/// The place of a connection, which is free again when this is dropped.
#[derive(Debug)]
pub struct Slot {
    slots: Arc<Slots>,
    client: Option<IpAddr>,
}

impl Slots {
    /// A place for a connection of this client, who is unknown on a Unix socket.
    ///
    /// # Errors
    ///
    /// [`Full`]: it would be one too many.
    pub fn take(self: &Arc<Self>, client: Option<IpAddr>, limits: Limits) -> Result<Slot, Full> {
        let client = client.map(network);
        let mut state = self.state();
        if state.is_off {
            return Err(Full::Off);
        }
        let all_max = state.all_max.unwrap_or(limits.all_max);
        if state.taken >= all_max {
            return Err(Full::All(all_max));
        }
        if let Some(client) = client {
            state.count(client, limits.per_client_max)?;
        }
        state.taken += 1;
        drop(state);
        Ok(Slot {
            slots: Arc::clone(self),
            client,
        })
    }

    /// Switches the listener on or off; connections that there are go on.
    pub fn switch(&self, is_on: bool) {
        self.state().is_off = !is_on;
    }

    /// Whether it is switched on.
    pub fn is_on(&self) -> bool {
        !self.state().is_off
    }

    /// Sets a limit of all connections in the place of that of the configuration.
    pub fn set_max(&self, all_max: usize) {
        self.state().all_max = Some(all_max);
    }

    /// The limit that operators have set.
    pub fn max_set(&self) -> Option<usize> {
        self.state().all_max
    }

    /// How many are taken.
    pub fn taken(&self) -> usize {
        self.state().taken
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Numbers, which no panic can leave half-changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// One more of this client.
    fn count(&mut self, client: IpAddr, per_client_max: usize) -> Result<(), Full> {
        let count = self.by_client.entry(client).or_default();
        if *count >= per_client_max {
            // An entry that was just made for it would stay.
            if *count == 0 {
                self.by_client.remove(&client);
            }
            return Err(Full::Client(per_client_max));
        }
        *count += 1;
        Ok(())
    }

    /// One fewer.
    fn discount(&mut self, client: IpAddr) {
        if let Entry::Occupied(mut entry) = self.by_client.entry(client) {
            *entry.get_mut() -= 1;
            if *entry.get() == 0 {
                entry.remove();
            }
        }
    }
}

impl Slot {
    /// Says whose connection it is, which a header of the PROXY protocol has told by now.
    ///
    /// # Errors
    ///
    /// [`Full`]: it would be one too many of this client.
    pub fn is_of(&mut self, client: Option<IpAddr>, limits: Limits) -> Result<(), Full> {
        let client = client.map(network);
        let mut state = self.slots.state();
        if let Some(before) = self.client.take() {
            state.discount(before);
        }
        if let Some(client) = client {
            state.count(client, limits.per_client_max)?;
        }
        drop(state);
        self.client = client;
        Ok(())
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut state = self.slots.state();
        state.taken -= 1;
        if let Some(client) = self.client {
            state.discount(client);
        }
    }
}

/// Whom an address is counted as.
pub fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let prefix = u128::from(address) >> 64 << 64;
            IpAddr::V6(Ipv6Addr::from(prefix))
        }
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(text: &str) -> Option<IpAddr> {
        Some(text.parse().unwrap())
    }

    #[test]
    fn one_client_cannot_take_all_places() {
        let slots = Arc::new(Slots::default());
        let limits = Limits {
            all_max: 3,
            per_client_max: 2,
        };
        let one = slots.take(client("10.0.0.1"), limits).unwrap();
        let _two = slots.take(client("10.0.0.1"), limits).unwrap();
        assert_eq!(
            slots.take(client("10.0.0.1"), limits).unwrap_err(),
            Full::Client(2)
        );
        let _other = slots.take(client("10.0.0.2"), limits).unwrap();
        assert_eq!(
            slots.take(client("10.0.0.3"), limits).unwrap_err(),
            Full::All(3)
        );
        drop(one);
        let _again = slots.take(client("10.0.0.1"), limits).unwrap();
        assert_eq!(slots.taken(), 3);
    }

    #[test]
    fn operators_switch_a_listener_off_and_change_its_limit() {
        let slots = Arc::new(Slots::default());
        let limits = Limits {
            all_max: 1,
            per_client_max: 9,
        };
        slots.set_max(2);
        let _one = slots.take(None, limits).unwrap();
        slots.switch(false);
        assert_eq!(slots.take(None, limits).unwrap_err(), Full::Off);
        slots.switch(true);
        let _two = slots.take(None, limits).unwrap();
        assert_eq!(slots.take(None, limits).unwrap_err(), Full::All(2));
    }

    #[test]
    fn a_network_of_64_bits_is_one_client_and_who_has_left_is_forgotten() {
        let slots = Arc::new(Slots::default());
        let limits = Limits {
            all_max: 9,
            per_client_max: 1,
        };
        let slot = slots.take(client("2001:db8:0:1::1"), limits).unwrap();
        assert!(slots.take(client("2001:db8:0:1:ffff::2"), limits).is_err());
        let other = slots.take(client("2001:db8:0:2::1"), limits).unwrap();
        assert!(slots.take(client("::ffff:10.0.0.1"), limits).is_ok());
        drop((slot, other));
        let none = Limits {
            all_max: 9,
            per_client_max: 0,
        };
        assert!(slots.take(client("10.0.0.1"), none).is_err());
        assert!(slots.state().by_client.is_empty());
        assert_eq!(slots.taken(), 0);
    }

    #[test]
    fn who_is_named_later_is_counted_from_then_on() {
        let slots = Arc::new(Slots::default());
        let limits = Limits {
            all_max: 3,
            per_client_max: 1,
        };
        let mut unnamed = slots.take(None, limits).unwrap();
        let mut other = slots.take(None, limits).unwrap();
        assert_eq!(unnamed.is_of(client("10.0.0.1"), limits), Ok(()));
        assert_eq!(
            other.is_of(client("10.0.0.1"), limits),
            Err(Full::Client(1))
        );
        assert_eq!(other.is_of(client("10.0.0.2"), limits), Ok(()));
        assert_eq!(slots.taken(), 2);
        drop((unnamed, other));
        assert!(slots.state().by_client.is_empty());
        assert_eq!(slots.taken(), 0);
    }
}
