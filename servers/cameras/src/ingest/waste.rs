//! What is kept of what came: a sample is made of slices, each of which keeps the whole piece of
//! memory that it was read into, with whatever else came in it.
//!
//! The hub counts samples, not these pieces. A sender that puts a lot of nothing between a few
//! bytes of media would have memory kept that nobody counts: messages, packets of no track, long
//! headers, or units that are dropped. So samples are copied while more came beside them than in
//! them. What cameras send is nearly all media, and is not copied.

use bytes::Bytes;

use crate::media::Data;

/// The bytes that came and are in no sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Waste {
    bytes: usize,
}

impl Waste {
    /// So many bytes came.
    pub(super) fn came(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// A sample of what came: as it is, or copied. All that is copied, ever, is no more than what
    /// came, and what is not copied has no more beside it than in it.
    pub(super) fn keep(&mut self, data: Data) -> Data {
        let len = data.len();
        let beside = self.bytes.saturating_sub(len);
        self.bytes = beside.saturating_sub(len);
        if beside <= len {
            return data;
        }
        Data::new(vec![Bytes::from(data.slices().concat())])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether a sample of so many bytes is copied.
    fn is_copied(waste: &mut Waste, len: usize) -> bool {
        let data = Data::new(vec![Bytes::from(vec![7; len])]);
        let kept = waste.keep(data.clone());
        assert_eq!(kept, data);
        kept.slices()[0].as_ptr() != data.slices()[0].as_ptr()
    }

    #[test]
    fn samples_with_more_beside_them_than_in_them_are_copied() {
        let mut waste = Waste::default();
        for _ in 0..100 {
            waste.came(16 + 160);
            assert!(!is_copied(&mut waste, 160));
        }
        assert_eq!(waste, Waste::default());
        // Sound while a large picture is under way, and the picture.
        waste.came(50_000 + 176);
        assert!(is_copied(&mut waste, 160));
        assert!(!is_copied(&mut waste, 50_000));
        // A whole piece of nothing, and what is beside it.
        waste = Waste::default();
        waste.came(65_000);
        for _ in 0..64 {
            waste.came(1_000);
            assert!(is_copied(&mut waste, 1_000));
        }
        waste.came(1_000);
        assert!(!is_copied(&mut waste, 1_000));
    }
}
