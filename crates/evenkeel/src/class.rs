//! Classes: what CPU time is shared among.

use std::fmt;

/// How many classes there are.
pub(crate) const CLASSES: usize = 3;

/// What a task's CPU time is charged to, and which of a worker's queues it waits in.
///
/// A task belongs to one class for its whole life: the one it was spawned into with
/// [`spawn_in`](crate::spawn_in), or that of the task that spawned it. What is spawned from
/// outside every task is [`NORMAL`](Class::NORMAL).
///
/// # Behaviour today
///
/// Each worker keeps the classes apart, charges each with the time its polls took, and runs next
/// the class that has had the least. The three classes have equal shares.
///
/// # Examples
///
/// ```
/// use evenkeel::Class;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let runtime = evenkeel::runtime::Runtime::new()?;
/// let answer = runtime.block_on(async {
///     evenkeel::spawn_in(Class::URGENT, async { 42 }).await
/// })?;
/// assert_eq!(answer, 42);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Class(u8);

impl Class {
    /// Health checks, admin calls, handshakes: little work that must not wait.
    pub const URGENT: Class = Class(0);
    /// Ordinary requests, and whatever was not given a class.
    pub const NORMAL: Class = Class(1);
    /// Streams, big transfers, parsing, compaction: much work that may wait.
    pub const BULK: Class = Class(2);

    /// Every class, in the order of their numbers.
    pub const ALL: [Class; CLASSES] = [Class::URGENT, Class::NORMAL, Class::BULK];

    /// The class's place in tables that have one entry for each class.
    #[inline]
    pub fn index(self) -> usize {
        self.0 as usize
    }

    /// The class's name, as reports print it.
    pub fn name(self) -> &'static str {
        match self.0 {
            0 => "urgent",
            1 => "normal",
            _ => "bulk",
        }
    }
}

impl Default for Class {
    fn default() -> Self {
        Class::NORMAL
    }
}

impl fmt::Debug for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
