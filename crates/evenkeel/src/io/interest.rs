//! Interest of tasks in a descriptor, and its readiness.

use std::ops::{Add, BitOr, BitOrAssign};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Read,
    Write,
}

/// What to wait for with `ready`.
///
/// # Examples
///
/// ```
/// use evenkeel::io::Interest;
///
/// let both = Interest::READABLE | Interest::WRITABLE;
/// assert!(both.is_readable() && both.is_writable());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interest(u8);

impl Interest {
    /// Wait until a read would not block, or the reading side is closed.
    pub const READABLE: Interest = Interest(0b01);
    /// Wait until a write would not block, or the writing side is closed.
    pub const WRITABLE: Interest = Interest(0b10);
    /// Wait for errors, which belong to every interest, and for nothing else.
    #[cfg(feature = "drop-in")]
    #[doc(hidden)]
    pub const ERRORS: Interest = Interest(0);

    /// Whether this includes reading.
    pub fn is_readable(self) -> bool {
        self.0 & Interest::READABLE.0 != 0
    }

    /// Whether this includes writing.
    pub fn is_writable(self) -> bool {
        self.0 & Interest::WRITABLE.0 != 0
    }

    /// What is in both.
    pub(crate) fn both(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    pub(crate) fn bits(self) -> u8 {
        self.0
    }

    /// `None` if there are none.
    pub(crate) fn of_bits(bits: u8) -> Option<Self> {
        (bits != 0).then_some(Self(bits))
    }
}

impl BitOr for Interest {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Interest(self.0 | other.0)
    }
}

impl Add for Interest {
    type Output = Self;

    #[allow(
        clippy::suspicious_arithmetic_impl,
        reason = "interests add up as sets do"
    )]
    fn add(self, other: Self) -> Self {
        self | other
    }
}

impl From<Direction> for Interest {
    fn from(direction: Direction) -> Self {
        match direction {
            Direction::Read => Interest::READABLE,
            Direction::Write => Interest::WRITABLE,
        }
    }
}

/// What a descriptor is ready for, as far as is known.
///
/// Readiness is a hint: the operation may still find that it would block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ready(u8);

impl Ready {
    /// Ready for nothing.
    pub const EMPTY: Ready = Ready(0);
    /// A read would not block.
    pub const READABLE: Ready = Ready(1);
    /// A write would not block.
    pub const WRITABLE: Ready = Ready(1 << 1);
    /// The peer sends no more, or the reading side was shut down.
    pub const READ_CLOSED: Ready = Ready(1 << 2);
    /// The peer takes no more, or the writing side was shut down.
    pub const WRITE_CLOSED: Ready = Ready(1 << 3);
    /// An error waits to be taken.
    pub const ERROR: Ready = Ready(1 << 4);
    /// The runtime that watched the descriptor has shut down.
    pub(crate) const SHUTDOWN: Ready = Ready(1 << 5);

    const READ_SIDE: u8 = 0b11_0101;
    const WRITE_SIDE: u8 = 0b11_1010;
    /// All flags; `readiness` packs them below its own.
    pub(super) const ALL: u8 = Self::READ_SIDE | Self::WRITE_SIDE;

    /// Whether nothing is ready.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether a read would return data, the end of the stream, or an error.
    pub fn is_readable(self) -> bool {
        self.0 & (Self::READABLE.0 | Self::READ_CLOSED.0) != 0
    }

    /// Whether a write would take data or return an error.
    pub fn is_writable(self) -> bool {
        self.0 & (Self::WRITABLE.0 | Self::WRITE_CLOSED.0) != 0
    }

    /// Whether the reading side is closed.
    pub fn is_read_closed(self) -> bool {
        self.0 & Self::READ_CLOSED.0 != 0
    }

    /// Whether the writing side is closed.
    pub fn is_write_closed(self) -> bool {
        self.0 & Self::WRITE_CLOSED.0 != 0
    }

    /// Whether an error waits to be taken.
    pub fn is_error(self) -> bool {
        self.0 & Self::ERROR.0 != 0
    }

    /// Whether all of these are among it.
    #[cfg(feature = "drop-in")]
    #[doc(hidden)]
    pub fn contains(self, other: Ready) -> bool {
        self.0 & other.0 == other.0
    }

    pub(crate) fn is_shutdown(self) -> bool {
        self.0 & Self::SHUTDOWN.0 != 0
    }

    /// The part of this that an interest asks for; closing and errors belong to every interest.
    pub(crate) fn for_interest(self, interest: Interest) -> Ready {
        let mut sides = Self::ERROR.0 | Self::SHUTDOWN.0;
        if interest.is_readable() {
            sides |= Self::READ_SIDE;
        }
        if interest.is_writable() {
            sides |= Self::WRITE_SIDE;
        }
        Ready(self.0 & sides)
    }

    pub(crate) fn without(self, other: Ready) -> Ready {
        Ready(self.0 & !other.0)
    }

    pub(crate) fn bits(self) -> usize {
        usize::from(self.0)
    }

    pub(crate) fn from_bits(bits: usize) -> Ready {
        Ready(bits as u8 & Self::ALL)
    }

    /// The flag that `WouldBlock` clears. Closing and errors last.
    pub(crate) fn of_direction(direction: Direction) -> Ready {
        match direction {
            Direction::Read => Ready::READABLE,
            Direction::Write => Ready::WRITABLE,
        }
    }
}

impl BitOr for Ready {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Ready(self.0 | other.0)
    }
}

impl BitOrAssign for Ready {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}
