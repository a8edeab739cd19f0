//! What the floors above the scheduler keep with a runtime.

use std::any::Any;
use std::fmt;

/// Things of different types, each of which is found by its type. The scheduler carries them and
/// knows none of them.
#[derive(Default)]
pub(crate) struct Extensions(Vec<Box<dyn Any + Send + Sync>>);

impl Extensions {
    /// Adds the one thing of its type.
    pub(crate) fn with(mut self, extension: impl Any + Send + Sync) -> Self {
        self.0.push(Box::new(extension));
        self
    }

    /// # Panics
    ///
    /// If nothing of this type was added: whoever makes a runtime adds all of them.
    pub(crate) fn get<T: Any>(&self) -> &T {
        let mut found = self
            .0
            .iter()
            .filter_map(|extension| extension.downcast_ref());
        match found.next() {
            Some(extension) => extension,
            None => unreachable!("a runtime is made with its {}", std::any::type_name::<T>()),
        }
    }
}

impl fmt::Debug for Extensions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Extensions({})", self.0.len())
    }
}
