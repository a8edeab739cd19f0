//! Sequence numbers: puts packets into order, and counts those that are lost.
//!
//! Over TCP nothing overtakes, and each hole is a loss at once. Over UDP a hole is waited for:
//! until so many packets have come behind it, or until it has lasted for so long. A source that
//! begins anew, with another number or a jump, is followed.

use std::collections::BTreeMap;
use std::time::Duration;

use super::packet::Packet;

/// How long a hole is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// Packets behind it; 0 does not wait.
    pub packets_max: usize,
    /// The time since the first packet behind it.
    pub time_max: Duration,
}

impl Patience {
    /// Over TCP.
    pub const NONE: Self = Self {
        packets_max: 0,
        time_max: Duration::ZERO,
    };

    /// Over UDP. Pictures of some ten packets overtake each other by a few; 200 ms is as late as
    /// anything within a site comes.
    pub const DATAGRAMS: Self = Self {
        packets_max: 64,
        time_max: Duration::from_millis(200),
    };
}

/// A jump that is larger than this is a source that began anew (as in RFC 3550, appendix A.1).
const JUMP_MAX: u64 = 3_000;
/// Numbers begin behind one wrap, so that there is room below the first one.
const WRAP: u64 = 1 << 16;
/// A packet that is more behind than this is too.
const BEHIND_MAX: u64 = 100;

/// The order of one track's packets.
#[derive(Debug)]
pub struct Order {
    patience: Patience,
    /// The number of the next packet, of which the lower 16 bits are in packets.
    next: Option<u64>,
    ssrc: u32,
    /// What has come behind a hole, by number.
    waiting: BTreeMap<u64, Packet>,
    /// When the first of those came.
    since: Duration,
    counts: Counts,
}

/// What has come and what has not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets that were passed on.
    pub received: u64,
    /// Packets that never came.
    pub lost: u64,
    /// Packets that came twice, or after their place was given up.
    pub late: u64,
    /// How often the source began anew.
    pub restarts: u64,
}

/// A packet whose turn it is.
#[derive(Debug, PartialEq, Eq)]
pub struct Ordered {
    /// The packet.
    pub packet: Packet,
    /// Packets are missing before it.
    pub after_loss: bool,
}

impl Order {
    /// Before the first packet.
    pub fn new(patience: Patience) -> Self {
        Self {
            patience,
            next: None,
            ssrc: 0,
            waiting: BTreeMap::new(),
            since: Duration::ZERO,
            counts: Counts::default(),
        }
    }

    /// Takes a packet in, and appends those whose turn it is.
    pub fn push(&mut self, packet: Packet, now: Duration, out: &mut Vec<Ordered>) {
        let begins = self.next.is_none() || packet.ssrc != self.ssrc;
        let next = self.next.filter(|_| !begins);
        let Some(next) = next else {
            return self.restart(packet, out);
        };
        // The distance as a signed number, so that it may be ahead or behind, and wrap.
        let ahead = i64::from(packet.sequence.wrapping_sub(next as u16).cast_signed());
        let is_far = if ahead < 0 {
            ahead.unsigned_abs() > BEHIND_MAX
        } else {
            ahead.unsigned_abs() > JUMP_MAX
        };
        if is_far {
            return self.restart(packet, out);
        }
        let Some(number) = next.checked_add_signed(ahead).filter(|_| ahead >= 0) else {
            self.counts.late += 1;
            return;
        };
        if ahead == 0 {
            self.pass(packet, false, out);
            self.pass_waiting(false, out);
            // What still waits is behind a hole that has just been reached.
            self.since = now;
            return;
        }
        if self.waiting.is_empty() {
            self.since = now;
        }
        if self.waiting.insert(number, packet).is_some() {
            self.counts.late += 1;
        }
        if self.waiting.len() > self.patience.packets_max {
            self.give_up(now, out);
        }
    }

    /// Gives up holes that have lasted for too long.
    pub fn expire(&mut self, now: Duration, out: &mut Vec<Ordered>) {
        let is_over = now.saturating_sub(self.since) >= self.patience.time_max;
        if is_over && !self.waiting.is_empty() {
            self.give_up(now, out);
        }
    }

    /// When [`expire`](Self::expire) has something to do, if nothing comes before.
    pub fn deadline(&self) -> Option<Duration> {
        (!self.waiting.is_empty()).then(|| self.since.saturating_add(self.patience.time_max))
    }

    /// What was counted.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// The highest number that came, with how often it wrapped above its 16 bits, and the source.
    pub fn highest(&self) -> Option<(u64, u32)> {
        let last = self.waiting.last_key_value().map(|(&number, _)| number);
        let highest = last.or(self.next.map(|next| next.saturating_sub(1)))?;
        let highest = highest.saturating_sub(WRAP);
        Some((highest, self.ssrc))
    }

    fn restart(&mut self, packet: Packet, out: &mut Vec<Ordered>) {
        let is_first = self.next.is_none();
        if !is_first {
            self.counts.restarts += 1;
            while !self.waiting.is_empty() {
                self.pass_waiting(true, out);
            }
        }
        self.ssrc = packet.ssrc;
        // Room below, for packets that come a little later than the first one.
        self.next = Some(WRAP | u64::from(packet.sequence));
        self.pass(packet, !is_first, out);
    }

    fn give_up(&mut self, now: Duration, out: &mut Vec<Ordered>) {
        self.pass_waiting(true, out);
        // What is left is behind another hole.
        self.since = now;
    }

