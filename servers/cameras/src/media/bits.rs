//! Bits of parameter sets, with the variable-length numbers of H.264 and H.265 (clause 9).

use std::borrow::Cow;

/// Reads bits from the most significant one on. Beyond the end there is `None`.
#[derive(Clone, Debug)]
pub struct Bits<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Bits<'a> {
    /// From the first bit of these bytes on.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// One bit.
    pub fn bit(&mut self) -> Option<bool> {
        let byte = self.bytes.get(self.at / 8)?;
        let bit = byte >> (7 - self.at % 8) & 1;
        self.at += 1;
        Some(bit == 1)
    }

    /// A number of up to 32 bits.
    pub fn number(&mut self, bits: u32) -> Option<u32> {
        let mut number = 0;
        for _ in 0..bits {
            number = number << 1 | u32::from(self.bit()?);
        }
        Some(number)
    }

    /// Leaves out some bits.
    pub fn skip(&mut self, bits: usize) -> Option<()> {
        self.at = self.at.checked_add(bits)?;
        (self.at <= self.bytes.len() * 8).then_some(())
    }

    /// A number as `ue(v)`.
    pub fn ue(&mut self) -> Option<u32> {
        let mut zeros = 0;
        while !self.bit()? {
            zeros += 1;
            if zeros > 31 {
                return None;
            }
        }
        let rest = self.number(zeros)?;
        Some((1_u32 << zeros) - 1 + rest)
    }

    /// A number as `se(v)`.
    pub fn se(&mut self) -> Option<i64> {
        let code = i64::from(self.ue()?);
        Some(if code % 2 == 1 {
            (code + 1) / 2
        } else {
            -code / 2
        })
    }
}

/// A NAL unit without the bytes that keep start codes out of it (each 3 behind two zeros).
pub fn without_emulation(nal: &[u8]) -> Cow<'_, [u8]> {
    let is_escape = |window: &[u8]| window == [0, 0, 3];
    if !nal.windows(3).any(is_escape) {
        return Cow::Borrowed(nal);
    }
    let mut plain = Vec::with_capacity(nal.len());
    let mut zeros = 0;
    for &byte in nal {
        if zeros >= 2 && byte == 3 {
            zeros = 0;
            continue;
        }
        zeros = if byte == 0 { zeros + 1 } else { 0 };
        plain.push(byte);
    }
    Cow::Owned(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_variable_length_are_read() {
        // 1, 010, 011, 00100, 00101: 0 to 4.
        let bytes = [0b1010_0110, 0b0100_0010, 0b1000_0000];
        let mut bits = Bits::new(&bytes);
        let read: Vec<u32> = std::iter::from_fn(|| bits.ue()).take(5).collect();
        assert_eq!(read, [0, 1, 2, 3, 4]);
        let mut bits = Bits::new(&bytes);
        let read: Vec<i64> = std::iter::from_fn(|| bits.se()).take(5).collect();
        assert_eq!(read, [0, 1, -1, 2, -2]);
        assert_eq!(Bits::new(&[0; 8]).ue(), None);
        assert_eq!(Bits::new(&[0xff]).number(9), None);
        assert_eq!(Bits::new(&[0xff]).skip(9), None);
    }

    #[test]
    fn escapes_are_taken_out() {
        let nal = [1, 0, 0, 3, 1, 0, 0, 3, 0, 0, 3];
        assert_eq!(*without_emulation(&nal), [1, 0, 0, 1, 0, 0, 0, 0]);
        assert!(matches!(without_emulation(&[0, 3, 0]), Cow::Borrowed(_)));
    }
}
