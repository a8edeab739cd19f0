//! The project's lock file, which cargo finds in one place only.
//!
//! A build on Evenkeel has another graph, and so another lock file. While cargo builds, it lies in
//! the place of the user's, which waits beside it as `Cargo.lock.yours`. It comes back when cargo
//! starts the program that it has built, or ends. Where the process was killed between, the next
//! one brings it back, also if the cargo that it had started went on and wrote ours once more.
//! Processes that build the same project wait for one another.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, TryLockError};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::config::Config;
use crate::copy::Copy;
use crate::error::{self, Error};
use crate::lockfile::LockFile;
use crate::permanent;
use crate::project::Project;

/// The three places of a project's lock files.
#[derive(Clone, Debug)]
struct Places {
    /// Where cargo looks.
    users: PathBuf,
    /// Where the user's waits.
    aside: PathBuf,
    /// Where ours lies between builds.
    kept: PathBuf,
    /// Which file waits: a later build of the project puts another one there.
    waiting: String,
}

/// The variable by which a [runner](runner_option) learns of the places.
const PLACES: &str = "CARGO_EVENKEEL_LOCKS";

/// The right to touch the project's lock file, which one process has.
#[derive(Debug)]
pub struct Turn {
    users: PathBuf,
    /// The project's folder, which is locked: it stays the same one, needs no file of ours, and can
    /// be locked by whoever can read it.
    _held: File,
}

impl Turn {
    /// Waits until no other process builds the project. Brings the user's lock file back if one was
    /// killed while it was aside.
    ///
    /// # Errors
    ///
    /// If the folder cannot be opened or the file not renamed, if a build of this very project has
    /// started this process and waits for it, or if the user's lock file is lost.
    pub fn take(project: &Project) -> Result<Self, Error> {
        let users = project.lock();
        if std::env::var_os(PLACES).is_some_and(|all| places(&all).next() == Some(users.clone())) {
            let folder = project.root.clone();
            return Err(Error::Nested { folder });
        }
        let held = File::open(&project.root).map_err(error::file("open", &project.root))?;
        // Where a file system has no locks, cargo builds without them as well.
        if let Err(TryLockError::WouldBlock) = held.try_lock() {
            eprintln!("waiting for another build of this project on Evenkeel");
            held.lock().map_err(error::file("lock", &project.root))?;
        }
        let aside = aside(&users);
        if aside.exists() {
            eprintln!("note: an earlier build was killed; your Cargo.lock is back");
            bring_back(&aside, &users)?;
        }
        mend(project, &users)?;
        Ok(Self { users, _held: held })
    }
}

/// Brings the user's lock file back, unless somebody has changed a package in the one that is in
/// its place. An editor that has a look at the project with a plain cargo does not count.
fn bring_back(aside: &Path, users: &Path) -> Result<(), Error> {
    let now = fs::read_to_string(users).unwrap_or_default();
    let is_nothing = || {
        let (now, before) = (LockFile::read(users)?, LockFile::read(aside)?);
        Ok::<_, Error>(now.is_ours() || now.is_by_the_way(&before))
    };
    if now.is_empty() || is_nothing().unwrap_or(false) {
        return fs::rename(aside, users).map_err(error::file("rename", aside));
    }
    let kept = users.with_extension("lock.before");
    eprintln!(
        "note: Cargo.lock was changed meanwhile, and stays; the one before is {}",
        kept.display()
    );
    note_moved_tokio(aside, users);
    fs::rename(aside, &kept).map_err(error::file("rename", aside))
}

/// A plain cargo that changes one package in our lock file locks Tokio anew, as it has no copy for
/// it, and takes the newest.
fn note_moved_tokio(before: &Path, now: &Path) {
    let version_in = |path| Some(LockFile::read(path).ok()?.tokio()?.version.clone());
    let (Some(before), Some(now)) = (version_in(before), version_in(now)) else {
        return;
    };
    if before != now {
        eprintln!(
            "note: it has tokio {now} in the place of {before}; if nobody meant that, run \
             `cargo update -p tokio --precise {before}`"
        );
    }
}

/// Brings the user's lock file back, where the cargo of a process that was killed has written ours
/// after an earlier call had done so.
fn mend(project: &Project, users: &Path) -> Result<(), Error> {
    // What cannot be read is no concern here: who needs it says so.
    let ours = LockFile::read(users).ok().filter(LockFile::is_ours);
    let Some(ours) = ours.filter(|_| !permanent::is_begun(&project.root)) else {
        return Ok(());
    };
    let is_its = |base: &PathBuf| LockFile::read(base).is_ok_and(|base| ours.is_made_of(&base));
    let written = |base: &PathBuf| fs::metadata(base).map_or(0, |base| base.ctime());
    let bases = bases(&project.target).filter(is_its);
    let Some(base) = bases.max_by_key(written) else {
        return Err(Error::Lost {
            path: users.to_owned(),
        });
    };
    eprintln!("note: an earlier build was killed, and has changed Cargo.lock since; yours is back");
    copy_file(&base, users)
}

/// The lock files that builds have begun with. Other projects may build in the same folder.
fn bases(target: &Path) -> impl Iterator<Item = PathBuf> {
    let copies = fs::read_dir(target.join("evenkeel")).into_iter().flatten();
    copies.flatten().map(|copy| base(&copy.path()))
}

