//! The project's lock file, which cargo finds in one place only.
//!
//! A build on Evenkeel has another graph, and so another lock file. While cargo builds, it lies in
//! the place of the user's, which waits beside it as `Cargo.lock.yours`. It comes back when cargo
//! starts the program that it has built, or ends. Where the process was killed between, the next
//! one brings it back. Processes that build the same project wait for one another.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::copy::Copy;
use crate::error::{self, Error};
use crate::project::Project;
use crate::upstream::hash;

/// The three places of a project's lock files.
#[derive(Clone, Debug)]
struct Places {
    /// Where cargo looks.
    users: PathBuf,
    /// Where the user's waits.
    aside: PathBuf,
    /// Where ours lies between builds.
    kept: PathBuf,
}

/// The variable by which a [runner](runner_option) learns of the places.
const PLACES: &str = "CARGO_EVENKEEL_LOCKS";

/// The right to touch the project's lock file, which one process has.
#[derive(Debug)]
pub struct Turn {
    users: PathBuf,
    _held: File,
}

impl Turn {
    /// Waits until no other process builds the project. Brings the user's lock file back if one was
    /// killed while it was aside.
    ///
    /// # Errors
    ///
    /// If files cannot be made or renamed.
    pub fn take(project: &Project) -> Result<Self, Error> {
        let users = project.lock();
        // Whatever the target folder is, and also if it is cleaned.
        let name = format!(
            "cargo-evenkeel-{}.turn",
            &hash(users.as_os_str().as_encoded_bytes())[..16]
        );
        let path = std::env::temp_dir().join(name);
        let held = File::create(&path).map_err(error::file("make", &path))?;
        if held.try_lock().is_err() {
            eprintln!("waiting for another build of this project on Evenkeel");
            held.lock().map_err(error::file("lock", &path))?;
        }
        let aside = aside(&users);
        if aside.exists() {
            eprintln!("note: an earlier build was killed; your Cargo.lock is back");
            bring_back(&aside, &users)?;
        }
        Ok(Self { users, _held: held })
    }
}

/// Brings the user's lock file back, unless the one in its place is newer: a person's, or a plain
/// cargo's, made while a build was under way.
fn bring_back(aside: &Path, users: &Path) -> Result<(), Error> {
    let now = fs::read_to_string(users).unwrap_or_default();
    let is_ours = now.is_empty() || now.contains("name = \"tokio-traits\"");
    let is_same = fs::read_to_string(aside).is_ok_and(|aside| aside == now);
    if is_ours || is_same {
        return fs::rename(aside, users).map_err(error::file("rename", aside));
    }
    let kept = users.with_extension("lock.before");
    eprintln!(
        "note: Cargo.lock was changed meanwhile, and stays; the one before is {}",
        kept.display()
    );
    fs::rename(aside, &kept).map_err(error::file("rename", aside))
}

/// Where the user's lock file waits.
fn aside(users: &Path) -> PathBuf {
    users.with_extension("lock.yours")
}

/// Our lock file in the place of the user's, which comes back when this is dropped.
#[derive(Debug)]
pub struct OwnLock {
    places: Places,
    turn: Arc<Mutex<Option<Turn>>>,
}

impl OwnLock {
    /// Puts the user's lock file aside.
    ///
    /// # Errors
    ///
    /// If files cannot be copied, or the project's folder cannot be written to.
    pub fn put(turn: Turn, copy: &Copy) -> Result<Self, Error> {
        let places = Places {
            aside: aside(&turn.users),
            kept: copy.folder.join("Cargo.lock"),
            users: turn.users.clone(),
        };
        let base = places.kept.with_extension("lock.base");
        let same_base = fs::read(&base).ok() == fs::read(&places.users).ok();
        let from = if same_base && places.kept.exists() {
            &places.kept
        } else {
            &places.users
        };
        let ours = fs::read(from).map_err(error::file("read", from))?;
        copy_file(&places.users, &base)?;
        copy_file(&places.users, &places.aside)?;
        let lock = Self {
            places: places.clone(),
            turn: Arc::new(Mutex::new(Some(turn))),
        };
        write_whole(&places.users, &ours)?;
        Ok(lock)
    }

    /// Lets other builds of the project begin once the user's lock file is back, while a program
    /// that was built may run for long.
    pub fn pass_turn_on(&self) {
        let (aside, turn) = (self.places.aside.clone(), Arc::clone(&self.turn));
        std::thread::spawn(move || {
            while aside.exists() {
                std::thread::sleep(Duration::from_millis(100));
            }
            drop(turn.lock().map(|mut turn| turn.take()));
        });
    }

    /// What a program needs to bring the user's lock file back; see [`runner_option`].
    pub fn variable(&self) -> (&'static str, OsString) {
        let Places { users, aside, kept } = &self.places;
        let places = [users, aside, kept].map(|place| place.as_os_str());
        (PLACES, places.join(std::ffi::OsStr::new("\n")))
    }
}

impl Drop for OwnLock {
    fn drop(&mut self) {
        if let Err(error) = self.places.give_back() {
            eprintln!(
                "warning: your lock file is in {}: {error}",
                self.places.aside.display()
            );
        }
    }
}

impl Places {
    /// Keeps ours, and brings the user's back. Does nothing if that was done.
    fn give_back(&self) -> Result<(), Error> {
        if !self.aside.exists() {
            return Ok(());
        }
        copy_file(&self.users, &self.kept)?;
        bring_back(&self.aside, &self.users)
    }
}

fn copy_file(from: &Path, to: &Path) -> Result<(), Error> {
    write_whole(to, &fs::read(from).map_err(error::file("read", from))?)
}

/// Writes a file, of which nobody sees a part, also if the disk is full.
fn write_whole(path: &Path, text: &[u8]) -> Result<(), Error> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut scratch =
        tempfile::NamedTempFile::new_in(folder).map_err(error::file("write in", folder))?;
    scratch
        .write_all(text)
        .map_err(error::file("write", path))?;
    if let Ok(before) = fs::metadata(path) {
        let rights = before.permissions();
        scratch
            .as_file()
            .set_permissions(rights)
            .map_err(error::file("write", path))?;
    }
    scratch
        .persist(path)
        .map_err(|error| error::file("write", path)(error.error))?;
    Ok(())
}

/// Has cargo start programs through this one, so that the lock file is back before they run.
pub fn runner_option() -> Option<[String; 2]> {
    let program = std::env::current_exe().ok()?;
    let program = toml_edit::Value::from(program.to_str()?);
    let runner = format!(
        "target.'cfg(all())'.runner=[{}, \"evenkeel\", \"start\"]",
        program.to_string().trim()
    );
    Some(["--config".into(), runner])
}

/// Brings the user's lock file back, and becomes the program that cargo has built.
///
/// # Errors
///
/// If the program cannot be started.
#[cfg(unix)]
pub fn start(program: &[OsString]) -> Result<ExitCode, Error> {
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::process::CommandExt;

    if let Some(places) = std::env::var_os(PLACES) {
        let mut parts = places.as_bytes().split(|byte| *byte == b'\n');
        let mut next = || {
            parts
                .next()
                .map(|part| PathBuf::from(std::ffi::OsStr::from_bytes(part)))
        };
        if let (Some(users), Some(aside), Some(kept)) = (next(), next(), next()) {
            Places { users, aside, kept }.give_back()?;
        }
    }
    let [name, arguments @ ..] = program else {
        return Ok(ExitCode::FAILURE);
    };
    let source = Command::new(name).args(arguments).env_remove(PLACES).exec();
    Err(Error::Start {
        command: name.to_string_lossy().into_owned(),
        source,
    })
}
