//! Classes, among which CPU time is shared.

#[cfg(not(evenkeel_loom))]
pub(crate) mod define;

use std::fmt;
use std::time::Duration;

/// How many classes a runtime has at most: three built-in ones, and 61 of the user's. They are sets
/// of bits in one word. A runtime pays for those that it has. Models have few, as loom follows each
/// atomic.
#[cfg(not(evenkeel_loom))]
pub(crate) const CLASSES_MAX: usize = 64;
#[cfg(evenkeel_loom)]
pub(crate) const CLASSES_MAX: usize = 4;
const _: () = assert!(CLASSES_MAX <= u64::BITS as usize, "a class has a bit");
const BUILT_IN: usize = 3;
/// With a wider range, the smallest share would get too little time to be measured in a second.
const SHARES: std::ops::RangeInclusive<u32> = 1..=10_000;
/// Below, the target would be shorter than the polls themselves; above, it would be meaningless.
const TARGETS: std::ops::RangeInclusive<Duration> =
    Duration::from_micros(10)..=Duration::from_secs(10);
const NAME_LEN_MAX: usize = 32;

/// A class of tasks, to which their CPU time is charged, and which has run queues of its own.
///
/// A task begins in the class given to [`spawn_in`](crate::spawn_in), or in that of the task that
/// spawned it, and may [change its class](crate::task::change_class). A task that is spawned
/// outside every task is [`NORMAL`](Class::NORMAL).
///
/// Three classes exist in every runtime. [`Builder::class`](crate::runtime::Builder::class) changes
/// their [`ClassConfig`] and adds classes of other names to one runtime;
/// [`define`](Class::define) adds them to all.
/// [`Handle::class`](crate::runtime::Handle::class) finds them by name. A `Class` that a builder
/// has added is valid only in its runtime; in another one it may mean another class, or none.
///
/// The chapter [Classes](crate::guide::classes) says what a class is promised, and what not.
///
/// # Examples
///
/// ```
/// use evenkeel::{Class, ClassConfig, runtime::Builder};
///
/// let runtime = Builder::new()
///     .class("bulk", ClassConfig::new().share(10))
///     .class("video", ClassConfig::new().share(40))
///     .build()?;
/// let video = runtime.handle().class("video").expect("it was named above");
/// let frames = runtime.block_on(async move {
///     evenkeel::spawn_in(video, async { 25 }).await
/// })?;
/// assert_eq!(frames, 25);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Class(u8);

impl Class {
    /// Health checks, admin calls, handshakes: little work that must not wait.
    pub const URGENT: Class = Class(0);
    /// Ordinary requests, and all tasks without a class.
    pub const NORMAL: Class = Class(1);
    /// Streams, big transfers, parsing, compaction: much work that may wait.
    pub const BULK: Class = Class(2);

    /// The index of the class in tables with one entry for each class of a runtime.
    #[inline]
    pub fn index(self) -> usize {
        self.0 as usize
    }

    /// The class with this index; the inverse of [`index`](Class::index).
    #[inline]
    pub(crate) fn at(index: usize) -> Class {
        debug_assert!(index < CLASSES_MAX);
        Class(index as u8)
    }

    /// The classes of a bit set, lowest first.
    #[inline]
    pub(crate) fn of_bits(mut bits: u64) -> impl Iterator<Item = Class> {
        std::iter::from_fn(move || {
            if bits == 0 {
                return None;
            }
            let class = Class(bits.trailing_zeros() as u8);
            bits &= bits - 1;
            Some(class)
        })
    }

    #[inline]
    pub(crate) fn bit(self) -> u64 {
        1 << self.0
    }
}

impl Default for Class {
    fn default() -> Self {
        Class::NORMAL
    }
}

impl fmt::Debug for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Prints the name of a built-in class, and the number of any other: its name is the runtime's, see
/// [`Handle::classes`](crate::runtime::Handle::classes).
impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => f.write_str("urgent"),
            1 => f.write_str("normal"),
            2 => f.write_str("bulk"),
            number => write!(f, "class {number}"),
        }
    }
}

/// The share and the latency target of a class. A setting that is left out stays as it was, or at
/// its default.
///
/// | class | share | latency target |
/// |---|---|---|
/// | `urgent` | 30 | 200 us |
/// | `normal` | 50 | 2 ms |
/// | `bulk` | 20 | 20 ms |
/// | any other | 50 | 2 ms |
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassConfig {
    share: Option<u32>,
    latency_target: Option<Duration>,
}