/// What the lock file in a copy's folder was made of.
fn base(copy: &Path) -> PathBuf {
    copy.join("Cargo.lock.base")
}

/// Brings the lock file back that was there before cargo was asked something.
pub(crate) fn keep<T>(
    project: &Project,
    ask: impl FnOnce(&Project) -> Result<T, Error>,
) -> Result<T, Error> {
    let path = project.lock();
    let before = fs::read(&path).ok();
    let answer = ask(project)?;
    let is_new = |before: &Vec<u8>| fs::read(&path).ok().as_ref() != Some(before);
    if let Some(before) = before.filter(is_new) {
        write_whole(&path, &before)?;
    }
    Ok(answer)
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
    /// If files cannot be copied, the project's folder cannot be written to, or the user's lock
    /// file is lost.
    pub fn put(turn: Turn, project: &Project, copy: &Copy) -> Result<Self, Error> {
        let mut places = Places {
            aside: aside(&turn.users),
            kept: copy.folder.join("Cargo.lock"),
            users: turn.users.clone(),
            waiting: String::new(),
        };
        // It may have come since the turn began, and would be taken for the user's.
        mend(project, &places.users)?;
        let base = base(&copy.folder);
        let same_base = fs::read(&base).ok() == fs::read(&places.users).ok();
        let from = if same_base && places.kept.exists() {
            &places.kept
        } else {
            &places.users
        };
        let ours = fs::read(from).map_err(error::file("read", from))?;
        copy_file(&places.users, &base)?;
        copy_file(&places.users, &places.aside)?;
        places.waiting = identity(&places.aside);
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
        let Places {
            users,
            aside,
            kept,
            waiting,
        } = &self.places;
        let places = [users, aside, kept].map(|place| place.as_os_str());
        let all = [&places[..], &[OsStr::new(waiting)]].concat();
        (PLACES, all.join(OsStr::new("\n")))
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
        if !self.aside.exists() || identity(&self.aside) != self.waiting {
            return Ok(());
        }
        if LockFile::read(&self.users).is_ok_and(|lock| lock.is_ours()) {
            // Without it, the next build begins with the user's; it is no reason to keep that back.
            _ = copy_file(&self.users, &self.kept);
        }
        bring_back(&self.aside, &self.users)
    }
}

/// What tells a file from a later one of its name.
fn identity(path: &Path) -> String {
    // A number may come again, and the age is the original's; the time of this change does not.
    let of = |file: fs::Metadata| format!("{} {}.{}", file.ino(), file.ctime(), file.ctime_nsec());
    fs::symlink_metadata(path).map(of).unwrap_or_default()
}

/// A second file of the same contents, rights and age.
fn copy_file(from: &Path, to: &Path) -> Result<(), Error> {
    let text = fs::read(from).map_err(error::file("read", from))?;
    let like = fs::metadata(from).map_err(error::file("read", from))?;
    put_whole(to, &text, Some(&like))
}

/// Writes a file, of which nobody sees a part, also if the disk is full.
pub(crate) fn write_whole(path: &Path, text: &[u8]) -> Result<(), Error> {
    put_whole(path, text, None)
}

fn put_whole(path: &Path, text: &[u8], like: Option<&fs::Metadata>) -> Result<(), Error> {
    let folder = path.parent().unwrap_or(Path::new("."));
    // What the user's mask leaves of it, as for any new file.
    let mut scratch = tempfile::Builder::new()
        .permissions(fs::Permissions::from_mode(0o666))
        .tempfile_in(folder)
        .map_err(error::file("write in", folder))?;
    let failed = || error::file("write", path);
    scratch.write_all(text).map_err(failed())?;
    let before = fs::metadata(path).ok();
    if let Some(rights) = like.or(before.as_ref()).map(fs::Metadata::permissions) {
        scratch
            .as_file()
            .set_permissions(rights)
            .map_err(failed())?;
    }
    if let Some(time) = like.and_then(|like| like.modified().ok()) {
        scratch.as_file().set_modified(time).map_err(failed())?;
    }
    scratch
        .persist(path)
        .map_err(|error| failed()(error.error))?;
    Ok(())
}

/// Has cargo start programs through this one, so that the lock file is back before they run. Where
/// the user has a runner, it is back when cargo ends.
pub fn runner_option(config: &Config) -> Option<[String; 2]> {
    if config.has_runner_by_condition() {
        return None;
    }
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
pub fn start(program: &[OsString]) -> Result<ExitCode, Error> {
    use std::os::unix::process::CommandExt;

    if let Some(all) = std::env::var_os(PLACES) {
        let mut parts = places(&all);
        let mut next = || parts.next();
        if let (Some(users), Some(aside), Some(kept), Some(waiting)) =
            (next(), next(), next(), next())
        {
            let waiting = waiting.to_string_lossy().into_owned();
            Places {
                users,
                aside,
                kept,
                waiting,
            }
            .give_back()?;
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

/// The parts of the variable.
fn places(all: &OsStr) -> impl Iterator<Item = PathBuf> {
    use std::os::unix::ffi::OsStrExt;
    all.as_bytes()
        .split(|byte| *byte == b'\n')
        .map(|part| PathBuf::from(OsStr::from_bytes(part)))
}
