//! What is not to be made within a log's directory, where it would be a foreign file.

use std::io::{self, ErrorKind};
use std::path::{Component, Path, PathBuf};

use evenkeel::spawn_blocking;
use txlog::advice;

/// Refuses a directory that is a log's, or lies within it: a log with other files is not opened.
/// Neither needs to exist.
pub(crate) async fn refuse_within(log: &Path, path: &Path) -> Result<(), String> {
    let both = (log.to_owned(), path.to_owned());
    let found = spawn_blocking(move || Ok((canonical(&both.0)?, canonical(&both.1)?))).await;
    let shown = path.display();
    let (above, below) = found
        .unwrap_or_else(|error| Err(io::Error::other(error)))
        .map_err(|error| format!("cannot use {shown}: {}", advice::of_files(&error)))?;
    if !below.starts_with(&above) {
        return Ok(());
    }
    let where_it_is = if above == below { "is" } else { "is inside" };
    let log = log.display();
    Err(format!(
        "{shown} {where_it_is} the log's directory {log}; take one beside it"
    ))
}

/// The path without links, as far as it exists.
fn canonical(path: &Path) -> io::Result<PathBuf> {
    let path = std::path::absolute(path)?;
    let mut found = PathBuf::from("/");
    for component in path.components() {
        match component {
            // Behind a link, too, as it is followed by now.
            Component::ParentDir => {
                found.pop();
            }
            component => found.push(component),
        }
        found = match found.canonicalize() {
            Err(error) if error.kind() == ErrorKind::NotFound => found,
            canonical => canonical?,
        };
    }
    Ok(found)
}
