//! Evenkeel for good in a project: `cargo evenkeel init` and `remove`.
//!
//! A marked block in the project's `.cargo/config.toml` patches Tokio, the copy lies beside it in
//! `.cargo/evenkeel`, and the lock file is the one with the copy. So plain cargo, an editor and CI
//! build on Evenkeel. What is needed to take it all out again is written down first: whichever
//! step a process is killed in, `init` completes it and `remove` undoes it.

mod block;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::call::Options;
use crate::command::hear_signals;
use crate::config;
use crate::copy::Copy;
use crate::error::{self, Error};
use crate::lock::{Turn, write_whole};
use crate::lockfile::{self, LockFile, Locked};
use crate::patches::Patches;
use crate::project::Project;
use crate::receipt::{Before, Receipt};
use crate::scratch;
use crate::upstream::{Upstream, hash};

/// What was made permanent, as the block says.
#[derive(Debug)]
pub struct Permanent {
    root: PathBuf,
    /// The file with the block.
    file: PathBuf,
    /// Tokio, as it was locked.
    original: Locked,
    /// The copy's folder.
    name: String,
    /// The sources whose Evenkeel is replaced.
    sources: BTreeSet<String>,
}

impl Permanent {
    /// Looks for the block in the configuration of the project in this folder.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, or somebody has changed the block.
    pub fn read(root: &Path) -> Result<Option<Self>, Error> {
        let file = config_file(root);
        if !file.exists() {
            return Ok(None);
        }
        let text = fs::read_to_string(&file).map_err(error::file("read", &file))?;
        if block::has_remains(&text) {
            return Err(Error::Block { file });
        }
        let Some((from, to)) = block::find(&text) else {
            return Ok(None);
        };
        let Some(parsed) = block::parse(&text[from..to]) else {
            return Err(Error::Block { file });
        };
        let (original, name, sources) = parsed;
        let root = root.to_owned();
        Ok(Some(Self {
            root,
            file,
            original,
            name,
            sources,
        }))
    }

    /// What the block says.
    pub fn patches(&self) -> Patches {
        let copy = Copy {
            folder: folder(&self.root).join(&self.name),
            version: self.original.version.clone(),
        };
        Patches::new(copy, self.sources.clone())
    }

    fn upstream(&self) -> Upstream {
        upstream(&self.original)
    }

    /// Why it has to be made again, if it has.
    ///
    /// # Errors
    ///
    /// If the lock file cannot be read.
    pub fn defect(&self, project: &Project) -> Result<Option<String>, Error> {
        let copy = self.patches().copy;
        if !copy.package("tokio").join("Cargo.toml").is_file() {
            return Ok(Some(format!(
                "the copy is not in {}",
                copy.folder.display()
            )));
        }
        if Copy::place(&self.upstream(), &self.root.join(".cargo")).folder != copy.folder {
            return Ok(Some("another version of cargo-evenkeel has made it".into()));
        }
        let lock = project.lock();
        if !lock.exists() {
            return Ok(None);
        }
        let lock = LockFile::read(&lock)?;
        let locked = lock.tokio().filter(|_| !lock.is_ours());
        Ok(locked.map(|tokio| {
            let (now, ours) = (&tokio.version, &self.original.version);
            format!("the lock file has tokio {now} itself, not the copy of {ours}")
        }))
    }

    /// What only the graph shows: whether it has an Evenkeel that the block does not replace.
    fn defect_of_graph(&self, project: &Project) -> Result<Option<String>, Error> {
        let mut patches = self.patches();
        project.check(&mut patches)?;
        let has_come = patches != self.patches();
        Ok(has_come.then(|| "the project has got an `evenkeel` of its own since".into()))
    }
}

/// Whether there is anything of `init` in this project, so that its lock file may be one of ours.
pub(crate) fn is_begun(root: &Path) -> bool {
    folder(root).exists() || !matches!(Permanent::read(root), Ok(None))
}

