//! What a program's or a library's file says of its code.

use std::path::Path;

use object::{Object, ObjectSection, SymbolMap, SymbolMapName};
use self_cell::self_cell;

use super::debug_info::{DebugInfo, Frame};
use crate::sys::mapped::MappedFile;

self_cell!(
    struct Cell {
        owner: MappedFile,
        #[not_covariant]
        dependent: Tables,
    }
);

struct Tables<'a> {
    debug_info: DebugInfo<'a>,
    symbols: SymbolMap<SymbolMapName<'a>>,
}

/// An open file.
pub(super) struct SymbolFile {
    tables: Cell,
    pub(super) has_debug_info: bool,
    /// Where the file's identity is, from its base address.
    pub(super) identity: Option<u64>,
}

/// Why a file was not opened.
#[derive(Debug)]
pub(super) enum Refused {
    /// It cannot be read, or is no program.
    Unreadable,
    /// A part of its debug information is in other files, or it is compressed.
    Elsewhere,
}

impl SymbolFile {
    /// Refuses a file whose lines it cannot read, unless the names of symbols will do.
    pub(super) fn open(path: &Path, symbols_will_do: bool) -> Result<Self, Refused> {
        let file = MappedFile::open(path).map_err(|_| Refused::Unreadable)?;
        let (mut has_debug_info, mut identity) = (false, None);
        let tables = Cell::try_new(file, |bytes| {
            let object = object::File::parse(&**bytes).map_err(|_| Refused::Unreadable)?;
            has_debug_info = object.section_by_name(".debug_info").is_some();
            identity = object
                .section_by_name(".note.gnu.build-id")
                .map(|it| it.address());
            let debug_info = match DebugInfo::new(&object) {
                Err(Refused::Elsewhere) if symbols_will_do => DebugInfo::default(),
                debug_info => debug_info?,
            };
            Ok(Tables {
                debug_info,
                symbols: object.symbol_map(),
            })
        })?;
        Ok(Self {
            tables,
            has_debug_info,
            identity,
        })
    }

    /// The functions that an address belongs to, the innermost first, by their raw names.
    pub(super) fn frames(&self, place: u64) -> Vec<Frame> {
        let frames = |tables: &Tables<'_>| tables.debug_info.frames(place);
        self.tables.with_dependent(|_, tables| frames(tables))
    }

    /// The symbol that an address belongs to.
    pub(super) fn symbol(&self, place: u64) -> Option<String> {
        let symbol =
            |tables: &Tables<'_>| Some(tables.symbols.containing(place)?.name().to_owned());
        self.tables.with_dependent(|_, tables| symbol(tables))
    }

    pub(super) fn forget_pages(&self) {
        self.tables.borrow_owner().forget_pages();
    }
}
