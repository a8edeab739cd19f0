//! Opening files.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use crate::blocking::directories::Directories;
use crate::blocking::lanes::Device;
use crate::blocking::lanes::Lanes;
use crate::runtime::handle::Handle;
use crate::sync::Arc;

use super::file::File;
use super::lookup::{device_of, directory_of, in_lane, is_special, runtime};

/// Options to open a file; as [`std::fs::OpenOptions`].
///
/// # Examples
///
/// ```
/// use evenkeel::fs::OpenOptions;
///
/// # evenkeel::runtime::Runtime::new().unwrap().block_on(async {
/// # let path = std::env::temp_dir().join(format!("evenkeel-doc-open-{}", std::process::id()));
/// let file = OpenOptions::new().read(true).write(true).create(true).open(&path).await?;
/// file.write_all_at("a line", 0).await?;
/// assert_eq!(file.metadata().await?.len(), 6);
/// # evenkeel::fs::remove_file(&path).await }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct OpenOptions {
    std: std::fs::OpenOptions,
    create_new: bool,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl OpenOptions {
    /// All options are off.
    pub fn new() -> Self {
        Self {
            std: std::fs::OpenOptions::new(),
            create_new: false,
        }
    }

    /// Whether the file is to be read.
    pub fn read(&mut self, read: bool) -> &mut Self {
        self.std.read(read);
        self
    }

    /// Whether the file is to be written.
    pub fn write(&mut self, write: bool) -> &mut Self {
        self.std.write(write);
        self
    }

    /// Whether every write goes to the end of the file, even one at an offset.
    pub fn append(&mut self, append: bool) -> &mut Self {
        self.std.append(append);
        self
    }

    /// Whether the file is truncated.
    pub fn truncate(&mut self, truncate: bool) -> &mut Self {
        self.std.truncate(truncate);
        self
    }

    /// Whether the file is made if there is none.
    pub fn create(&mut self, create: bool) -> &mut Self {
        self.std.create(create);
        self
    }

    /// Whether the file is made, and must not exist yet.
    pub fn create_new(&mut self, create_new: bool) -> &mut Self {
        self.std.create_new(create_new);
        self.create_new = create_new;
        self
    }

    /// The permissions of a new file, before the process's umask applies. Default: `0o666`.
    pub fn mode(&mut self, mode: u32) -> &mut Self {
        self.std.mode(mode);
        self
    }

    /// More flags for the system, such as `O_DIRECT`.
    pub fn custom_flags(&mut self, flags: i32) -> &mut Self {
        self.std.custom_flags(flags);
        self
    }

    /// Opens the file, in the lane for names of its device. A FIFO or a terminal, which may wait
    /// for a peer, is opened in the lane for special files, and holds up no other open.
    ///
    /// # Errors
    ///
    /// Those of [`std::fs::OpenOptions::open`], those of the lane
    /// ([`LaneError`](crate::blocking::LaneError)), and if there is no current runtime.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the file may have been made or truncated, and is closed.
    pub async fn open(&self, path: impl AsRef<Path>) -> io::Result<File> {
        let path = path.as_ref();
        let handle = runtime()?;
        let device = device_of(&handle, path).await?;
        let (options, finder) = (self.clone(), handle.clone());
        let target = path.to_owned();
        let opened = in_lane("fs::open", &device.names, &handle, move || {
            options.open_unless_special(&finder, &target)
        });
        if let Some(file) = opened.await?? {
            return Ok(file);
        }
        let (options, finder) = (self.std.clone(), handle.clone());
        let target = path.to_owned();
        let opened = in_lane("fs::open", &device.special, &handle, move || {
            File::adopt(&finder, options.open(&target)?)
        });
        opened.await?
    }

    /// Returns `None` if opening the file may wait for a peer.
    fn open_unless_special(&self, handle: &Handle, path: &Path) -> io::Result<Option<File>> {
        // If a FIFO takes its place before the open, that blocks one thread of the lane.
        if !self.create_new && std::fs::metadata(path).is_ok_and(|found| is_special(&found)) {
            return Ok(None);
        }
        let file = File::adopt(handle, self.std.open(path)?)?;
        let directories = Directories::of(handle.shared());
        directories.put(directory_of(path), file.device_number());
        Ok(Some(file))
    }
}

impl From<std::fs::OpenOptions> for OpenOptions {
    fn from(std: std::fs::OpenOptions) -> Self {
        Self {
            std,
            create_new: false,
        }
    }
}

pub(super) fn lanes_for(
    handle: &Handle,
    file: &std::fs::File,
) -> io::Result<(Arc<Device>, Metadata)> {
    let metadata = file.metadata()?;
    let device = Lanes::of(handle.shared()).device(handle.shared(), metadata.dev());
    Ok((device, metadata))
}
