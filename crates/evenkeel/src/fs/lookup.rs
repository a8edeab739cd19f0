//! Finding the device of a path, and doing work in its lanes.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::panic::Location;
use std::path::Path;

use rustix::fs::{OFlags, fcntl_getfl};

use crate::blocking::core::Core;
use crate::blocking::directories::Directories;
use crate::blocking::lane::{InLane, Keep};
use crate::blocking::lanes::{Device, Lanes};
use crate::blocking::new_work;
use crate::class::Class;
use crate::runtime::handle::Handle;
use crate::sched::context;
use crate::sync::Arc;

pub(super) fn directory_of(path: &Path) -> &Path {
    match path.parent() {
        Some(directory) if directory.as_os_str().is_empty() => Path::new("."),
        Some(directory) => directory,
        // The root is its own directory.
        None => path,
    }
}

/// Whether opening or reading may wait for a peer rather than for the device.
pub(super) fn is_special(metadata: &Metadata) -> bool {
    let file_type = metadata.file_type();
    file_type.is_fifo() || file_type.is_char_device() || file_type.is_socket()
}

/// Whether writes only copy to the system's cache: to a regular file, and without waiting for the
/// device.
pub(super) fn is_written_to_cache(file: &File, metadata: &Metadata) -> bool {
    let past_cache = OFlags::SYNC | OFlags::DSYNC;
    #[cfg(target_os = "linux")]
    let past_cache = past_cache | OFlags::DIRECT;
    metadata.is_file() && fcntl_getfl(file).is_ok_and(|flags| !flags.intersects(past_cache))
}

pub(super) fn runtime() -> io::Result<Handle> {
    Handle::try_current().map_err(io::Error::other)
}

/// Does work in a lane, for the current task. Reports call it `name`.
pub(super) fn in_lane<T, F>(
    name: &'static str,
    core: &Arc<Core>,
    handle: &Handle,
    work: F,
) -> InLane<T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    let work = new_work(core, called_from(), Some(name), work);
    InLane::new(core, handle.shared(), work, Keep::Awaited)
}

/// The spawn site of the current task, which says more than a line of this module.
pub(super) fn called_from() -> &'static Location<'static> {
    context::with_worker(|worker| worker.and_then(|worker| worker.current_spawned_at()))
        .unwrap_or_else(|| Location::caller())
}

pub(super) fn class_here() -> Class {
    context::with_worker(|worker| worker.map(|worker| worker.current_class())).unwrap_or_default()
}

/// The lanes of the device that a path's directory is on.
pub(super) async fn device_of(handle: &Handle, path: &Path) -> io::Result<Arc<Device>> {
    let shared = handle.shared();
    let directory = directory_of(path);
    let number = match Directories::of(shared).get(directory) {
        Some(number) => number,
        None => {
            let directory = directory.to_owned();
            let finder = handle.clone();
            let find = move || {
                let found = std::fs::metadata(&directory).map(|metadata| metadata.dev());
                if let Ok(number) = found {
                    Directories::of(finder.shared()).put(&directory, number);
                }
                // If the directory does not exist, the work itself will fail, or make it.
                found.unwrap_or_else(|_| nearest_device(&directory))
            };
            in_lane("fs look-up", &Lanes::of(shared).paths, handle, find).await?
        }
    };
    Ok(Lanes::of(shared).device(shared, number))
}

/// The device of the nearest ancestor that exists.
fn nearest_device(directory: &Path) -> u64 {
    let mut above = directory.ancestors().skip(1).map(|above| {
        if above.as_os_str().is_empty() {
            Path::new(".")
        } else {
            above
        }
    });
    above
        .find_map(|above| std::fs::metadata(above).ok())
        .map_or(0, |metadata| metadata.dev())
}

/// Does work on a path in the lane for names of its device.
pub(super) async fn on_path<T, F>(name: &'static str, path: &Path, work: F) -> io::Result<T>
where
    F: FnOnce(&Path) -> io::Result<T> + Send + 'static,
    T: Send + 'static,
{
    let handle = runtime()?;
    let device = device_of(&handle, path).await?;
    let path = path.to_owned();
    in_lane(name, &device.names, &handle, move || work(&path)).await?
}

/// Cleans up after a file, such as closing it, which may take long: at once, or, if this is a
/// worker, in a lane, even if its queue is full.
pub(super) fn tidy_up<F>(name: &'static str, core: &Arc<Core>, handle: &Handle, work: F)
where
    F: FnOnce() + Send + 'static,
{
    if !context::with_worker(|worker| worker.is_some()) {
        return work();
    }
    let (task, join) = new_work(core, called_from(), Some(name), work);
    core.submit_anyway(handle.shared(), task);
    drop(join);
}