/// Makes Evenkeel permanent, or says whether it is.
///
/// # Errors
///
/// If the project cannot be built on Evenkeel, or a file not be written.
pub fn init(options: Options, check: bool) -> Result<ExitCode, Error> {
    let project = Project::find(options)?;
    let _turn = Turn::take(&project)?;
    let made = Permanent::read(&project.root)?;
    let defect = match &made {
        Some(made) => made
            .defect(&project)?
            .map_or_else(|| made.defect_of_graph(&project), |defect| Ok(Some(defect)))?,
        None => None,
    };
    let is_current = made.is_some() && defect.is_none();
    if check || is_current {
        return Ok(say(made.as_ref(), defect, &project));
    }
    project.check_config()?;
    project.check_writable()?;
    _ = hear_signals()?;
    if made.is_none() && folder(&project.root).exists() {
        // An earlier call was killed.
        undo(&project)?;
    }
    let now = fs::read(project.lock()).ok();
    let is_ours = now.is_some() && LockFile::read(&project.lock())?.is_ours();
    let users = now.as_deref().filter(|_| !is_ours);
    let original = original(&project, made.as_ref())?;
    let mut receipt = match Receipt::read(&folder(&project.root)) {
        Some(receipt) => receipt.again(users, now.as_deref().unwrap_or_default(), original.clone()),
        None => Receipt::new(&config_file(&project.root), original.clone(), !is_ours),
    };
    if !is_ours && project.lock().exists() {
        receipt.note_evenkeels(&LockFile::read(&project.lock())?);
    }
    let mut patches = patches(&project, &original, made)?;
    if let Err(error) = make(&project, &mut patches, receipt, users) {
        undo(&project)?;
        return Err(error);
    }
    report(&project, &patches);
    Ok(ExitCode::SUCCESS)
}

/// Takes out what `init` has made.
///
/// # Errors
///
/// If a file cannot be written.
pub fn remove(options: Options) -> Result<ExitCode, Error> {
    let project = Project::find(options)?;
    let _turn = Turn::take(&project)?;
    if Permanent::read(&project.root)?.is_none() && !folder(&project.root).exists() {
        println!(
            "there is nothing of `cargo evenkeel init` in {}",
            project.root.display()
        );
        return Ok(ExitCode::SUCCESS);
    }
    _ = hear_signals()?;
    undo(&project)?;
    println!("this project builds on Tokio again; the lock file is the one without Evenkeel");
    Ok(ExitCode::SUCCESS)
}

/// Tokio as the project's lock file has it, or had it before ours.
fn original(project: &Project, made: Option<&Permanent>) -> Result<Locked, Error> {
    let path = project.lock();
    if let Some(made) = made {
        let is_ours = |lock: LockFile| lock.is_ours() || lock.tokio().is_none();
        if !path.exists() || is_ours(LockFile::read(&path)?) {
            if !Copy::place(&made.upstream(), &made.root.join(".cargo"))
                .folder
                .is_dir()
            {
                scratch::fetch_tokio(&made.upstream())?;
            }
            return Ok(made.original.clone());
        }
    }
    project.tokio()?;
    let lock = LockFile::read(&path)?;
    lock.tokio().cloned().ok_or(Error::NoTokio)
}

/// The copy, which is written, and the sources whose Evenkeel it is to replace.
fn patches(
    project: &Project,
    original: &Locked,
    made: Option<Permanent>,
) -> Result<Patches, Error> {
    let (upstream, parent) = (upstream(original), project.root.join(".cargo"));
    let place = Copy::place(&upstream, &parent);
    let patches = match made {
        // Our own lock file has lost where the others were from.
        Some(made) => Patches::new(place, made.sources),
        None => {
            let mut patches = Patches::of(project, place)?;
            // Also where the lock file is behind the manifests.
            patches.find(project)?;
            patches
        }
    };
    Copy::prepare(&upstream, &parent)?;
    Ok(patches)
}

fn upstream(original: &Locked) -> Upstream {
    Upstream {
        version: original.version.clone(),
        checksum: original.checksum.clone().unwrap_or_default(),
    }
}

/// The steps, each of which leaves what `init` and `remove` can go on from.
fn make(
    project: &Project,
    patches: &mut Patches,
    mut receipt: Receipt,
    users: Option<&[u8]>,
) -> Result<(), Error> {
    let folder = folder(&project.root);
    receipt.write(&folder, users)?;
    let file = config_file(&project.root);
    write_block(&file, patches, &receipt.original)?;
    let before = patches.clone();
    project.check(patches)?;
    if *patches != before {
        // The graph has shown where else an Evenkeel is from.
        write_block(&file, patches, &receipt.original)?;
    }
    let after = fs::read(project.lock()).map_err(error::file("read", &project.lock()))?;
    receipt.lock_after = hash(&after);
    receipt.write(&folder, None)?;
    for entry in fs::read_dir(&folder)
        .map_err(error::file("read", &folder))?
        .flatten()
    {
        let path = entry.path();
        if path.is_dir() && path != patches.copy.folder {
            fs::remove_dir_all(&path).map_err(error::file("remove", &path))?;
        }
    }
    Ok(())
}

