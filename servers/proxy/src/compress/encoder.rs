//! The codings.
//!
//! A library may gather what it is given and compress much of it in one call, in which nothing else
//! runs. So they are told to be done with what they have after so many bytes as they compress in
//! some hundred microseconds; that costs a few per cent of what they save.

use std::io::{self, Write};

use brotli::CompressorWriter;
use brotli::enc::BrotliEncoderParams;
use flate2::write::GzEncoder;
use zstd::stream::raw::CParameter;
use zstd::stream::write::Encoder as ZstdEncoder;

use super::accept::Coding;

/// How much is compressed without a pause.
pub(crate) const SLICE_BYTES: usize = 8 * 1_024;

/// Levels at which a processor compresses some 50 to 300 MB a second.
const GZIP_LEVEL: u32 = 4;
const BROTLI_LEVEL: i32 = 4;
const ZSTD_LEVEL: i32 = 3;

/// Windows are of 128 KiB, and so is, about, what else is kept: less than a megabyte in all.
const WINDOW_BITS: u32 = 17;
const TABLE_BITS: u32 = 15;

/// After how many bytes Brotli and Zstandard have to be done with what they have.
const BROTLI_BLOCK: usize = SLICE_BYTES;
const ZSTD_BLOCK: usize = 4 * SLICE_BYTES;

/// Compresses a body.
pub struct Encoder {
    kind: Kind,
    /// Bytes since the last block.
    of_block: usize,
    bytes_in: u64,
    bytes_out: u64,
}

enum Kind {
    Gzip(GzEncoder<Vec<u8>>),
    Brotli(Box<CompressorWriter<Vec<u8>>>),
    Zstd(Box<ZstdEncoder<'static, Vec<u8>>>),
}

impl std::fmt::Debug for Encoder {
    /// Without what the libraries keep.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Encoder")
            .field("coding", &self.coding())
            .finish_non_exhaustive()
    }
}

impl Encoder {
    /// At the beginning of a body.
    ///
    /// # Errors
    ///
    /// The library has no memory.
    pub fn new(coding: Coding) -> io::Result<Self> {
        let out = Vec::new();
        let kind = match coding {
            Coding::Gzip => Kind::Gzip(GzEncoder::new(out, flate2::Compression::new(GZIP_LEVEL))),
            Coding::Brotli => {
                let params = BrotliEncoderParams {
                    quality: BROTLI_LEVEL,
                    lgwin: WINDOW_BITS as i32,
                    ..BrotliEncoderParams::default()
                };
                let writer = CompressorWriter::with_params(out, SLICE_BYTES, &params);
                Kind::Brotli(Box::new(writer))
            }
            Coding::Zstd => {
                let mut encoder = ZstdEncoder::new(out, ZSTD_LEVEL)?;
                for parameter in [
                    CParameter::WindowLog(WINDOW_BITS),
                    CParameter::HashLog(TABLE_BITS),
                    CParameter::ChainLog(TABLE_BITS),
                ] {
                    encoder.set_parameter(parameter)?;
                }
                Kind::Zstd(Box::new(encoder))
            }
        };
        Ok(Self {
            kind,
            of_block: 0,
            bytes_in: 0,
            bytes_out: 0,
        })
    }

    /// The coding.
    pub fn coding(&self) -> Coding {
        match self.kind {
            Kind::Gzip(_) => Coding::Gzip,
            Kind::Brotli(_) => Coding::Brotli,
            Kind::Zstd(_) => Coding::Zstd,
        }
    }

    /// Takes a slice of at most `SLICE_BYTES`, and adds what comes of it.
    ///
    /// # Errors
    ///
    /// That of the library.
    pub fn push(&mut self, slice: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        debug_assert!(slice.len() <= SLICE_BYTES);
        self.bytes_in += slice.len() as u64;
        self.of_block += slice.len();
        let block = match &mut self.kind {
            Kind::Gzip(encoder) => {
                encoder.write_all(slice)?;
                usize::MAX
            }
            Kind::Brotli(encoder) => {
                encoder.write_all(slice)?;
                BROTLI_BLOCK
            }
            Kind::Zstd(encoder) => {
                encoder.write_all(slice)?;
                ZSTD_BLOCK
            }
        };
        if self.of_block >= block {
            return self.flush(out);
        }
        self.drain(out);
        Ok(())
    }

