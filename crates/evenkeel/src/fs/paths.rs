//! Operations on paths: directories, names, attributes.

use std::fs::{Metadata, Permissions};
use std::io;
use std::path::{Path, PathBuf};

use super::lookup::on_path;

/// Defines functions of one path, each done in the lane for names of the path's device.
macro_rules! of_path {
    ($($(#[$doc:meta])* $name:ident -> $output:ty;)*) => {$(
        $(#[$doc])*
        ///
        /// # Errors
        ///
        #[doc = concat!("Those of [`std::fs::", stringify!($name), "`], those of the lane")]
        /// ([`LaneError`](crate::blocking::LaneError)), and if there is no current runtime.
        ///
        /// # Cancel safety
        ///
        /// If the future is dropped, the operation is done wholly or not at all, as far as the
        /// system does it in one step.
        pub async fn $name(path: impl AsRef<Path>) -> io::Result<$output> {
            let name = concat!("fs::", stringify!($name));
            on_path(name, path.as_ref(), |path| std::fs::$name(path)).await
        }
    )*};
}

of_path! {
    /// Makes a directory.
    create_dir -> ();
    /// Makes a directory and its missing ancestors.
    create_dir_all -> ();
    /// Removes an empty directory.
    remove_dir -> ();
    /// Removes a directory with its contents.
    remove_dir_all -> ();
    /// Removes a file's name, and the file if nobody has it open.
    remove_file -> ();
    /// Returns the metadata of a path. Follows symbolic links.
    metadata -> Metadata;
    /// Returns the metadata of a path. Does not follow a symbolic link.
    symlink_metadata -> Metadata;
    /// Returns the target of a symbolic link.
    read_link -> PathBuf;
    /// Returns the absolute path without symbolic links.
    canonicalize -> PathBuf;
}

/// Whether a path exists. Follows symbolic links.
///
/// # Errors
///
/// Those of [`Path::try_exists`], and as [`metadata`].
///
/// # Cancel safety
///
/// Cancel safe.
pub async fn try_exists(path: impl AsRef<Path>) -> io::Result<bool> {
    on_path("fs::try_exists", path.as_ref(), Path::try_exists).await
}

/// Changes the permissions of a file or directory.
///
/// # Errors
///
/// Those of [`std::fs::set_permissions`], and as [`metadata`].
///
/// # Cancel safety
///
/// If the future is dropped, it may be done or not.
pub async fn set_permissions(path: impl AsRef<Path>, permissions: Permissions) -> io::Result<()> {
    on_path("fs::set_permissions", path.as_ref(), move |path| {
        std::fs::set_permissions(path, permissions)
    })
    .await
}

/// Renames a file or directory on the same device, and atomically replaces the file of that name,
/// if any. The new name survives a crash once the directory is synced
/// ([`sync_dir`](super::sync_dir)).
///
/// # Errors
///
/// Those of [`std::fs::rename`], and as [`metadata`].
///
/// # Cancel safety
///
/// If the future is dropped, it may be done or not.
pub async fn rename(from: impl AsRef<Path>, to: impl AsRef<Path>) -> io::Result<()> {
    let to = to.as_ref().to_owned();
    on_path("fs::rename", from.as_ref(), move |from| {
        std::fs::rename(from, to)
    })
    .await
}

/// Gives a file another name.
///
/// # Errors
///
/// Those of [`std::fs::hard_link`], and as [`metadata`].
///
/// # Cancel safety
///
/// If the future is dropped, it may be done or not.
pub async fn hard_link(original: impl AsRef<Path>, link: impl AsRef<Path>) -> io::Result<()> {
    let original = original.as_ref().to_owned();
    on_path("fs::hard_link", link.as_ref(), move |link| {
        std::fs::hard_link(original, link)
    })
    .await
}

/// Makes a symbolic link to `original`.
///
/// # Errors
///
/// Those of [`std::os::unix::fs::symlink`], and as [`metadata`].
///
/// # Cancel safety
///
/// If the future is dropped, it may be done or not.
pub async fn symlink(original: impl AsRef<Path>, link: impl AsRef<Path>) -> io::Result<()> {
    let original = original.as_ref().to_owned();
    on_path("fs::symlink", link.as_ref(), move |link| {
        std::os::unix::fs::symlink(original, link)
    })
    .await
}
