//! Which address belongs to what.

/// Ranges of addresses that do not overlap, each with a number for what it belongs to.
#[derive(Debug, Default)]
pub(super) struct Ranges(Vec<Range>);

#[derive(Debug)]
struct Range {
    begin: u64,
    length: u32,
    of: u32,
}

impl Ranges {
    /// One whose numbers have more than 32 bits is left out; no compiler makes such.
    pub(super) fn add(&mut self, range: gimli::Range, of: usize) {
        let length = range.end.saturating_sub(range.begin);
        if let (Ok(length @ 1..), Ok(of)) = (u32::try_from(length), u32::try_from(of)) {
            let begin = range.begin;
            self.0.push(Range { begin, length, of });
        }
    }

    /// To be done once, after the last was added.
    pub(super) fn sort(&mut self) {
        self.0.sort_unstable_by_key(|range| range.begin);
        self.0.shrink_to_fit();
    }

    pub(super) fn find(&self, address: u64) -> Option<usize> {
        let after = self.0.partition_point(|range| range.begin <= address);
        let range = self.0.get(after.checked_sub(1)?)?;
        (address - range.begin < u64::from(range.length)).then_some(range.of as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_belongs_to_the_range_that_has_it() {
        let mut ranges = Ranges::default();
        for (begin, end, of) in [
            (50, 60, 3),
            (10, 20, 1),
            (20, 30, 2),
            (40, 40, 4),
            (9, 5, 5),
        ] {
            ranges.add(gimli::Range { begin, end }, of);
        }
        ranges.add(
            gimli::Range {
                begin: 70,
                end: u64::MAX,
            },
            6,
        );
        ranges.sort();
        for (address, of) in [
            (9, None),
            (10, Some(1)),
            (19, Some(1)),
            (20, Some(2)),
            (30, None),
        ] {
            assert_eq!(ranges.find(address), of, "{address}");
        }
        for (address, of) in [(40, None), (59, Some(3)), (60, None), (80, None)] {
            assert_eq!(ranges.find(address), of, "{address}");
        }
        assert_eq!(Ranges::default().find(1), None);
    }
}
