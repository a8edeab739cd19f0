//! The tables that pictures have which say only a quality (ITU-T T.81, annex K), and the head of a
//! file.

/// For luma, row by row.
const LUMA: [u8; 64] = [
    16, 11, 10, 16, 24, 40, 51, 61, 12, 12, 14, 19, 26, 58, 60, 55, 14, 13, 16, 24, 40, 57, 69, 56,
    14, 17, 22, 29, 51, 87, 80, 62, 18, 22, 37, 56, 68, 109, 103, 77, 24, 35, 55, 64, 81, 104, 113,
    92, 49, 64, 78, 87, 103, 121, 120, 101, 72, 92, 95, 98, 112, 100, 103, 99,
];

/// For chroma, row by row.
const CHROMA: [u8; 64] = [
    17, 18, 24, 47, 99, 99, 99, 99, 18, 21, 26, 66, 99, 99, 99, 99, 24, 26, 56, 99, 99, 99, 99, 99,
    47, 66, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99,
    99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99,
];

/// Lengths of codes and symbols, each with the byte that names it in a file.
const HUFFMAN: [(u8, [u8; 16], &[u8]); 4] = [
    (0x00, [0, 1, 5, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0], &DC),
    (
        0x10,
        [0, 2, 1, 3, 3, 2, 4, 3, 5, 5, 4, 4, 0, 0, 1, 125],
        &LUMA_AC,
    ),
    (0x01, [0, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0], &DC),
    (
        0x11,
        [0, 2, 1, 2, 4, 4, 3, 4, 7, 5, 4, 4, 0, 1, 2, 119],
        &CHROMA_AC,
    ),
];

const DC: [u8; 12] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11];

const LUMA_AC: [u8; 162] = [
    0x01, 0x02, 0x03, 0x00, 0x04, 0x11, 0x05, 0x12, 0x21, 0x31, 0x41, 0x06, 0x13, 0x51, 0x61, 0x07,
    0x22, 0x71, 0x14, 0x32, 0x81, 0x91, 0xa1, 0x08, 0x23, 0x42, 0xb1, 0xc1, 0x15, 0x52, 0xd1, 0xf0,
    0x24, 0x33, 0x62, 0x72, 0x82, 0x09, 0x0a, 0x16, 0x17, 0x18, 0x19, 0x1a, 0x25, 0x26, 0x27, 0x28,
    0x29, 0x2a, 0x34, 0x35, 0x36, 0x37, 0x38, 0x39, 0x3a, 0x43, 0x44, 0x45, 0x46, 0x47, 0x48, 0x49,
    0x4a, 0x53, 0x54, 0x55, 0x56, 0x57, 0x58, 0x59, 0x5a, 0x63, 0x64, 0x65, 0x66, 0x67, 0x68, 0x69,
    0x6a, 0x73, 0x74, 0x75, 0x76, 0x77, 0x78, 0x79, 0x7a, 0x83, 0x84, 0x85, 0x86, 0x87, 0x88, 0x89,
    0x8a, 0x92, 0x93, 0x94, 0x95, 0x96, 0x97, 0x98, 0x99, 0x9a, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7,
    0xa8, 0xa9, 0xaa, 0xb2, 0xb3, 0xb4, 0xb5, 0xb6, 0xb7, 0xb8, 0xb9, 0xba, 0xc2, 0xc3, 0xc4, 0xc5,
    0xc6, 0xc7, 0xc8, 0xc9, 0xca, 0xd2, 0xd3, 0xd4, 0xd5, 0xd6, 0xd7, 0xd8, 0xd9, 0xda, 0xe1, 0xe2,
    0xe3, 0xe4, 0xe5, 0xe6, 0xe7, 0xe8, 0xe9, 0xea, 0xf1, 0xf2, 0xf3, 0xf4, 0xf5, 0xf6, 0xf7, 0xf8,
    0xf9, 0xfa,
];

