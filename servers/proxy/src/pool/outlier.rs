//! Servers that answer checks and fail at requests: which of them get none for a while. Knows no
//! clock.
//!
//! ```text
//!        failures in a row, or too many in the window
//!     In ────────────────────────────────────────────▶ Out(until)
//!      ▲                                                  │ its time is over, and it is chosen
//!      └── it is good ── Probing(until) ◀─────────────────┘
//!                           │  ▲ it ends without an outcome, or takes long: another one may try
//!                           └──┴── it fails: Out, for twice as long
//! ```

use std::time::Duration;

use crate::config::Outliers;

/// Parts of the window, so that it moves in steps and needs no list of outcomes.
const PARTS: usize = 5;

/// What is known of a server by its outcomes.
#[derive(Clone, Debug, Default)]
pub struct Record {
    state: State,
    /// Failures since the last success.
    in_a_row: u32,
    parts: [Part; PARTS],
    /// Ejections, each of which came soon after the one before.
    times: u32,
    /// When it came back.
    back: Duration,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    In,
    Out(Duration),
    Probing(Duration),
}

/// Outcomes in a part of the window.
#[derive(Clone, Copy, Debug, Default)]
struct Part {
    /// Which part, since the beginning of all.
    number: u128,
    good: u32,
    bad: u32,
}

/// What an outcome changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Verdict {
    /// Nothing.
    None,
    /// It is ejected for this time.
    Ejected(Duration),
    /// It is back.
    Back,
}

impl Record {
    /// Whether it gets no requests now.
    pub fn is_out(&self, now: Duration) -> bool {
        match self.state {
            State::In => false,
            State::Out(until) | State::Probing(until) => now < until,
        }
    }

    /// Whether it is ejected, or being tried again.
    pub fn is_ejected(&self) -> bool {
        self.state != State::In
    }

    /// How long it still gets none.
    pub fn left(&self, now: Duration) -> Duration {
        match self.state {
            State::In => Duration::ZERO,
            State::Out(until) | State::Probing(until) => until.saturating_sub(now),
        }
    }

    /// It was chosen. If it was out, this request tries it, and no other one does for a while.
    pub fn chosen(&mut self, now: Duration, config: &Outliers) {
        if self.is_ejected() && !self.is_out(now) {
            self.state = State::Probing(now + config.ejection);
        }
    }

    /// All that it was chosen for has ended. A request that was to try it, and was taken back
    /// before anything could be said of the server, leaves that to the next one.
    pub fn rests(&mut self) {
        if let State::Probing(_) = self.state {
            self.state = State::Probing(Duration::ZERO);
        }
    }

    /// Notes an outcome. `may_eject` says whether one more server may be out.
    pub fn note(
        &mut self,
        good: bool,
        now: Duration,
        config: &Outliers,
        may_eject: impl FnOnce() -> bool,
    ) -> Verdict {
        match (self.state, good) {
            // Of a request that began before.
            (State::Out(_), _) => Verdict::None,
            (State::Probing(_), true) => {
                *self = Self {
                    times: self.times,
                    back: now,
                    ..Self::default()
                };
                Verdict::Back
            }
            (State::Probing(_), false) => self.eject(now, config),
            (State::In, good) => {
                self.count(good, now, config);
                if !good && self.is_too_bad(now, config) && may_eject() {
                    self.eject(now, config)
                } else {
                    Verdict::None
                }
            }
        }
    }

    fn count(&mut self, good: bool, now: Duration, config: &Outliers) {
        self.in_a_row = if good {
            0
        } else {
            self.in_a_row.saturating_add(1)
        };
        let number = part_number(now, config);
        let part = &mut self.parts[(number % PARTS as u128) as usize];
        if part.number != number {
            *part = Part {
                number,
                ..Part::default()
            };
        }
        let count = if good { &mut part.good } else { &mut part.bad };
        *count = count.saturating_add(1);
    }