    /// Passes on what waits without a hole; `skips` the first hole.
    fn pass_waiting(&mut self, skips: bool, out: &mut Vec<Ordered>) {
        let mut skips = skips;
        while let Some((&number, _)) = self.waiting.first_key_value() {
            let next = self.next.unwrap_or(number);
            let is_hole = number > next;
            if is_hole && !skips {
                break;
            }
            skips = false;
            let Some((_, packet)) = self.waiting.pop_first() else {
                break;
            };
            if is_hole {
                self.counts.lost += number - next;
                self.next = Some(number);
            }
            self.pass(packet, is_hole, out);
        }
    }

    fn pass(&mut self, packet: Packet, after_loss: bool, out: &mut Vec<Ordered>) {
        self.counts.received += 1;
        self.next = self.next.map(|next| next + 1);
        out.push(Ordered { packet, after_loss });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use proptest::prelude::*;

    fn packet(sequence: u16) -> Packet {
        Packet {
            marker: false,
            payload_type: 96,
            sequence,
            timestamp: 0,
            ssrc: 1,
            payload: Bytes::new(),
        }
    }

    fn passed(order: &mut Order, sequences: impl IntoIterator<Item = u16>) -> Vec<(u16, bool)> {
        let mut out = Vec::new();
        for sequence in sequences {
            order.push(packet(sequence), Duration::ZERO, &mut out);
        }
        let shown = |ordered: &Ordered| (ordered.packet.sequence, ordered.after_loss);
        out.iter().map(shown).collect()
    }

    #[test]
    fn a_hole_is_waited_for_and_given_up() {
        let mut order = Order::new(Patience {
            packets_max: 3,
            time_max: Duration::from_secs(1),
        });
        assert_eq!(
            passed(&mut order, [65534, 0, 65535]),
            [(65534, false), (65535, false), (0, false)]
        );
        assert_eq!(passed(&mut order, [2, 3, 5]), []);
        assert_eq!(passed(&mut order, [6]), [(2, true), (3, false)]);
        assert_eq!(passed(&mut order, [1]), []);
        assert_eq!(order.deadline(), Some(Duration::from_secs(1)));
        let mut out = Vec::new();
        order.expire(Duration::from_millis(999), &mut out);
        assert_eq!(out, []);
        order.expire(Duration::from_secs(1), &mut out);
        assert_eq!(out.len(), 2);
        assert_eq!(order.deadline(), None);
        let counts = order.counts();
        assert_eq!((counts.received, counts.lost, counts.late), (7, 2, 1));
    }

    #[test]
    fn without_patience_each_hole_is_a_loss_at_once() {
        let mut order = Order::new(Patience::NONE);
        assert_eq!(
            passed(&mut order, [7, 8, 10, 9, 11]),
            [(7, false), (8, false), (10, true), (11, false)]
        );
        let counts = order.counts();
        assert_eq!((counts.lost, counts.late), (1, 1));
    }

    #[test]
    fn a_source_that_begins_anew_is_followed() {
        let mut order = Order::new(Patience::DATAGRAMS);
        assert_eq!(passed(&mut order, [1, 2, 40_000, 40_001]).len(), 4);
        let mut out = Vec::new();
        let other = Packet {
            ssrc: 2,
            ..packet(40_002)
        };
        order.push(other, Duration::ZERO, &mut out);
        assert!(out[0].after_loss);
        assert_eq!(order.counts().restarts, 2);
        assert_eq!(order.counts().lost, 0);
    }

    proptest! {
        /// Packets that overtake each other by less than the patience come out in order and whole,
        /// from any number on.
        #[test]
        fn what_is_shaken_comes_out_in_order(
            first in prop_oneof![any::<u16>(), 65_300..=u16::MAX],
            keys in prop::collection::vec(0..8_u64, 0..300),
        ) {
            let mut places: Vec<u64> = (1..=keys.len() as u64).collect();
            places.sort_by_key(|&place| place + keys[place as usize - 1]);
            let mut order = Order::new(Patience { packets_max: 16, time_max: Duration::MAX });
            let shaken = std::iter::once(0).chain(places);
            let sequences = shaken.map(|place| first.wrapping_add(place as u16));
            let out = passed(&mut order, sequences);
            let sent = (0..=keys.len()).map(|place| (first.wrapping_add(place as u16), false));
            prop_assert_eq!(out, sent.collect::<Vec<_>>());
            prop_assert_eq!(order.counts().restarts, 0);
        }

        /// Every packet is passed on once or counted late, and every hole is counted.
        #[test]
        fn counts_add_up(steps in prop::collection::vec((0..12_i16, any::<bool>()), 1..400)) {
            let time_max = Duration::from_secs(1);
            let mut order = Order::new(Patience { packets_max: 4, time_max });
            let mut at = 65_500_u16;
            let mut out = Vec::new();
            let mut pushed = 0;
            for (step, back) in steps {
                at = at.wrapping_add_signed(if back { -step } else { step });
                order.push(packet(at), Duration::ZERO, &mut out);
                pushed += 1;
            }
            for second in 1..20 {
                order.expire(Duration::from_secs(second), &mut out);
            }
            prop_assert_eq!(order.deadline(), None);
            let counts = order.counts();
            prop_assert_eq!(counts.received + counts.late, pushed);
            prop_assert_eq!(counts.received, out.len() as u64);
            let mut before = None;
            let mut lost = 0;
            for ordered in &out {
                if let Some(before) = before {
                    let step = ordered.packet.sequence.wrapping_sub(before);
                    prop_assert_eq!(ordered.after_loss, step != 1);
                    lost += u64::from(step) - 1;
                }
                before = Some(ordered.packet.sequence);
            }
            prop_assume!(counts.restarts == 0);
            prop_assert_eq!(lost, counts.lost);
        }
    }
}
