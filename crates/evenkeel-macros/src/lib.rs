//! The attribute macros of the evenkeel runtime.
