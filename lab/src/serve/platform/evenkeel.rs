//! Evenkeel as a platform.
