//! State that higher floors keep with a runtime.

use std::any::Any;
use std::fmt;

/// Values of different types, each found by its type. The scheduler does not know the types.
#[derive(Default)]
pub(crate) struct Extensions(Vec<Box<dyn Any + Send + Sync>>);

impl Extensions {
    /// Adds the one value of its type.
    pub(crate) fn with<T: Any + Send + Sync>(mut self, extension: T) -> Self {
        debug_assert!(!self.0.iter().any(|it| it.is::<T>()), "one of each type");
        self.0.push(Box::new(extension));
        self
    }

    /// The value of a type. Every runtime is made with one of each.
    pub(crate) fn get<T: Any>(&self) -> &T {
        let Some(found) = self.0.iter().find_map(|it| it.downcast_ref()) else {
            unreachable!("a runtime is made with its {}", std::any::type_name::<T>())
        };
        found
    }
}

impl fmt::Debug for Extensions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Extensions({})", self.0.len())
    }
}
