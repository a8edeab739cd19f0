//! The promises of the runtime in detail, by chapter.

#[doc = include_str!("guide/classes.md")]
pub mod classes {}

#[doc = include_str!("guide/coming_from_tokio.md")]
pub mod coming_from_tokio {}

#[doc = include_str!("guide/delivery.md")]
pub mod delivery {}

#[doc = include_str!("guide/disk.md")]
pub mod disk {}

#[doc = include_str!("guide/hogs.md")]
pub mod hogs {}

#[doc = include_str!("guide/peers.md")]
pub mod peers {}

#[doc = include_str!("guide/shutdown.md")]
pub mod shutdown {}

#[doc = include_str!("guide/tokio_service.md")]
pub mod tokio_service {}

#[doc = include_str!("guide/watching.md")]
pub mod watching {}
