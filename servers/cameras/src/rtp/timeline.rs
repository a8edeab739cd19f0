//! Times of a track: without wrapping, from the session's beginning on, in the order of decoding.
//!
//! Packets say when a picture is shown, not when it is decoded. Where pictures are shown in another
//! order than they are decoded in, the time of decoding is derived: a picture is decoded when the
//! earliest of the last `reorder + 1` pictures is shown. If that is not known, it is learnt from
//! pictures that are shown before others which came earlier.

/// A jump of more than this many seconds is a clock that began anew.
const JUMP_SECONDS_MAX: i64 = 10;

/// What pictures may be shown later than decoded; as in both codecs' standards.
const REORDER_MAX: usize = 16;

/// The times of one track.
#[derive(Debug)]
pub struct Timeline {
    clock_rate: u32,
    last: Option<Last>,
    /// The last times of showing, which are not yet those of decoding, ascending.
    shown: Vec<i64>,
    reorder: usize,
    last_dts: i64,
}

#[derive(Clone, Copy, Debug)]
struct Last {
    timestamp: u32,
    pts: i64,
    /// The latest one so far.
    pts_max: i64,
}

/// When a sample is decoded, and how much later it is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// When it is decoded, in ticks.
    pub dts: i64,
    /// How much later it is shown.
    pub pts_offset: u32,
    /// The clock began anew before it.
    pub jumped: bool,
}

impl Timeline {
    /// Before the first sample.
    pub fn new(clock_rate: u32) -> Self {
        Self {
            clock_rate,
            last: None,
            shown: Vec::new(),
            reorder: 0,
            last_dts: i64::MIN,
        }
    }

    /// By how many pictures the order of showing is behind, as the parameters say.
    pub fn set_reorder(&mut self, pictures: u8) {
        self.reorder = usize::from(pictures).min(REORDER_MAX);
    }

    /// Ticks a second.
    pub fn clock_rate(&self) -> u32 {
        self.clock_rate
    }

    /// The times of the next sample, by its timestamp. `arrived` is when it came, in ticks since
    /// the session began: where the first one stands, and one after a jump.
    pub fn place(&mut self, timestamp: u32, arrived: i64) -> Times {
        let step = self
            .last
            .map(|last| i64::from(timestamp.wrapping_sub(last.timestamp).cast_signed()));
        let jump_max = JUMP_SECONDS_MAX * i64::from(self.clock_rate);
        let step = step.filter(|step| step.abs() <= jump_max);
        let (pts, jumped) = match (self.last, step) {
            (Some(last), Some(step)) => (last.pts + step, false),
            (last, _) => {
                self.shown.clear();
                // Not before what was there.
                let earliest = last.map_or(0, |last| last.pts_max + 1);
                (arrived.max(earliest), last.is_some())
            }
        };
        let pts_max = self.last.map_or(pts, |last| last.pts_max.max(pts));
        self.last = Some(Last {
            timestamp,
            pts,
            pts_max,
        });
        let dts = self.decoded(pts);
        Times {
            dts,
            pts_offset: u32::try_from(pts - dts).unwrap_or(0),
            jumped,
        }
    }

    fn decoded(&mut self, pts: i64) -> i64 {
        let later = self.shown.iter().filter(|&&shown| shown > pts).count();
        // Those that are shown later and came earlier.
        self.reorder = self.reorder.max(later.min(REORDER_MAX));
        if self.shown.is_empty() {
            // As if pictures had been shown before, one tick apart.
            self.shown
                .extend((1..=self.reorder as i64).rev().map(|ticks| pts - ticks));
        }
        let place = self.shown.partition_point(|&shown| shown <= pts);
        self.shown.insert(place, pts);
        let surplus = self.shown.len().saturating_sub(self.reorder + 1);
        self.shown.drain(..surplus);
        let earliest = self.shown[0];
        // Each later than the one before, even if the source repeats a time.
        self.last_dts = earliest.max(self.last_dts.saturating_add(1));
        self.last_dts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn times_go_on_when_timestamps_wrap() {
        let mut timeline = Timeline::new(90_000);
        let mut timestamp = u32::MAX - 4_000;
        let mut expected = 777;
        for arrived in [777, 0, 0, 0] {
            let times = timeline.place(timestamp, arrived);
            assert_eq!((times.dts, times.pts_offset), (expected, 0));
            timestamp = timestamp.wrapping_add(3_000);
            expected += 3_000;
        }
    }

    #[test]
    fn a_clock_that_begins_anew_goes_by_the_arrival() {
        let mut timeline = Timeline::new(1_000);
        assert_eq!(timeline.place(5_000, 0).dts, 0);
        assert_eq!(timeline.place(5_100, 100).dts, 100);
        let times = timeline.place(900_000_000, 140);
        assert_eq!((times.dts, times.jumped), (140, true));
        // If it came too early, it still comes later than the one before.
        let times = timeline.place(5, 100);
        assert_eq!((times.dts, times.jumped), (141, true));
    }

    #[test]
    fn pictures_out_of_order_get_times_of_decoding() {
        let mut timeline = Timeline::new(90_000);
        timeline.set_reorder(1);
        // I P B P B, as they are decoded.
        let shown = [0, 6_000, 3_000, 12_000, 9_000];
        let times: Vec<_> = shown.iter().map(|&pts| timeline.place(pts, 0)).collect();
        let decoded: Vec<_> = times.iter().map(|times| times.dts).collect();
        assert_eq!(decoded, [-1, 0, 3_000, 6_000, 9_000]);
        let shown_again = times.iter().map(|t| t.dts + i64::from(t.pts_offset));
        assert_eq!(
            shown_again.collect::<Vec<_>>(),
            [0, 6_000, 3_000, 12_000, 9_000]
        );
    }

    proptest! {
        /// Whatever comes, each sample is decoded after the one before it, and shown no earlier.
        #[test]
        fn decoding_goes_forward(
            reorder in 0..4_u8,
            timestamps in prop::collection::vec(any::<u32>(), 0..100),
            steps in prop::collection::vec(-9_000..9_000_i32, 0..200),
        ) {
            let mut timeline = Timeline::new(90_000);
            timeline.set_reorder(reorder);
            let mut at = 0_u32;
            let stepped = steps.into_iter().map(|step| {
                at = at.wrapping_add_signed(step);
                at
            });
            let mut before = i64::MIN;
            for timestamp in stepped.collect::<Vec<_>>().into_iter().chain(timestamps) {
                let times = timeline.place(timestamp, 0);
                prop_assert!(times.dts > before);
                before = times.dts;
            }
        }
    }
}
