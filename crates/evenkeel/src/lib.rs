//! An async runtime for network services.

mod sync;
