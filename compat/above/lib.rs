//! What a program has for its `evenkeel`: the one beneath its Tokio, and above both the features
//! that depend on Tokio themselves, from Evenkeel's own files.

pub use beneath::*;

#[cfg(feature = "hyper")]
pub mod hyper;
#[cfg(feature = "serve")]
pub mod serve;
#[cfg(feature = "serve")]
pub use serve::serve;

// What those files name by the places where it is in the runtime.

#[cfg(feature = "hyper")]
mod class {
    pub(crate) use beneath::Class;
}

#[cfg(feature = "serve")]
mod sync {
    use std::sync::{MutexGuard, PoisonError};

    pub(crate) use std::sync::{atomic, Arc};

    pub(crate) struct Mutex<T>(std::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(std::sync::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().unwrap_or_else(PoisonError::into_inner)
        }
    }
}
