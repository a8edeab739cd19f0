//! The times of what is sent, which only go forward.
//!
//! A viewer begins at the newest key frame, and goes back to it when it has lost something: then it
//! is sent pictures that are older than the newest one. A browser shows each picture at its time,
//! and drops one whose time is before that of another that it has had. So pictures that are sent to
//! catch up are placed a step apart from each other, right before the newest one or after what was
//! sent last; from there on times go on as the camera's do.
//!
//! ```text
//!  camera    k . . . . . . . . . n        k is the key frame, n the newest picture
//!  begins                k.......n . . .
//!  goes back             . . . . n k.......n . .
//! ```

/// How far pictures are apart that are sent to catch up, in ticks of 90 000 Hz: a millisecond.
/// Less would be rounded away by browsers, more would take longer to catch up.
const STEP: i64 = 90;

/// The times of one track as it is sent, in its ticks.
#[derive(Debug, Default)]
pub struct Stamps {
    /// What is added to the camera's times.
    shift: i64,
    /// The last one that was sent.
    sent: Option<i64>,
    /// The latest time of the camera since the last key frame that was gone back to.
    seen: Option<i64>,
    /// Pictures that are older than the newest one, and the time of that.
    behind: (u64, i64),
}

/// When something is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stamp {
    /// At this time.
    At(i64),
    /// Never: sound that was sent, or that belongs to pictures which are hurried through.
    Passed,
    /// Before a picture that came earlier: pictures are decoded in another order than shown.
    Reordered,
}

impl Stamps {
    /// So many pictures follow up to the newest one, which has this time of the camera.
    pub fn catch_up(&mut self, pictures: u64, newest: i64) {
        self.behind = (pictures, newest + self.shift);
        self.seen = None;
    }

    /// The camera's times begin anew; this is added to them from now on.
    pub fn restart(&mut self, shift: i64) {
        self.shift = shift;
        self.behind = (0, 0);
        self.seen = None;
    }

    /// Whether a time of the camera is before what was sent.
    pub fn is_earlier(&self, time: i64) -> bool {
        self.sent.is_some_and(|sent| time + self.shift < sent)
    }

    /// Whether older pictures are being sent.
    pub fn is_behind(&self) -> bool {
        self.behind.0 > 0
    }

    /// Places a picture.
    pub fn picture(&mut self, time: i64) -> Stamp {
        let natural = time + self.shift;
        if self.seen.is_some_and(|seen| natural < seen) {
            return Stamp::Reordered;
        }
        self.seen = Some(natural);
        let (left, newest) = &mut self.behind;
        let wanted = match i64::try_from(*left) {
            Ok(pictures @ 1..) => {
                *left -= 1;
                *newest - (pictures - 1) * STEP
            }
            _ => natural,
        };
        let at = self.sent.map_or(wanted, |sent| wanted.max(sent + STEP));
        self.sent = Some(at);
        Stamp::At(at)
    }

    /// Places a packet of sound.
    pub fn sound(&mut self, time: i64) -> Stamp {
        let natural = time + self.shift;
        if self.sent.is_some_and(|sent| natural <= sent) {
            return Stamp::Passed;
        }
        self.sent = Some(natural);
        Stamp::At(natural)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PICTURE: i64 = 3_600;

    #[test]
    fn what_is_old_at_the_beginning_is_placed_right_before_the_newest() {
        let mut stamps = Stamps::default();
        stamps.catch_up(3, 10 * PICTURE);
        assert_eq!(
            stamps.picture(8 * PICTURE),
            Stamp::At(10 * PICTURE - 2 * STEP)
        );
        assert_eq!(stamps.picture(9 * PICTURE), Stamp::At(10 * PICTURE - STEP));
        assert!(stamps.is_behind());
        assert_eq!(stamps.picture(10 * PICTURE), Stamp::At(10 * PICTURE));
        assert!(!stamps.is_behind());
        assert_eq!(stamps.picture(11 * PICTURE), Stamp::At(11 * PICTURE));
    }

    #[test]
    fn going_back_goes_on_after_what_was_sent_and_catches_up() {
        let mut stamps = Stamps::default();
        for picture in 0..50 {
            assert_eq!(
                stamps.picture(picture * PICTURE),
                Stamp::At(picture * PICTURE)
            );
        }
        stamps.catch_up(50, 49 * PICTURE);
        for picture in 0..50 {
            let expected = 49 * PICTURE + (picture + 1) * STEP;
            assert_eq!(stamps.picture(picture * PICTURE), Stamp::At(expected));
        }
        // What is live is placed later than it is, until times are the camera's again.
        assert_eq!(
            stamps.picture(50 * PICTURE),
            Stamp::At(49 * PICTURE + 51 * STEP)
        );
        assert_eq!(stamps.picture(51 * PICTURE), Stamp::At(51 * PICTURE));
    }

    #[test]
    fn another_order_is_noticed_but_not_in_going_back() {
        let mut stamps = Stamps::default();
        stamps.picture(0);
        stamps.picture(3 * PICTURE);
        assert_eq!(stamps.picture(PICTURE), Stamp::Reordered);
        stamps.catch_up(1, 3 * PICTURE);
        assert!(matches!(stamps.picture(0), Stamp::At(_)));
    }

    #[test]
    fn sound_is_sent_once() {
        let mut stamps = Stamps::default();
        assert_eq!(stamps.sound(960), Stamp::At(960));
        assert_eq!(stamps.sound(960), Stamp::Passed);
        assert_eq!(stamps.sound(1_920), Stamp::At(1_920));
        stamps.restart(48_000);
        assert_eq!(stamps.sound(960), Stamp::At(48_960));
    }

    proptest! {
        #[test]
        fn times_only_go_forward(
            steps in prop::collection::vec((0_i64..5, 0_u64..400), 1..60),
        ) {
            let (mut stamps, mut time, mut last) = (Stamps::default(), 0, i64::MIN);
            for (back, pictures) in steps {
                let from = time - back * PICTURE;
                stamps.catch_up(pictures, time);
                for picture in 0..pictures.min(20) as i64 {
                    time = from + picture * PICTURE;
                    let Stamp::At(at) = stamps.picture(time) else {
                        panic!("{time} is not placed");
                    };
                    prop_assert!(at > last);
                    last = at;
                }
            }
        }
    }
}
