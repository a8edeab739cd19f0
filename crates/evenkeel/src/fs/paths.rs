//! What is done with paths: directories, names, attributes.

use std::fs::{Metadata, Permissions};
use std::io;
use std::path::{Path, PathBuf};

use super::lookup::on_path;

/// Functions of one path, each done in the lane for names of the path's device.
macro_rules! of_path {
    ($($(#[$doc:meta])* $name:ident -> $output:ty;)*) => {$(
        $(#[$doc])*
        ///
        /// # Errors
        ///
        #[doc = concat!("Those of [`std::fs::", stringify!($name), "`], and those of the lane")]
        /// ([`LaneError`](crate::blocking::LaneError)); and outside a runtime.
        ///
        /// # Cancel safety
        ///
        /// If the future is dropped, it is done wholly or not at all, as far as the system does it
        /// in one step.
        pub async fn $name(path: impl AsRef<Path>) -> io::Result<$output> {
            let name = concat!("fs::", stringify!($name));
            on_path(name, path.as_ref(), |path| std::fs::$name(path)).await
        }
    )*};
}

of_path! {
    /// Makes a directory.
    create_dir -> ();
    /// Makes a directory and those above it that are missing.
    create_dir_all -> ();
    /// Removes an empty directory.
    remove_dir -> ();
    /// Removes a directory and all that is in it.
    remove_dir_all -> ();
    /// Removes a file's name, and the file if nobody has it open.
    remove_file -> ();
    /// What the system knows of what a path leads to.
    metadata -> Metadata;
    /// What the system knows of a path's last name, be it a symbolic link.
    symlink_metadata -> Metadata;
    /// What a symbolic link says.
    read_link -> PathBuf;
    /// The path without symbolic links, from the root.
    canonicalize -> PathBuf;
}

/// Whether a path leads to something.
///
/// # Errors
///
/// If that cannot be found out, as [`Path::try_exists`]; and as [`metadata`].
///
/// # Cancel safety
///
/// Cancel safe.
pub async fn try_exists(path: impl AsRef<Path>) -> io::Result<bool> {
    on_path("fs::try_exists", path.as_ref(), Path::try_exists).await
}

/// Changes who may do what with a file or directory.
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

/// Gives a file or directory another name on the same device; what had that name is replaced, in
/// one step. It outlasts a crash once the directory was synced ([`sync_dir`](super::sync_dir)).
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

/// Gives a file one name more.
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

/// Makes a symbolic link that says `original`.
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
