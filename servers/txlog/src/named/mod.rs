//! Where a server's logs with names are: each in a directory of its name.
// The files: `directories` opens, creates and lists them; `settings` says what one of them keeps
// (pure), and `file` reads that.

mod directories;
mod file;
mod settings;

pub use directories::{Directories, FILES_OF_NAMED_LOG};
pub(crate) use file::SettingsFile;
pub(crate) use settings::{Change, changes};
pub use settings::{LogSettings, Settings};
