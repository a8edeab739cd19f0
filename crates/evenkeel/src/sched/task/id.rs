//! Telling tasks apart.

use std::fmt;
use std::num::NonZero;
use std::ptr;

use super::cell::Header;

/// Tells a task from all others that have not ended, of every runtime of the process.
///
/// It is the address of the task, so it costs nothing; another task may get it later.
///
/// # Examples
///
/// ```
/// use evenkeel::task;
///
/// # #[evenkeel::main]
/// # async fn main() {
/// assert_eq!(task::id(), None, "the future of `main` is no task");
/// let task = evenkeel::spawn(async { task::id() });
/// let id = task.id();
/// assert_eq!(task.await.unwrap(), Some(id));
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Id(NonZero<usize>);

impl Id {
    /// That of this task; `None` for a null pointer.
    pub(crate) fn of(task: *const Header) -> Option<Self> {
        NonZero::new(task.addr()).map(Self)
    }
}

impl From<&Header> for Id {
    fn from(task: &Header) -> Self {
        Self::of(ptr::from_ref(task)).expect("a reference is not null")
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}", self.0)
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Id({self})")
    }
}

/// As it prints.
#[cfg(feature = "serde")]
impl serde::Serialize for Id {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for Id {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        let number = usize::from_str_radix(&text, 16).ok().and_then(NonZero::new);
        let odd = || serde::de::Error::custom(format!("{text:?} is no task's id"));
        number.map(Self).ok_or_else(odd)
    }
}