impl ClassConfig {
    /// Sets nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the class's weight, from 1 to 10000: among classes that always have work, CPU time is
    /// divided in the ratio of their shares. Time that a class leaves unused is divided among the
    /// others in the same ratio.
    pub fn share(mut self, share: u32) -> Self {
        self.share = Some(share);
        self
    }

    /// Sets how soon the class wants to be served when it is owed time, from 10 microseconds to 10
    /// seconds: among the classes that are owed time, the one with the shortest target goes first.
    /// The target decides the order; the share decides the amount. It also says when a worker wakes
    /// another one to help: before tasks of the class wait for half of it.
    pub fn latency_target(mut self, target: Duration) -> Self {
        self.latency_target = Some(target);
        self
    }
}

/// A class of a runtime, with its current share and latency target.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClassInfo {
    /// The class.
    pub class: Class,
    /// Its name.
    pub name: String,
    /// See [`ClassConfig::share`].
    pub share: u32,
    /// See [`ClassConfig::latency_target`].
    pub latency_target: Duration,
}

/// Why a class or a setting of it was refused.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClassError {
    /// The runtime has no such class: it is one of another runtime.
    Unknown(Class),
    /// There are 64 classes already.
    TooMany {
        /// The class that was refused.
        name: String,
    },
    /// [`Class::define`] was given the name of a class that there is.
    Defined(String),
    /// [`Class::define`] was called when there was a builder or a runtime already.
    TooLate(String),
    /// A name is made of 1 to 32 letters, digits, `-` and `_`.
    Name(String),
    /// A share is 1 to 10000.
    Share(u32),
    /// A latency target is 10 microseconds to 10 seconds.
    LatencyTarget(Duration),
}

/// `main` shows its error by `Debug`, so the message is part of it.
impl fmt::Debug for ClassError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClassError({self})")
    }
}

impl fmt::Display for ClassError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(class) => write!(
                f,
                "`{class}` is no class of this runtime; ask its handle for the class by name"
            ),
            Self::TooMany { name } => write!(
                f,
                "class `{name}` is one too many: a runtime has at most {CLASSES_MAX} classes"
            ),
            Self::Defined(name) => write!(
                f,
                "there is a class `{name}` already; `Builder::class` and `Handle::set_class` \
                 change its share"
            ),
            Self::TooLate(name) => write!(
                f,
                "class `{name}` comes too late: there is a runtime or a builder without it; define \
                 classes first in `main`, and only then call what `#[tokio::main]` or the like is \
                 on"
            ),
            Self::Name(name) => write!(
                f,
                "{name:?} is no name for a class; use 1 to {NAME_LEN_MAX} letters, digits, `-`, `_`"
            ),
            Self::Share(share) => write!(f, "a share of {share} is out of range; use 1 to 10000"),
            Self::LatencyTarget(target) => write!(
                f,
                "a latency target of {target:?} is out of range; use 10 microseconds to 10 seconds"
            ),
        }
    }
}

impl std::error::Error for ClassError {}

/// The classes of a runtime, as configured.
#[derive(Clone, Debug)]
pub(crate) struct ClassTable {
    rows: Vec<ClassRow>,
}

