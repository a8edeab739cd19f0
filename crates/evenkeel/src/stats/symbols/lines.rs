//! The rows of lines of a unit.

use gimli::{CompleteLineProgram, LineSequence, UnitRef};

use super::debug_info::Slice;
use super::entry::Called;
use crate::stats::site::Site;

/// Where the rows of a unit's code are.
pub(super) struct Lines<'a> {
    program: CompleteLineProgram<Slice<'a>>,
    /// In the order of their addresses.
    sequences: Vec<LineSequence<Slice<'a>>>,
}

impl<'a> Lines<'a> {
    pub(super) fn new(unit: UnitRef<'_, Slice<'a>>) -> Option<Self> {
        let (program, mut sequences) = unit.line_program.clone()?.sequences().ok()?;
        sequences.retain(|sequence| sequence.start < sequence.end);
        sequences.sort_unstable_by_key(|sequence| sequence.start);
        sequences.shrink_to_fit();
        Some(Self { program, sequences })
    }

    /// The addresses of which it has rows.
    pub(super) fn ranges(&self) -> impl Iterator<Item = gimli::Range> {
        let range = |it: &LineSequence<Slice<'a>>| gimli::Range {
            begin: it.start,
            end: it.end,
        };
        self.sequences.iter().map(range)
    }

    /// The place of the instruction at an address.
    pub(super) fn site(&self, unit: UnitRef<'_, Slice<'a>>, address: u64) -> Option<Site> {
        let after = self.sequences.partition_point(|it| it.start <= address);
        let sequence = self.sequences.get(after.checked_sub(1)?)?;
        if address >= sequence.end {
            return None;
        }
        let mut rows = self.program.resume_from(sequence);
        let mut called = None;
        while let Ok(Some((_, row))) = rows.next_row() {
            if row.address() > address || row.end_sequence() {
                break;
            }
            let line = row.line().map_or(0, |line| narrow(line.get()));
            called = Some(Called {
                file: row.file_index(),
                line,
                column: match row.column() {
                    gimli::ColumnType::Column(column) if line > 0 => narrow(column.get()),
                    _ => 0,
                },
            });
        }
        self.place(unit, called?)
    }

    /// A place by the number of its file.
    pub(super) fn place(&self, unit: UnitRef<'_, Slice<'a>>, called: Called) -> Option<Site> {
        let Called { file, line, column } = called;
        let file = self.file(unit, file)?.into();
        Some(Site { file, line, column })
    }

    /// The path of a file: in its directory, and that one in the directory of the compilation.
    fn file(&self, unit: UnitRef<'_, Slice<'a>>, number: u64) -> Option<String> {
        let header = self.program.header();
        let file = header.file(number)?;
        let mut path = unit.comp_dir.map_or_else(String::new, |it| text(&it));
        // Directory 0 is that of the compilation.
        if file.directory_index() != 0
            && let Some(directory) = file.directory(header)
        {
            push(&mut path, &text(&unit.attr_string(directory).ok()?));
        }
        push(&mut path, &text(&unit.attr_string(file.path_name()).ok()?));
        Some(path)
    }
}

fn text(bytes: &Slice<'_>) -> String {
    bytes.to_string_lossy().into_owned()
}

fn push(path: &mut String, part: &str) {
    if part.starts_with('/') {
        path.clear();
    } else if !path.is_empty() && !path.ends_with('/') {
        path.push('/');
    }
    path.push_str(part);
}

pub(super) fn narrow(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(0)
}
