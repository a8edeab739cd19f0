//! The entries of a unit: functions, and those that were inlined into them.

use gimli::{AttributeValue, EntriesRaw, Range, RangeListsOffset, UnitOffset, UnitRef, constants};

use super::debug_info::Slice;
use super::lines::narrow;
use super::ranges::Ranges;

type Value<'a> = AttributeValue<Slice<'a>>;

/// What an entry says that is needed here.
#[derive(Clone, Default)]
pub(super) struct Entry<'a> {
    low: Option<u64>,
    high: Option<High>,
    ranges: Option<RangeListsOffset>,
    linkage_name: Option<Value<'a>>,
    short_name: Option<Value<'a>>,
    /// The entry that it stands for.
    pub(super) origin: Option<Value<'a>>,
    called: Called,
    has_file: bool,
}

/// Where its addresses end.
#[derive(Clone, Copy)]
enum High {
    Address(u64),
    Length(u64),
}

/// Where a function was called that was inlined there: the number of the file, line and column, or
/// zeros.
#[derive(Clone, Copy, Default)]
pub(super) struct Called {
    pub(super) file: u64,
    pub(super) line: u32,
    pub(super) column: u32,
}

impl<'a> Entry<'a> {
    /// The entry of the unit itself.
    pub(super) fn of_unit(unit: UnitRef<'_, Slice<'a>>) -> gimli::Result<Self> {
        Self::first(unit, unit.entries_raw(None)?)
    }

    pub(super) fn at(unit: UnitRef<'_, Slice<'a>>, at: UnitOffset) -> gimli::Result<Self> {
        Self::first(unit, unit.entries_raw(Some(at))?)
    }

    fn first(
        unit: UnitRef<'_, Slice<'a>>,
        mut entries: EntriesRaw<'_, Slice<'a>>,
    ) -> gimli::Result<Self> {
        match entries.read_abbreviation()? {
            Some(abbreviation) => Self::read(unit, &mut entries, abbreviation),
            None => Ok(Self::default()),
        }
    }

    fn read(
        unit: UnitRef<'_, Slice<'a>>,
        entries: &mut EntriesRaw<'_, Slice<'a>>,
        abbreviation: &gimli::Abbreviation,
    ) -> gimli::Result<Self> {
        let mut entry = Self::default();
        for &of in abbreviation.attributes() {
            let attribute = entries.read_attribute(of)?;
            let value = attribute.value();
            match attribute.name() {
                constants::DW_AT_low_pc => entry.low = unit.attr_address(value)?,
                constants::DW_AT_high_pc => {
                    entry.high = match value {
                        Value::Udata(length) => Some(High::Length(length)),
                        value => unit.attr_address(value)?.map(High::Address),
                    }
                }
                constants::DW_AT_ranges => entry.ranges = unit.attr_ranges_offset(value)?,
                constants::DW_AT_linkage_name | constants::DW_AT_MIPS_linkage_name => {
                    entry.linkage_name = Some(value);
                }
                constants::DW_AT_name => entry.short_name = Some(value),
                constants::DW_AT_abstract_origin | constants::DW_AT_specification => {
                    entry.origin = Some(value);
                }
                constants::DW_AT_call_file => {
                    if let Value::FileIndex(file) = value {
                        entry.called.file = file;
                        // Before version 5, number 0 is no file.
                        entry.has_file = file > 0 || unit.header.version() >= 5;
                    }
                }
                constants::DW_AT_call_line => {
                    entry.called.line = attribute.udata_value().map_or(0, narrow);
                }
                constants::DW_AT_call_column => {
                    entry.called.column = attribute.udata_value().map_or(0, narrow);
                }
                _ => {}
            }
        }
        Ok(entry)
    }

    pub(super) fn name(&self) -> Option<Value<'a>> {
        self.linkage_name.or(self.short_name)
    }

    pub(super) fn called(&self) -> Option<Called> {
        self.has_file.then_some(self.called)
    }

    pub(super) fn each_range(
        &self,
        unit: UnitRef<'_, Slice<'a>>,
        mut each: impl FnMut(Range),
    ) -> gimli::Result<()> {
        if let Some(ranges) = self.ranges {
            let mut ranges = unit.ranges(ranges)?;
            while let Some(range) = ranges.next()? {
                each(range);
            }
        } else if let (Some(begin), Some(high)) = (self.low, self.high) {
            let end = match high {
                High::Address(end) => end,
                // Code that the linker has left out is at the last address.
                High::Length(length) => begin.wrapping_add(length),
            };
            each(Range { begin, end });
        }
        Ok(())
    }

    fn has(&self, unit: UnitRef<'_, Slice<'a>>, place: u64) -> gimli::Result<bool> {
        let mut has = false;
        self.each_range(unit, |range| {
            has |= (range.begin..range.end).contains(&place)
        })?;
        Ok(has)
    }
}

/// All functions of a unit, by the offsets of their entries.
pub(super) fn functions(unit: UnitRef<'_, Slice<'_>>) -> gimli::Result<Ranges> {
    let mut functions = Ranges::default();
    let mut entries = unit.entries_raw(None)?;
    while !entries.is_empty() {
        let offset = entries.next_offset();
        let Some(abbreviation) = entries.read_abbreviation()? else {
            continue;
        };
        if abbreviation.tag() == constants::DW_TAG_subprogram {
            let entry = Entry::read(unit, &mut entries, abbreviation)?;
            entry.each_range(unit, |range| _ = functions.add(range, offset.0))?;
        } else {
            entries.skip_attributes(abbreviation.attributes())?;
        }
    }
    functions.sort();
    Ok(functions)
}

/// The function at an offset, and those inlined into it that have an address, the outermost first.
pub(super) fn chain<'a>(
    unit: UnitRef<'_, Slice<'a>>,
    function: UnitOffset,
    place: u64,
) -> gimli::Result<Vec<Entry<'a>>> {
    let mut entries = unit.entries_raw(Some(function))?;
    let mut top = entries.next_depth();
    let Some(abbreviation) = entries.read_abbreviation()? else {
        return Ok(Vec::new());
    };
    let mut chain = vec![Entry::read(unit, &mut entries, abbreviation)?];
    // What is below an entry that does not have the address does not have it either.
    let mut outside = None;
    while entries.next_depth() > top && !entries.is_empty() {
        let depth = entries.next_depth();
        let Some(abbreviation) = entries.read_abbreviation()? else {
            continue;
        };
        let tag = abbreviation.tag();
        let is_outside = outside.is_some_and(|outside| depth > outside);
        if !is_outside && tag == constants::DW_TAG_inlined_subroutine {
            let entry = Entry::read(unit, &mut entries, abbreviation)?;
            if entry.has(unit, place)? {
                chain.push(entry);
                // What has it, too, is inside this one.
                top = depth;
                outside = None;
            } else {
                outside = Some(depth);
            }
            continue;
        }
        entries.skip_attributes(abbreviation.attributes())?;
        if !is_outside {
            // A function inside another one is not a part of it.
            outside = (tag == constants::DW_TAG_subprogram).then_some(depth);
        }
    }
    Ok(chain)
}