fn write_block(file: &Path, patches: &Patches, original: &Locked) -> Result<(), Error> {
    let text = fs::read_to_string(file).unwrap_or_default();
    let name = patches.copy.folder.file_name().unwrap_or_default();
    let lines = block::lines_for(&text, original, &name.to_string_lossy(), patches.sources());
    let with = format!("{}{lines}", block::without(&text));
    // What was there has been read by cargo, and by us.
    let parsed: Result<toml::Table, _> = toml::from_str(&with);
    parsed.map_err(|_| Error::NoRoom {
        file: file.to_owned(),
    })?;
    write_whole(file, with.as_bytes())
}

/// The configuration first: from then on, cargo takes Tokio itself.
fn undo(project: &Project) -> Result<(), Error> {
    let folder = folder(&project.root);
    let made = Permanent::read(&project.root)?;
    let receipt = Receipt::read(&folder);
    let file = config_file(&project.root);
    if made.is_some() {
        let text = fs::read_to_string(&file).map_err(error::file("read", &file))?;
        let text = block::without(&text);
        if text.is_empty() && receipt.as_ref().is_none_or(|receipt| receipt.config_made) {
            fs::remove_file(&file).map_err(error::file("remove", &file))?;
        } else {
            write_whole(&file, text.as_bytes())?;
        }
    }
    let originals = (receipt.as_ref().map(Receipt::originals))
        .or(made.map(|made| vec![made.original]))
        .unwrap_or_default();
    undo_lock(project, receipt.as_ref(), &originals)?;
    if folder.exists() {
        fs::remove_dir_all(&folder).map_err(error::file("remove", &folder))?;
    }
    if receipt.is_none_or(|receipt| receipt.folder_made) {
        // If nothing else is in it.
        _ = fs::remove_dir(project.root.join(".cargo"));
    }
    Ok(())
}

fn undo_lock(
    project: &Project,
    receipt: Option<&Receipt>,
    originals: &[Locked],
) -> Result<(), Error> {
    let path = project.lock();
    let Ok(now) = fs::read(&path) else {
        return Ok(());
    };
    let untouched = receipt.filter(|receipt| receipt.lock_after == hash(&now));
    match untouched.map(|receipt| receipt.before(&folder(&project.root))) {
        Some(Before::Kept(text)) => return write_whole(&path, &text),
        Some(Before::None) => return fs::remove_file(&path).map_err(error::file("remove", &path)),
        Some(Before::Unknown) | None => {}
    }
    if originals.is_empty() || !LockFile::read(&path)?.is_ours() {
        return Ok(());
    }
    let text = lockfile::without_evenkeel(&String::from_utf8_lossy(&now), &path, originals)?;
    write_whole(&path, text.as_bytes())?;
    // Drops the packages that nothing needs any more. Any later cargo would do it as well.
    project.resolve().map(drop).or_else(|_| {
        eprintln!("warning: cargo has not tidied the lock file up yet; the next build will");
        Ok(())
    })
}

fn say(made: Option<&Permanent>, defect: Option<String>, project: &Project) -> ExitCode {
    let Some(made) = made else {
        println!(
            "not permanent in {}; `cargo evenkeel init` makes it so",
            project.root.display()
        );
        return ExitCode::FAILURE;
    };
    if let Some(defect) = defect {
        println!("not current: {defect}; run `cargo evenkeel init` again");
        return ExitCode::FAILURE;
    }
    println!(
        "permanent and current: tokio {} on Evenkeel, by {}",
        made.original.version,
        made.file.display()
    );
    ExitCode::SUCCESS
}

fn report(project: &Project, patches: &Patches) {
    let (file, copy) = (config_file(&project.root), &patches.copy);
    let what = if patches.sources().is_empty() {
        "a patch of tokio"
    } else {
        "patches of tokio and evenkeel"
    };
    println!(
        "This project builds on Evenkeel from now on, also with plain cargo. What was changed:\n  \
         {}: {what}, between two marked lines\n  \
         {}: the copy of tokio {}; commit it, or run `cargo evenkeel init` in CI as well\n  \
         {}: what the copy needs\n\
         `cargo evenkeel init --check` says whether this is current, and `cargo evenkeel remove` \
         undoes it.\nFor a newer Tokio: `cargo evenkeel remove`, `cargo update -p tokio`, and \
         `cargo evenkeel init`.",
        file.display(),
        copy.folder.display(),
        copy.version,
        project.lock().display(),
    );
}

/// All that lies in the project, but for the block and the lock file.
fn folder(root: &Path) -> PathBuf {
    root.join(".cargo/evenkeel")
}

fn config_file(root: &Path) -> PathBuf {
    let folder = root.join(".cargo");
    config::file_in(&folder).unwrap_or_else(|| folder.join("config.toml"))
}
