//! The bits of a NAL unit.

/// Writes bits.
pub(super) struct Writer {
    bytes: Vec<u8>,
    filled: u32,
}

impl Writer {
    /// Behind these bytes.
    pub(super) fn new(head: &[u8]) -> Self {
        Self {
            bytes: head.to_vec(),
            filled: 8,
        }
    }

    /// The last `count` bits of a value.
    pub(super) fn bits(&mut self, value: u32, count: u32) {
        for place in (0..count).rev() {
            if self.filled == 8 {
                self.bytes.push(0);
                self.filled = 0;
            }
            if let Some(last) = self.bytes.last_mut() {
                *last |= ((value >> place & 1) as u8) << (7 - self.filled);
            }
            self.filled += 1;
        }
    }

    /// An unsigned number, by Exp-Golomb.
    pub(super) fn ue(&mut self, value: u32) {
        let bits = u32::BITS - (value + 1).leading_zeros();
        self.bits(0, bits - 1);
        self.bits(value + 1, bits);
    }

    /// Whole bytes, from the next whole one on.
    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        self.filled = 8;
    }

    /// Ends with a one and zeros, and keeps start codes out.
    pub(super) fn finish(mut self) -> Vec<u8> {
        self.bits(1, 1);
        let mut escaped = Vec::with_capacity(self.bytes.len());
        let mut zeros = 0;
        for byte in self.bytes {
            if zeros >= 2 && byte <= 3 {
                escaped.push(3);
                zeros = 0;
            }
            zeros = if byte == 0 { zeros + 1 } else { 0 };
            escaped.push(byte);
        }
        escaped
    }
}
