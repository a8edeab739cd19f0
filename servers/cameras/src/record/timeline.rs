//! Which segment a group of pictures belongs to, and when it is by the calendar. Pure: times come
//! with the group.
//!
//! The calendar's time of a sample is that of the session's beginning plus the sample's own. So
//! times in a segment are as even as the camera's, however uneven the network was. What drifts
//! farther than that is corrected at the next segment, a little at a time.

use std::time::Duration;

use crate::media::{Gop, Moment};
use crate::mp4::Origin;
use crate::mp4::origin::{unix_us, us_of};

/// How far the two clocks may come apart within a segment, before somebody has set one of them.
const STEP_US: i64 = 500_000;
/// How far a camera's times may be from the system's, as when the network held them up.
const JUMP_US: i64 = 5_000_000;
/// How much is corrected at the beginning of a segment: a third of a thousandth, where a bad clock
/// of a camera drifts by a tenth of a thousandth.
const SLEW_US: i64 = 20_000;

/// What is not corrected: how late a group may come, as its packets are held back by networks, and
/// by the server itself (350 ms, if `delivery` is not set). To follow that would move sound at each
/// segment, which is heard. The price is that times are so much off.
const LATE_US: i64 = 400_000;

/// Why a segment began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Nothing was recorded before it, or not without a break.
    First,
    /// The one before was long enough.
    Full,
    /// The tracks or their parameters changed, or there is a new session.
    Parameters,
    /// The system's clock was set.
    ClockStep,
    /// The camera's times jumped.
    TimesJump,
}

impl Cause {
    const ALL: [Self; 5] = [
        Self::First,
        Self::Full,
        Self::Parameters,
        Self::ClockStep,
        Self::TimesJump,
    ];

    pub(super) fn code(self) -> u8 {
        self as u8
    }

    pub(super) fn from_code(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code)).copied()
    }
}

/// Where a group goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Into the segment that is open.
    Same(Origin),
    /// Into a new one.
    New(Origin, Cause),
}

impl Place {
    /// The calendar's time at which the session's times were zero.
    pub fn origin(self) -> Origin {
        match self {
            Self::Same(origin) | Self::New(origin, _) => origin,
        }
    }
}

/// The segment that is open, as far as times go.
#[derive(Clone, Copy, Debug)]
struct Begun {
    generation: u64,
    origin: Origin,
    start: Moment,
    start_us: i64,
    /// It cannot be written on, and what comes next begins another one.
    is_broken: bool,
}

/// Places groups of one camera, which come in their order.
#[derive(Debug)]
pub struct Timeline {
    lasts_us: i64,
    begun: Option<Begun>,
}

impl Timeline {
    /// Segments last this long, and up to the next key frame.
    pub fn new(lasts: Duration) -> Self {
        Self {
            lasts_us: us_of(lasts),
            begun: None,
        }
    }

    /// Says where a group goes. `None` if it has no samples.
    pub fn place(&mut self, gop: &Gop) -> Option<Place> {
        let sample = gop.samples.first()?;
        let track = gop.tracks.get(usize::from(sample.track))?;
        let by_clock = Origin::by(track, sample, gop.start.wall);
        let place = self.choose(gop, by_clock, |origin| origin.us_of(track, sample.dts));
        if let Place::New(origin, _) = place {
            self.begun = Some(Begun {
                generation: gop.generation,
                origin,
                start: gop.start,
                start_us: origin.us_of(track, sample.dts),
                is_broken: false,
            });
        }
        Some(place)
    }

    /// The segment ended early, as it cannot be written on.
    pub fn broke_off(&mut self) {
        if let Some(begun) = &mut self.begun {
            begun.is_broken = true;
        }
    }

    fn choose(&self, gop: &Gop, by_clock: Origin, start_us: impl Fn(Origin) -> i64) -> Place {
        let Some(begun) = &self.begun else {
            return Place::New(by_clock, Cause::First);
        };
        if begun.generation != gop.generation {
            return Place::New(by_clock, Cause::Parameters);
        }
        let wall = unix_us(gop.start.wall).saturating_sub(unix_us(begun.start.wall));
        let monotonic = gop.start.monotonic.saturating_sub(begun.start.monotonic);
        if wall.saturating_sub(us_of(monotonic)).saturating_abs() > STEP_US {
            return Place::New(by_clock, Cause::ClockStep);
        }
        let drift = by_clock.us.saturating_sub(begun.origin.us);
        if drift.saturating_abs() > JUMP_US {
            return Place::New(by_clock, Cause::TimesJump);
        }
        let is_full = start_us(begun.origin).saturating_sub(begun.start_us) >= self.lasts_us;
        let slew = match drift.saturating_abs() {
            ..=LATE_US => 0,
            _ => drift.clamp(-SLEW_US, SLEW_US),
        };
        let us = begun.origin.us + slew;
        if begun.is_broken {
            return Place::New(Origin { us }, Cause::First);
        }
        // A segment whose first group needs an earlier one could not be played by itself.
        if is_full && gop.begins_with_key {
            return Place::New(Origin { us }, Cause::Full);
        }
        Place::Same(begun.origin)
    }
}

#[cfg(test)]
mod tests;
