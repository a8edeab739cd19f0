//! The functions and lines of addresses, from a file's debug information (DWARF).
//!
//! Of all the functions and rows of lines that a program has, some hundreds of addresses are asked
//! for. So only where things are is kept: 16 bytes for each function, and 40 for each sequence of
//! rows, which in an optimised program is a function's. What an address needs is read again when it
//! is asked for. Tables of everything, such as those of the crate `addr2line`, take far more.

use std::cell::OnceCell;

use gimli::{
    AbbreviationsCacheStrategy, Dwarf, EndianSlice, RunTimeEndian, SectionId, UnitHeader,
    UnitOffset, UnitRef,
};
use object::{Object, ObjectSection};

use super::entry::{Entry, chain, functions};
use super::file::Refused;
use super::lines::Lines;
use super::ranges::Ranges;
use crate::stats::site::Site;

/// Bytes of a section, in the file's order.
pub(super) type Slice<'a> = EndianSlice<'a, RunTimeEndian>;
/// A function's name as the compiler made it, unless only its line is known, and the place in it.
pub(super) type Frame = (Option<String>, Option<Site>);

/// How often a name may be said to be that of another entry: once or twice where compilers do so.
const ORIGINS_MAX: usize = 16;

/// The debug information of a file.
#[derive(Default)]
pub(super) struct DebugInfo<'a> {
    dwarf: Dwarf<Slice<'a>>,
    /// In the order of their offsets.
    units: Vec<Unit<'a>>,
    /// The units of addresses.
    ranges: Ranges,
}

/// What was compiled in one go. What it says is read when an address of it is asked for.
struct Unit<'a> {
    header: UnitHeader<Slice<'a>>,
    unit: OnceCell<Option<Box<gimli::Unit<Slice<'a>>>>>,
    /// The offsets of functions' entries.
    functions: OnceCell<Ranges>,
    lines: OnceCell<Option<Box<Lines<'a>>>>,
}

impl<'a> DebugInfo<'a> {
    pub(super) fn new(object: &object::File<'a>) -> Result<Self, Refused> {
        let endian = match object.is_little_endian() {
            true => RunTimeEndian::Little,
            false => RunTimeEndian::Big,
        };
        let mut dwarf = Dwarf::load(|id: SectionId| {
            let Some(section) = object.section_by_name(id.name()) else {
                return Ok(EndianSlice::new(&[], endian));
            };
            let is_plain = matches!(
                section.compressed_file_range().map(|range| range.format),
                Ok(object::CompressionFormat::None)
            );
            if !is_plain {
                return Err(Refused::Elsewhere);
            }
            let bytes = section.data().map_err(|_| Refused::Unreadable)?;
            Ok(EndianSlice::new(bytes, endian))
        })?;
        // What units have in common is read once.
        dwarf.populate_abbreviations_cache(AbbreviationsCacheStrategy::Duplicates);
        let mut info = Self {
            dwarf,
            units: Vec::new(),
            ranges: Ranges::default(),
        };
        info.find_units()?;
        Ok(info)
    }

    /// What cannot be read is left out.
    fn find_units(&mut self) -> Result<(), Refused> {
        let mut headers = self.dwarf.units();
        while let Ok(Some(header)) = headers.next() {
            let Ok(unit) = self.dwarf.unit(header) else {
                continue;
            };
            if unit.dwo_id.is_some() {
                return Err(Refused::Elsewhere);
            }
            let index = self.units.len();
            let unit = unit.unit_ref(&self.dwarf);
            let mut has_code = false;
            let _ = Entry::of_unit(unit).and_then(|entry| {
                entry.each_range(unit, |range| has_code |= self.ranges.add(range, index))
            });
            if !has_code && let Some(lines) = Lines::new(unit) {
                for range in lines.ranges() {
                    self.ranges.add(range, index);
                }
            }
            self.units.push(Unit {
                header,
                unit: OnceCell::new(),
                functions: OnceCell::new(),
                lines: OnceCell::new(),
            });
        }
        self.ranges.sort();
        Ok(())
    }

    /// The functions that an address belongs to, the innermost first; none if nothing is known.
    pub(super) fn frames(&self, place: u64) -> Vec<Frame> {
        for index in self.ranges.find(place) {
            let unit = self.units.get(index);
            let frames = unit.and_then(|unit| unit.frames(self, place).ok());
            if let Some(frames) = frames.filter(|frames| !frames.is_empty()) {
                return frames;
            }
        }
        Vec::new()
    }

    /// The entry at an offset from the beginning of the section.
    fn entry_at(
        &self,
        offset: gimli::DebugInfoOffset,
    ) -> Option<(UnitRef<'_, Slice<'a>>, Entry<'a>)> {
        let after = self.units.partition_point(|unit| unit.offset() <= offset.0);
        let unit = self.units.get(after.checked_sub(1)?)?;
        let offset = offset.to_unit_offset(&unit.header)?;
        let unit = unit.read(&self.dwarf)?;
        Some((unit, Entry::at(unit, offset).ok()?))
    }

    /// What an entry is called, or the one that it stands for.
    fn name(&self, unit: UnitRef<'_, Slice<'a>>, entry: &Entry<'a>) -> Option<String> {
        let (mut unit, mut entry) = (unit, entry.clone());
        for _ in 0..ORIGINS_MAX {
            if let Some(name) = entry.name() {
                let name = unit.attr_string(name).ok()?;
                return Some(name.to_string_lossy().into_owned());
            }
            (unit, entry) = match entry.origin? {
                gimli::AttributeValue::UnitRef(offset) => (unit, Entry::at(unit, offset).ok()?),
                gimli::AttributeValue::DebugInfoRef(offset) => self.entry_at(offset)?,
                _ => return None,
            };
        }
        None
    }
}

impl<'a> Unit<'a> {
    fn offset(&self) -> usize {
        self.header.debug_info_offset().map_or(0, |offset| offset.0)
    }

    fn read<'b>(&'b self, dwarf: &'b Dwarf<Slice<'a>>) -> Option<UnitRef<'b, Slice<'a>>> {
        let unit = self
            .unit
            .get_or_init(|| dwarf.unit(self.header).ok().map(Box::new));
        unit.as_ref().map(|unit| unit.unit_ref(dwarf))
    }

    fn frames(&self, info: &DebugInfo<'a>, place: u64) -> gimli::Result<Vec<Frame>> {
        let Some(unit) = self.read(&info.dwarf) else {
            return Ok(Vec::new());
        };
        let lines = self.lines.get_or_init(|| Lines::new(unit).map(Box::new));
        let lines = lines.as_ref();
        let mut site = lines.and_then(|lines| lines.site(unit, place));
        let functions = self
            .functions
            .get_or_init(|| functions(unit).unwrap_or_default());
        let Some(offset) = functions.find(place).next() else {
            return Ok(site.map(|site| (None, Some(site))).into_iter().collect());
        };
        let mut frames = Vec::new();
        for entry in chain(unit, UnitOffset(offset), place)?.iter().rev() {
            let called = entry.called();
            let called = lines.and_then(|lines| lines.place(unit, called?));
            frames.push((info.name(unit, entry), std::mem::replace(&mut site, called)));
        }
        Ok(frames)
    }
}
