//! An async runtime for network services.
