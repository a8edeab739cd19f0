//! The disk work beside the probes.

use crate::peers::Peer;
use crate::trial::matrix::Row;

/// What goes on beside the probes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Beside {
    pub(super) name: String,
    pub(super) bytes: usize,
    pub(super) writers: usize,
    /// Opens that never return.
    pub(super) hanging: usize,
    pub(super) slow: bool,
    /// Whether the kernel's own part is left out.
    pub(super) without_threads: bool,
}

impl Row for Beside {
    fn name(&self) -> &str {
        &self.name
    }

    fn lacks(&self, peer: Peer) -> Option<&'static str> {
        (self.without_threads && peer == Peer::OsThread).then_some("not measured")
    }
}

impl Beside {
    pub(super) fn is_nothing(&self) -> bool {
        self.writers == 0 && self.hanging == 0
    }
}

/// More than any peer has threads for: Tokio has 512.
const OPENS: usize = 600;

/// First nothing, then every kind of work; in brief those that say most.
pub(super) fn rows(brief: bool, slow: bool) -> Vec<Beside> {
    let mut rows = vec![row(0, 0)];
    let (sizes, writers): (&[usize], &[usize]) = match brief {
        true => (&[1_048_576], &[8]),
        false => (&[1, 4_096, 65_536, 1_048_576], &[1, 8, 32]),
    };
    for &bytes in sizes {
        rows.extend(writers.iter().map(|&writers| row(bytes, writers)));
    }
    if slow {
        let row = row(4_096, 32);
        rows.push(Beside {
            name: format!("{}, on a slow disk", row.name),
            slow: true,
            // In brief the kernel's own part is for the row that costs it most.
            without_threads: brief,
            ..row
        });
    }
    rows.push(Beside {
        name: format!("{OPENS} opens that never return"),
        hanging: OPENS,
        without_threads: brief,
        ..row(0, 0)
    });
    rows
}

fn row(bytes: usize, writers: usize) -> Beside {
    let size = match bytes {
        1 => "1 byte".to_owned(),
        1_048_576 => "1 MiB".to_owned(),
        _ => format!("{} KiB", bytes / 1_024),
    };
    let name = match writers {
        0 => "nothing".to_owned(),
        1 => format!("1 writer of {size}"),
        _ => format!("{writers} writers of {size}"),
    };
    Beside {
        name,
        bytes,
        writers,
        hanging: 0,
        slow: false,
        without_threads: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(brief: bool, slow: bool) -> Vec<String> {
        let rows = rows(brief, slow).into_iter();
        rows.map(|row| row.name).collect()
    }

    #[test]
    fn in_brief_there_is_one_of_each_kind() {
        assert_eq!(
            names(true, true),
            [
                "nothing",
                "8 writers of 1 MiB",
                "32 writers of 4 KiB, on a slow disk",
                "600 opens that never return",
            ]
        );
    }

    #[test]
    fn in_full_every_size_has_every_number_of_writers() {
        let names = names(false, false);
        assert_eq!(names.len(), 1 + 4 * 3 + 1);
        assert!(names.contains(&"1 writer of 1 byte".to_owned()));
        assert!(!names.iter().any(|name| name.contains("slow")));
    }
}
