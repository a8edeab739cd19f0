//! Properties of the core.