#[derive(Clone, Debug)]
pub(crate) struct ClassRow {
    pub(crate) name: String,
    pub(crate) terms: Terms,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Terms {
    pub(crate) share: u32,
    pub(crate) target: Duration,
}

impl Terms {
    pub(crate) fn with(self, config: ClassConfig) -> Result<Terms, ClassError> {
        let share = config.share.unwrap_or(self.share);
        let target = config.latency_target.unwrap_or(self.target);
        if !SHARES.contains(&share) {
            return Err(ClassError::Share(share));
        }
        if !TARGETS.contains(&target) {
            return Err(ClassError::LatencyTarget(target));
        }
        Ok(Terms { share, target })
    }
}

impl Default for ClassTable {
    fn default() -> Self {
        let row = |name: &str, share, micros| ClassRow {
            name: name.to_owned(),
            terms: Terms {
                share,
                target: Duration::from_micros(micros),
            },
        };
        let rows = vec![
            row("urgent", 30, 200),
            row("normal", 50, 2_000),
            row("bulk", 20, 20_000),
        ];
        debug_assert_eq!(rows.len(), BUILT_IN);
        Self { rows }
    }
}

/// Whether a class may have this name.
pub(crate) fn check_name(name: &str) -> Result<(), ClassError> {
    let plain = |c: char| c.is_alphanumeric() || c == '-' || c == '_';
    if (1..=NAME_LEN_MAX).contains(&name.chars().count()) && name.chars().all(plain) {
        return Ok(());
    }
    Err(ClassError::Name(name.to_owned()))
}

impl ClassTable {
    pub(crate) fn set(&mut self, name: &str, config: ClassConfig) -> Result<(), ClassError> {
        if let Some(row) = self.rows.iter_mut().find(|row| row.name == name) {
            row.terms = row.terms.with(config)?;
            return Ok(());
        }
        check_name(name)?;
        if self.rows.len() == CLASSES_MAX {
            let name = name.to_owned();
            return Err(ClassError::TooMany { name });
        }
        let default = ClassTable::default().rows[Class::NORMAL.index()].terms;
        self.rows.push(ClassRow {
            name: name.to_owned(),
            terms: default.with(config)?,
        });
        debug_assert!(self.rows.len() <= CLASSES_MAX);
        Ok(())
    }

    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    #[inline]
    pub(crate) fn has(&self, class: Class) -> bool {
        class.index() < self.rows.len()
    }

    pub(crate) fn find(&self, name: &str) -> Option<Class> {
        let index = self.rows.iter().position(|row| row.name == name)?;
        Some(Class::at(index))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Class, &ClassRow)> {
        let rows = self.rows.iter().enumerate();
        rows.map(|(index, row)| (Class::at(index), row))
    }
}

#[cfg(all(test, not(evenkeel_loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_published_shares_are_accepted() {
        let mut table = ClassTable::default();
        for (name, share) in [("urgent", 16), ("normal", 33), ("bulk", 50)] {
            table.set(name, ClassConfig::new().share(share)).unwrap();
        }
        let shares: Vec<u32> = table.iter().map(|(_, row)| row.terms.share).collect();
        assert_eq!(shares, [16, 33, 50]);
    }

    #[test]
    fn as_many_classes_as_there_are_bits_can_be_added_and_no_more() {
        let mut table = ClassTable::default();
        for number in 0..61 {
            table
                .set(&format!("own-{number}"), ClassConfig::new())
                .unwrap();
        }
        let refused = table.set("one-more", ClassConfig::new());
        assert!(
            matches!(refused, Err(ClassError::TooMany { .. })),
            "{refused:?}"
        );
        assert_eq!(table.find("own-60"), Some(Class::at(63)));
        assert_eq!(table.find("one-more"), None);
        // Existing classes can still be changed.
        table.set("own-60", ClassConfig::new().share(7)).unwrap();
    }

    #[test]
    fn the_length_of_a_name_is_counted_in_letters() {
        let mut table = ClassTable::default();
        let [longest, longer] = [32, 33].map(|letters| "\u{fc}".repeat(letters));
        table.set(&longest, ClassConfig::new()).unwrap();
        let refused = table.set(&longer, ClassConfig::new());
        assert_eq!(refused, Err(ClassError::Name(longer)));
    }

    #[test]
    fn invalid_settings_are_refused_and_change_nothing() {
        let mut table = ClassTable::default();
        let config = ClassConfig::new();
        assert_eq!(
            table.set("bulk", config.share(0)),
            Err(ClassError::Share(0))
        );
        assert!(table.set("bulk", config.share(10_001)).is_err());
        assert!(
            table
                .set("bulk", config.latency_target(Duration::ZERO))
                .is_err()
        );
        for name in ["", "two words", "a\0b", &"x".repeat(33)] {
            let refused = table.set(name, config);
            assert_eq!(refused, Err(ClassError::Name(name.to_owned())));
        }
        assert_eq!(table.len(), BUILT_IN);
        assert_eq!(table.rows[2].terms.share, 20);
    }

    #[test]
    fn bits_name_classes() {
        let classes: Vec<Class> = Class::of_bits(1 << 63 | 0b101).collect();
        assert_eq!(classes, [Class::URGENT, Class::BULK, Class::at(63)]);
    }
}
