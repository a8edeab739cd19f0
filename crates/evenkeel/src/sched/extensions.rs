//! State that higher floors keep with a runtime.

use std::any::Any;
use std::fmt;

/// Values of different types, each found by its type. The scheduler does not know the types.
#[derive(Default)]
pub(crate) struct Extensions(Vec<Box<dyn Any + Send + Sync>>);

impl Extensions {
    /// Adds the one value of its type.
    pub(crate) fn with<T: Any + Send + Sync>(mut self, extension: T) -> Self {
        debug_assert!(
            !self.0.iter().any(|it| it.is::<T>()),
            "there is one of each type"
        );
        self.0.push(Box::new(extension));
        self
    }

    /// # Panics
    ///
    /// If there is no value of this type: every runtime is made with all of them.
    pub(crate) fn get<T: Any>(&self) -> &T {
        let found = self.0.iter().find_map(|it| it.downcast_ref());
        match found {
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
