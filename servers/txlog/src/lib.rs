//! A log.