const CHROMA_AC: [u8; 162] = [
    0x00, 0x01, 0x02, 0x03, 0x11, 0x04, 0x05, 0x21, 0x31, 0x06, 0x12, 0x41, 0x51, 0x07, 0x61, 0x71,
    0x13, 0x22, 0x32, 0x81, 0x08, 0x14, 0x42, 0x91, 0xa1, 0xb1, 0xc1, 0x09, 0x23, 0x33, 0x52, 0xf0,
    0x15, 0x62, 0x72, 0xd1, 0x0a, 0x16, 0x24, 0x34, 0xe1, 0x25, 0xf1, 0x17, 0x18, 0x19, 0x1a, 0x26,
    0x27, 0x28, 0x29, 0x2a, 0x35, 0x36, 0x37, 0x38, 0x39, 0x3a, 0x43, 0x44, 0x45, 0x46, 0x47, 0x48,
    0x49, 0x4a, 0x53, 0x54, 0x55, 0x56, 0x57, 0x58, 0x59, 0x5a, 0x63, 0x64, 0x65, 0x66, 0x67, 0x68,
    0x69, 0x6a, 0x73, 0x74, 0x75, 0x76, 0x77, 0x78, 0x79, 0x7a, 0x82, 0x83, 0x84, 0x85, 0x86, 0x87,
    0x88, 0x89, 0x8a, 0x92, 0x93, 0x94, 0x95, 0x96, 0x97, 0x98, 0x99, 0x9a, 0xa2, 0xa3, 0xa4, 0xa5,
    0xa6, 0xa7, 0xa8, 0xa9, 0xaa, 0xb2, 0xb3, 0xb4, 0xb5, 0xb6, 0xb7, 0xb8, 0xb9, 0xba, 0xc2, 0xc3,
    0xc4, 0xc5, 0xc6, 0xc7, 0xc8, 0xc9, 0xca, 0xd2, 0xd3, 0xd4, 0xd5, 0xd6, 0xd7, 0xd8, 0xd9, 0xda,
    0xe2, 0xe3, 0xe4, 0xe5, 0xe6, 0xe7, 0xe8, 0xe9, 0xea, 0xf2, 0xf3, 0xf4, 0xf5, 0xf6, 0xf7, 0xf8,
    0xf9, 0xfa,
];

/// The tables of a quality between 1 and 99, in the zigzag order of files (RFC 2435, section 4.2).
pub(super) fn of_quality(quality: u8) -> Vec<u8> {
    let quality = u32::from(quality.clamp(1, 99));
    let factor = if quality < 50 {
        5_000 / quality
    } else {
        200 - quality * 2
    };
    let scaled = |value: u8| ((u32::from(value) * factor + 50) / 100).clamp(1, 255) as u8;
    let tables = [LUMA, CHROMA];
    let zigzag = zigzag();
    let values = tables
        .iter()
        .flat_map(|table| zigzag.map(|place| scaled(table[place])));
    values.collect()
}

/// The places of a table of eight rows in the order of files: diagonal by diagonal.
fn zigzag() -> [usize; 64] {
    let mut places: [usize; 64] = std::array::from_fn(|place| place);
    places.sort_by_key(|place| {
        let (row, column) = (place / 8, place % 8);
        let diagonal = row + column;
        (diagonal, if diagonal % 2 == 0 { column } else { row })
    });
    places
}

/// What the head of a file says.
pub(super) struct Head<'a> {
    pub(super) width: u16,
    pub(super) height: u16,
    /// Chroma has half the lines too (4:2:0, else 4:2:2).
    pub(super) is_halved: bool,
    /// Between restart markers; 0 without.
    pub(super) restart: u16,
    /// Each of 64 bytes.
    pub(super) tables: &'a [u8],
}

impl Head<'_> {
    /// From the first byte of the file up to the coded data.
    pub(super) fn write(&self) -> Vec<u8> {
        let mut head = vec![0xff, 0xd8];
        let tables = self.tables.chunks_exact(64);
        let chroma_table = u8::from(tables.len() > 1);
        for (index, table) in tables.enumerate() {
            segment(&mut head, 0xdb, &[&[index as u8], table].concat());
        }
        if self.restart > 0 {
            segment(&mut head, 0xdd, &self.restart.to_be_bytes());
        }
        let ([h1, h2], [w1, w2]) = (self.height.to_be_bytes(), self.width.to_be_bytes());
        let luma = if self.is_halved { 0x22 } else { 0x21 };
        let components = [1, luma, 0, 2, 0x11, chroma_table, 3, 0x11, chroma_table];
        segment(
            &mut head,
            0xc0,
            &[&[8, h1, h2, w1, w2, 3][..], &components].concat(),
        );
        for (name, lengths, symbols) in HUFFMAN {
            segment(&mut head, 0xc4, &[&[name][..], &lengths, symbols].concat());
        }
        segment(&mut head, 0xda, &[3, 1, 0x00, 2, 0x11, 3, 0x11, 0, 63, 0]);
        head
    }
}

fn segment(head: &mut Vec<u8>, marker: u8, contents: &[u8]) {
    head.extend([0xff, marker]);
    head.extend((contents.len() as u16 + 2).to_be_bytes());
    head.extend(contents);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_in_the_order_of_files() {
        let tables = of_quality(50);
        // Annex K's values along the first diagonals.
        assert_eq!(tables[..10], [16, 11, 12, 14, 12, 10, 16, 14, 13, 14]);
        assert_eq!(tables[64..70], [17, 18, 18, 24, 21, 24]);
        assert_eq!(of_quality(99)[..3], [1, 1, 1]);
        assert_eq!(of_quality(1)[..3], [255, 255, 255]);
    }

    #[test]
    fn codes_and_symbols_are_as_many() {
        for (_, lengths, symbols) in HUFFMAN {
            let codes: usize = lengths.iter().map(|&length| usize::from(length)).sum();
            assert_eq!(codes, symbols.len());
            let mut sorted = symbols.to_vec();
            sorted.sort_unstable();
            sorted.dedup();
            assert_eq!(sorted.len(), symbols.len());
        }
    }
}
