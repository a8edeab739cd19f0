//! Symbols of the program and of the libraries that it has loaded, read from their files.
//!
//! Each reader has tables of its own and shares no lock with others. The thread that makes names of
//! hogs has the lowest priority, and a dump of tasks must not wait for it. The tables of a file
//! take some megabytes, and are free when the reader is dropped.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use addr2line::Loader;

use super::debug_info::Frame;
use super::file::{Refused, SymbolFile};
use crate::stats::site::Site;
use crate::sys::stack::{self, LoadedObject};

/// The program's file, also if another one has taken its place.
const PROGRAM: &str = "/proc/self/exe";
/// Where distributions keep what debuggers need of their programs, by the build's identity.
const DEBUG_FILES: &str = "/usr/lib/debug/.build-id";
/// The files of so many objects are kept open; programs have most of their code in one.
const OPEN_MAX: usize = 8;

/// What is known of the loaded objects.
#[derive(Default)]
pub(super) struct Objects {
    /// How often libraries had been loaded and unloaded when `loaded` was read.
    changes: Option<u64>,
    loaded: Vec<LoadedObject>,
    /// By base address, the one that was used last at the end. `None` if a file cannot be read.
    open: Vec<(u64, Option<Reader>)>,
}

/// What reads a file.
enum Reader {
    File(SymbolFile),
    /// For debug information in several files, or compressed: its tables take tens of megabytes.
    Loader(Box<Loader>),
}

/// A function, and the place in it.
pub(super) type Found = (String, Option<Site>);

impl Objects {
    /// Looks whether libraries have come or gone. Returns whether all addresses that were found
    /// before may mean something else now.
    pub(super) fn refresh(&mut self) -> bool {
        let changes = stack::changes();
        if self.changes == Some(changes) {
            return false;
        }
        let is_first = self.changes.replace(changes).is_none();
        self.loaded = stack::objects();
        let program = self.loaded.iter().find(|it| it.name.is_empty());
        let program = program.map(|it| it.base);
        // Another file may have taken a library's place, also under the same name.
        self.open.retain(|(base, _)| Some(*base) == program);
        !is_first
    }

    /// The functions that an address of code belongs to: several if they were inlined, the
    /// innermost first; none if nothing is known.
    pub(super) fn find(&mut self, address: u64) -> Vec<Found> {
        let Some(object) = self.loaded.iter().find(|it| it.has(address)) else {
            return Vec::new();
        };
        let (base, place) = (object.base, address.wrapping_sub(object.base));
        let at = match self.open.iter().position(|(of, _)| *of == base) {
            Some(at) => at,
            None => {
                if self.open.len() >= OPEN_MAX {
                    self.open.remove(0);
                }
                self.open.push((base, open(object)));
                self.open.len() - 1
            }
        };
        self.open[at..].rotate_left(1);
        let reader = self.open.last().and_then(|(_, reader)| reader.as_ref());
        reader.map_or_else(Vec::new, |reader| reader.find(place))
    }

    /// Has the pages of files that were looked at leave the process's memory.
    pub(super) fn forget_pages(&self) {
        for (_, reader) in &self.open {
            if let Some(Reader::File(file)) = reader {
                file.forget_pages();
            }
        }
    }
}

impl std::fmt::Debug for Objects {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Objects")
            .field("loaded", &self.loaded.len())
            .finish_non_exhaustive()
    }
}

impl Reader {
    fn find(&self, place: u64) -> Vec<Found> {
        let frames = match self {
            Self::File(file) => file.frames(place),
            Self::Loader(loader) => frames_by_loader(loader, place),
        };
        let symbol = || match self {
            Self::File(file) => file.symbol(place),
            Self::Loader(loader) => loader.find_symbol(place).map(str::to_owned),
        };
        let named = |(name, site): Frame| Some((plain(&name.or_else(symbol)?), site));
        let mut found: Vec<Found> = frames.into_iter().filter_map(named).collect();
        if found.is_empty() {
            found.extend(symbol().map(|name| (plain(&name), None)));
        }
        found
    }
}

fn frames_by_loader(loader: &Loader, place: u64) -> Vec<Frame> {
    let mut found = Vec::new();
    if let Ok(mut frames) = loader.find_frames(place) {
        while let Ok(Some(frame)) = frames.next() {
            let name = frame.function.as_ref().and_then(|it| it.raw_name().ok());
            let site = frame.location.and_then(|it| {
                Some(Site {
                    file: it.file?.to_owned().into(),
                    line: it.line.unwrap_or(0),
                    column: it.column.unwrap_or(0),
                })
            });
            found.push((name.map(Into::into), site));
        }
    }
    found
}

/// As its author wrote it, without the hash.
fn plain(symbol: &str) -> String {
    format!("{:#}", rustc_demangle::demangle(symbol))
}

