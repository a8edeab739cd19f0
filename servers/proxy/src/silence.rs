//! Whether a connection or a tunnel has been silent for too long.

use std::time::Duration;

/// What is known of it.
#[derive(Debug, Default)]
pub struct Silence {
    moved: u64,
    /// How many looks in a row have found nothing.
    looks: u32,
}

impl Silence {
    const LOOKS: u32 = 2;

    /// How often to look, if it may be silent for so long, or at most half as long again.
    pub fn look(idle: Duration) -> Duration {
        idle / Self::LOOKS
    }

    /// Notes how many bytes have been passed on in all, and whether something else shows that it is
    /// not silent. Returns whether it has been silent for too long.
    pub fn is_long(&mut self, moved: u64, is_busy: bool) -> bool {
        let before = std::mem::replace(&mut self.moved, moved);
        self.looks = match moved == before && !is_busy {
            true => self.looks + 1,
            false => 0,
        };
        self.looks >= Self::LOOKS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_is_long_after_two_looks() {
        let mut silence = Silence::default();
        let look = Silence::look(Duration::from_secs(300));
        assert_eq!(look, Duration::from_secs(150));
        assert!(!silence.is_long(0, false));
        assert!(!silence.is_long(5, false), "bytes");
        assert!(!silence.is_long(5, false));
        assert!(
            !silence.is_long(5, true),
            "something shows that it is not silent"
        );
        assert!(!silence.is_long(5, false));
        assert!(silence.is_long(5, false));
    }
}
