//! Which address belongs to what.

/// Ranges of addresses, each with a number for what it belongs to. They seldom overlap.
#[derive(Debug, Default)]
pub(super) struct Ranges {
    /// In the order of their beginnings, once they are sorted.
    ranges: Vec<Range>,
    longest: u32,
}

#[derive(Debug)]
struct Range {
    begin: u64,
    length: u32,
    of: u32,
}

impl Ranges {
    /// One whose numbers have more than 32 bits is left out; no compiler makes such. Returns
    /// whether it was added.
    pub(super) fn add(&mut self, range: gimli::Range, of: usize) -> bool {
        let length = range.end.saturating_sub(range.begin);
        let (Ok(length @ 1..), Ok(of)) = (u32::try_from(length), u32::try_from(of)) else {
            return false;
        };
        let begin = range.begin;
        self.ranges.push(Range { begin, length, of });
        self.longest = self.longest.max(length);
        true
    }

    /// To be done once, after the last was added.
    pub(super) fn sort(&mut self) {
        self.ranges.sort_unstable_by_key(|range| range.begin);
        self.ranges.shrink_to_fit();
    }

    /// What an address belongs to, the range that begins last first.
    pub(super) fn find(&self, address: u64) -> impl Iterator<Item = usize> {
        let after = self.ranges.partition_point(|range| range.begin <= address);
        let before = self.ranges[..after].iter().rev();
        let near = before.take_while(move |range| address - range.begin < u64::from(self.longest));
        let having = near.filter(move |range| address - range.begin < u64::from(range.length));
        having.map(|range| range.of as usize)
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
            assert_eq!(ranges.find(address).next(), of, "{address}");
        }
        for (address, of) in [(40, None), (59, Some(3)), (60, None), (80, None)] {
            assert_eq!(ranges.find(address).next(), of, "{address}");
        }
        assert_eq!(Ranges::default().find(1).next(), None);
    }

    #[test]
    fn an_address_belongs_to_all_ranges_that_have_it() {
        let mut ranges = Ranges::default();
        for (begin, end, of) in [(100, 1_000, 1), (200, 300, 2), (400, 410, 3), (99, 101, 4)] {
            assert!(ranges.add(gimli::Range { begin, end }, of));
        }
        ranges.sort();
        let found = |address| ranges.find(address).collect::<Vec<_>>();
        assert_eq!(found(250), [2, 1]);
        assert_eq!(found(300), [1]);
        assert_eq!(found(500), [1]);
        assert_eq!(found(100), [1, 4]);
        assert!(found(1_000).is_empty());
    }
}