fn open(object: &LoadedObject) -> Option<Reader> {
    let path = match object.name.as_str() {
        "" => program(std::env::current_exe().ok()),
        name => PathBuf::from(name),
    };
    let own = match SymbolFile::open(&path, false) {
        Ok(own) => own,
        Err(Refused::Unreadable) => return None,
        Err(Refused::Elsewhere) => {
            let symbols = || SymbolFile::open(&path, true).ok().map(Reader::File);
            return loader(&path).or_else(symbols);
        }
    };
    // Without debug information of its own, as distributions deliver programs.
    if own.has_debug_info {
        return Some(Reader::File(own));
    }
    let Some(path) = debug_file(object, &own) else {
        return Some(Reader::File(own));
    };
    // It is compressed as a rule, and the lines of a library are not worth tens of megabytes.
    let is_library = !object.name.is_empty();
    match SymbolFile::open(&path, is_library) {
        Ok(apart) => Some(Reader::File(apart)),
        Err(Refused::Unreadable) => Some(Reader::File(own)),
        Err(Refused::Elsewhere) => loader(&path).or(Some(Reader::File(own))),
    }
}

fn loader(path: &Path) -> Option<Reader> {
    Some(Reader::Loader(Box::new(Loader::new(path).ok()?)))
}

/// The program's file, by its own path if that is still the same file: its debug information may be
/// in a file beside it (`.dwp`).
fn program(path: Option<PathBuf>) -> PathBuf {
    let file = |path: &Path| fs::metadata(path).ok().map(|it| (it.dev(), it.ino()));
    let here = Path::new(PROGRAM);
    let same = path.filter(|path| file(path).is_some_and(|it| Some(it) == file(here)));
    same.unwrap_or_else(|| here.to_owned())
}

/// The file beside the distribution's program, by the build's identity, which is in memory.
fn debug_file(object: &LoadedObject, own: &SymbolFile) -> Option<PathBuf> {
    let mut bytes = [0; 36];
    let at = object.base.wrapping_add(own.identity?);
    if stack::copy_memory(at, &mut bytes) != bytes.len() {
        return None;
    }
    let id = build_id(&bytes)?;
    let hex: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
    let (folder, name) = hex.split_at_checked(2)?;
    let path = Path::new(DEBUG_FILES).join(folder);
    let path = path.join(format!("{name}.debug"));
    path.exists().then_some(path)
}

/// A note: the lengths of its name and of what it says, its type, the name `GNU` and a zero, and
/// what it says.
fn build_id(note: &[u8; 36]) -> Option<&[u8]> {
    let length = u32::from_ne_bytes(note[4..8].try_into().ok()?);
    let id = note.get(16..16_usize.checked_add(length as usize)?)?;
    (&note[12..16] == b"GNU\0" && id.len() >= 2).then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_of_the_program_and_of_libraries_are_found() {
        if !stack::SUPPORTED {
            return;
        }
        let mut objects = Objects::default();
        assert!(!objects.refresh(), "nothing was known before");
        let own = build_id as *const () as u64;
        let names: Vec<_> = objects.find(own + 1).into_iter().map(|it| it.0).collect();
        assert!(
            names.iter().any(|name| name.ends_with("objects::build_id")),
            "{names:?}"
        );
        let of_libc = libc::getpid as *const () as u64;
        let found = objects.find(of_libc + 1);
        assert!(found.iter().any(|it| it.0.contains("getpid")), "{found:?}");
        assert!(objects.find(1).is_empty());
        assert!(objects.open.len() >= 2);
    }

    /// Addresses all over the code of the program and of the libraries that it has loaded.
    fn addresses() -> Vec<u64> {
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        let mut addresses = Vec::new();
        for line in maps.lines().filter(|line| line.contains(" r-xp ")) {
            let (begin, end) = line.split_once(' ').unwrap().0.split_once('-').unwrap();
            let [begin, end] = [begin, end].map(|it| u64::from_str_radix(it, 16).unwrap());
            let step = ((end - begin) / 120).max(1);
            addresses.extend((begin..end).step_by(step as usize));
        }
        addresses
    }

    #[test]
    fn places_are_found_as_by_tables_of_everything() {
        if !stack::SUPPORTED {
            return;
        }
        let mut objects = Objects::default();
        objects.refresh();
        let tables = loader(Path::new(PROGRAM)).unwrap();
        let mut compared = 0;
        for address in addresses() {
            let found = objects.find(address);
            let object = objects.loaded.iter().find(|it| it.has(address));
            // Of libraries, symbols may be all that is read.
            if let Some(object) = object.filter(|object| object.name.is_empty()) {
                assert_eq!(found, tables.find(address - object.base), "{address:#x}");
                compared += found.len();
                objects.forget_pages();
            }
        }
        assert!(compared > 100, "{compared}");
    }

    #[test]
    fn the_program_has_its_own_path_unless_another_file_is_there() {
        let own = std::env::current_exe().unwrap();
        assert_eq!(program(Some(own.clone())), own);
        let other = own.parent().map(Path::to_owned);
        assert_eq!(program(other), Path::new(PROGRAM));
        let gone = own.with_extension("gone");
        assert_eq!(program(Some(gone)), Path::new(PROGRAM));
        assert_eq!(program(None), Path::new(PROGRAM));
    }

    #[test]
    fn an_identity_is_read_from_its_note() {
        let mut note = [7; 36];
        note[4..8].copy_from_slice(&20_u32.to_ne_bytes());
        note[12..16].copy_from_slice(b"GNU\0");
        assert_eq!(build_id(&note).map(<[u8]>::len), Some(20));
        note[4..8].copy_from_slice(&u32::MAX.to_ne_bytes());
        assert_eq!(build_id(&note), None);
    }
}