    /// Adds all that is left of what was taken, so that the other side has it.
    ///
    /// # Errors
    ///
    /// That of the library.
    pub fn flush(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        if self.of_block > 0 {
            self.of_block = 0;
            match &mut self.kind {
                Kind::Gzip(encoder) => encoder.flush()?,
                Kind::Brotli(encoder) => encoder.flush()?,
                Kind::Zstd(encoder) => encoder.flush()?,
            }
        }
        self.drain(out);
        Ok(())
    }

    /// Adds the end.
    ///
    /// # Errors
    ///
    /// That of the library.
    pub fn finish(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        match &mut self.kind {
            Kind::Gzip(encoder) => encoder.try_finish()?,
            Kind::Brotli(encoder) => {
                // It has no other way to end than to be taken apart.
                let empty = CompressorWriter::new(Vec::new(), 1, 0, 10);
                let ended = std::mem::replace(&mut **encoder, empty).into_inner();
                self.bytes_out += ended.len() as u64;
                out.extend_from_slice(&ended);
                return Ok(());
            }
            Kind::Zstd(encoder) => encoder.do_finish()?,
        }
        self.drain(out);
        Ok(())
    }

    /// How many bytes went in, and came out.
    pub fn moved(&self) -> (u64, u64) {
        (self.bytes_in, self.bytes_out)
    }

    fn drain(&mut self, out: &mut Vec<u8>) {
        let ready = match &mut self.kind {
            Kind::Gzip(encoder) => encoder.get_mut(),
            Kind::Brotli(encoder) => encoder.get_mut(),
            Kind::Zstd(encoder) => encoder.get_mut(),
        };
        self.bytes_out += ready.len() as u64;
        out.append(ready);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use proptest::prelude::*;

    use super::*;

    fn decoded(coding: Coding, bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        match coding {
            Coding::Gzip => drop(flate2::read::GzDecoder::new(bytes).read_to_end(&mut out)),
            Coding::Brotli => {
                drop(brotli::Decompressor::new(bytes, 4_096).read_to_end(&mut out));
            }
            Coding::Zstd => out = zstd::stream::decode_all(bytes).unwrap_or_default(),
        }
        out
    }

    const ALL: [Coding; 3] = [Coding::Gzip, Coding::Brotli, Coding::Zstd];

    #[test]
    fn long_text_becomes_short_and_the_same_again() {
        let text: String = (0..20_000).map(|line| format!("line {line}\n")).collect();
        for coding in ALL {
            let mut encoder = Encoder::new(coding).unwrap();
            let mut out = Vec::new();
            for slice in text.as_bytes().chunks(SLICE_BYTES) {
                encoder.push(slice, &mut out).unwrap();
            }
            encoder.finish(&mut out).unwrap();
            assert_eq!(decoded(coding, &out), text.as_bytes(), "{coding:?}");
            assert!(out.len() < text.len() / 3, "{coding:?}: {}", out.len());
            assert_eq!(encoder.moved(), (text.len() as u64, out.len() as u64));
        }
    }

    #[test]
    fn what_was_flushed_can_be_read_before_the_end() {
        for coding in ALL {
            let mut encoder = Encoder::new(coding).unwrap();
            let mut out = Vec::new();
            encoder.push(b"an event", &mut out).unwrap();
            encoder.flush(&mut out).unwrap();
            let mut part = [0; 8];
            match coding {
                Coding::Gzip => flate2::read::GzDecoder::new(&*out).read_exact(&mut part),
                Coding::Brotli => brotli::Decompressor::new(&*out, 4_096).read_exact(&mut part),
                Coding::Zstd => zstd::stream::read::Decoder::new(&*out)
                    .unwrap()
                    .read_exact(&mut part),
            }
            .unwrap();
            assert_eq!(&part, b"an event", "{coding:?}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn whatever_goes_in_comes_out(
            parts in prop::collection::vec(
                (prop::collection::vec(any::<u8>(), 0..2_000), any::<bool>()), 0..12
            )
        ) {
            for coding in ALL {
                let mut encoder = Encoder::new(coding).unwrap();
                let (mut out, mut all) = (Vec::new(), Vec::new());
                for (part, flushes) in &parts {
                    encoder.push(part, &mut out).unwrap();
                    all.extend_from_slice(part);
                    if *flushes {
                        encoder.flush(&mut out).unwrap();
                    }
                }
                encoder.finish(&mut out).unwrap();
                prop_assert_eq!(decoded(coding, &out), all);
            }
        }
    }
}
