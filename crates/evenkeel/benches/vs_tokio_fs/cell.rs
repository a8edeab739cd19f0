//! What is measured: the cells of the matrix.

use std::fmt;

/// What is done.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    Read,
    Write,
}

/// How it is said where.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// By an offset with each operation.
    Offset,
    /// By the file's cursor, through Tokio's traits.
    Sequence,
}

#[derive(Clone, Copy)]
pub(crate) struct Cell {
    pub(crate) work: Work,
    pub(crate) way: Way,
    /// Whether the system's cache does it, and not the device.
    pub(crate) cached: bool,
    pub(crate) size: usize,
    /// How many tasks do it at the same time.
    pub(crate) tasks: usize,
}

/// All cells, in the order of the tables.
pub(crate) fn all() -> Vec<Cell> {
    let mut cells = Vec::new();
    for way in [Way::Offset, Way::Sequence] {
        for work in [Work::Read, Work::Write] {
            for cached in [true, false] {
                for size in [4 << 10, 64 << 10, 1 << 20] {
                    for tasks in [1, 32] {
                        cells.push(Cell {
                            work,
                            way,
                            cached,
                            size,
                            tasks,
                        });
                    }
                }
            }
        }
    }
    cells
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let work = match self.work {
            Work::Read => "read",
            Work::Write => "write",
        };
        let way = match self.way {
            Way::Offset => "at",
            Way::Sequence => "seq",
        };
        let cached = if self.cached { "cached" } else { "device" };
        let kib = self.size >> 10;
        write!(f, "{work} {way} {cached} {kib}K x{}", self.tasks)
    }
}