    fn is_too_bad(&self, now: Duration, config: &Outliers) -> bool {
        if config.consecutive > 0 && self.in_a_row >= config.consecutive {
            return true;
        }
        let number = part_number(now, config);
        let is_lately = |part: &&Part| part.number + PARTS as u128 > number;
        let parts = self.parts.iter().filter(is_lately);
        let (good, bad) = parts.fold((0, 0), |(good, bad), part| {
            (good + u64::from(part.good), bad + u64::from(part.bad))
        });
        let all = good + bad;
        config.failure_percent > 0
            && all >= u64::from(config.requests_min)
            && bad * 100 >= all * u64::from(config.failure_percent)
    }

    fn eject(&mut self, now: Duration, config: &Outliers) -> Verdict {
        // Who was good for long begins anew.
        if now.saturating_sub(self.back) > config.ejection_max {
            self.times = 0;
        }
        let factor = 2_u32.saturating_pow(self.times.min(16));
        let time = config
            .ejection
            .saturating_mul(factor)
            .min(config.ejection_max);
        *self = Self {
            state: State::Out(now + time),
            times: self.times + 1,
            back: now + time,
            ..Self::default()
        };
        Verdict::Ejected(time)
    }
}

fn part_number(now: Duration, config: &Outliers) -> u128 {
    let length = (config.window / PARTS as u32).as_nanos().max(1);
    // From 1 on, so that parts which were never used are of no time.
    now.as_nanos() / length + PARTS as u128
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: Duration = Duration::from_secs(1);

    fn config(text: &str) -> Outliers {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn failures_in_a_row_eject_for_longer_each_time() {
        let config = config("consecutive = 3\nejection = \"10s\"\nejection_max = \"30s\"");
        let mut record = Record::default();
        let note = |record: &mut Record, good, now| record.note(good, now, &config, || true);
        for good in [false, false, true, false, false] {
            assert_eq!(note(&mut record, good, S), Verdict::None);
        }
        assert_eq!(note(&mut record, false, S), Verdict::Ejected(S * 10));
        assert!(record.is_out(S * 10) && !record.is_out(S * 11));
        assert_eq!(record.left(S * 5), S * 6);
        assert_eq!(note(&mut record, true, S * 2), Verdict::None, "an old one");
        // One alone tries it again.
        record.chosen(S * 11, &config);
        assert!(record.is_out(S * 12));
        assert_eq!(note(&mut record, false, S * 12), Verdict::Ejected(S * 20));
        record.chosen(S * 32, &config);
        assert_eq!(note(&mut record, false, S * 32), Verdict::Ejected(S * 30));
        // If nobody says what became of it, another one may try, and sooner when it has ended.
        record.chosen(S * 62, &config);
        assert!(record.is_out(S * 71) && !record.is_out(S * 72));
        record.chosen(S * 72, &config);
        record.rests();
        assert!(!record.is_out(S * 72) && record.is_ejected());
        record.chosen(S * 72, &config);
        assert_eq!(note(&mut record, true, S * 73), Verdict::Back);
        assert!(!record.is_out(S * 73) && !record.is_ejected());
        // Who was good for long begins anew.
        for now in [200, 201] {
            assert_eq!(note(&mut record, false, S * now), Verdict::None);
        }
        assert_eq!(note(&mut record, false, S * 202), Verdict::Ejected(S * 10));
    }

    #[test]
    fn a_part_of_failures_in_the_window_ejects() {
        let config =
            config("consecutive = 0\nfailure_percent = 50\nrequests_min = 10\nwindow = \"10s\"");
        let mut record = Record::default();
        // Five of nine are too few to say anything, and old ones do not count.
        for (good, now) in [(false, 0), (false, 1), (false, 1), (false, 1)] {
            assert_eq!(record.note(good, S * now, &config, || true), Verdict::None);
        }
        for outcome in [true, false, true, false, true, false, true, true, true] {
            let verdict = record.note(outcome, S * 20, &config, || true);
            assert_eq!(verdict, Verdict::None);
        }
        assert_eq!(
            record.note(false, S * 21, &config, || true),
            Verdict::None,
            "4 of 10"
        );
        assert_eq!(
            record.note(false, S * 22, &config, || true),
            Verdict::None,
            "5 of 11"
        );
        assert_eq!(
            record.note(false, S * 22, &config, || false),
            Verdict::None,
            "no more may"
        );
        let verdict = record.note(false, S * 22, &config, || true);
        assert!(matches!(verdict, Verdict::Ejected(_)), "7 of 13");
    }
}
