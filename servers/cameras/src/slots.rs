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

/// The limit that a connection would have exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Full {
    /// That of all clients together.
    #[error("{0} clients are connected, as many as may be (sessions_max); try again later")]
    All(usize),
    /// That of one client.
    #[error(
        "your address has {0} connections here, as many as it may have (sessions_per_client_max)"
    )]
    Client(usize),
}

/// The connections there are.
#[derive(Debug, Default)]
pub struct Slots(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    taken: usize,
    /// Clients without a connection have no entry.
    by_client: HashMap<IpAddr, usize>,
}

/// The place of a connection, which is free again when this is dropped.
#[derive(Debug)]
pub struct Slot {
    slots: Arc<Slots>,
    client: IpAddr,
}

impl Slots {
    /// A place for a connection of this client.
    ///
    /// # Errors
    ///
    /// [`Full`]: it would be one too many.
    pub fn take(self: &Arc<Self>, client: IpAddr, limits: Limits) -> Result<Slot, Full> {
        let client = network(client);
        let mut state = self.state();
        if state.taken >= limits.all_max {
            return Err(Full::All(limits.all_max));
        }
        let count = state.by_client.get(&client).copied().unwrap_or(0);
        if count >= limits.per_client_max {
            return Err(Full::Client(limits.per_client_max));
        }
        state.by_client.insert(client, count + 1);
        state.taken += 1;
        drop(state);
        Ok(Slot {
            slots: Arc::clone(self),
            client,
        })
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

impl Drop for Slot {
    fn drop(&mut self) {
        let mut state = self.slots.state();
        state.taken -= 1;
        if let Entry::Occupied(mut entry) = state.by_client.entry(self.client) {
            *entry.get_mut() -= 1;
            if *entry.get() == 0 {
                entry.remove();
            }
        }
    }
}

/// Whom an address is counted as.
fn network(address: IpAddr) -> IpAddr {
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

    fn client(text: &str) -> IpAddr {
        text.parse().unwrap()
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
}
