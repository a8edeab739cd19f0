//! Why cameras are not changed.

use crate::cameras::{AddError, CAMERAS_MAX};
use crate::config::ConfigError;
use crate::record::recordings::RecordError;

/// Why nothing was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BookError {
    /// The configuration.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// What a request says of a camera.
    #[error("{0}")]
    Described(String),
    /// The camera is the operator's.
    #[error(
        "camera {0:?} stands in the configuration: change it there, and have that read again by \
         POST /api/reload or SIGHUP"
    )]
    Configured(String),
    /// The volume is not there yet.
    #[error(
        "camera {camera:?}: the server has no volume {volume:?}; one that was added to the \
         configuration needs a restart"
    )]
    Volume {
        /// The camera.
        camera: String,
        /// Its volume.
        volume: String,
    },
    /// There would be too many cameras.
    #[error("{0} cameras are more than the {CAMERAS_MAX} that there may be")]
    Full(usize),
    /// There are too few descriptors.
    #[error("{0}")]
    Descriptors(String),
    /// A camera cannot be added.
    #[error("camera {name}: {error}")]
    Add {
        /// Its name.
        name: String,
        /// What is wrong.
        error: AddError,
    },
    /// A camera cannot be recorded.
    #[error("camera {name}: {error}")]
    Record {
        /// Its name.
        name: String,
        /// What is wrong.
        error: RecordError,
    },
    /// The file of added cameras cannot be written.
    #[error("cannot write {file}: {error}; free room, or change process.cameras_file")]
    Write {
        /// The file.
        file: String,
        /// The system's error.
        error: std::io::Error,
    },
    /// The server was not begun with a file.
    #[error("the server was begun without a file, so there is nothing to read again")]
    NoFile,
}
