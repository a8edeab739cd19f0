//! Fragmented MP4, of which recordings and what browsers watch are made. No I/O, no clock.
//!
//! - [`init`]: the part in front, which says how tracks are encoded; [`entry`] a track of it.
//! - [`fragment`]: samples behind the table of their lengths and times.
//! - [`merge`]: the parts in front of several files as one.
//! - [`rewrite`]: other times in a fragment that was written earlier.
//! - [`origin`]: from the times of a session to those of the calendar.
//!
//! Decode times in fragments count from 1970-01-01 UTC on, in ticks of the track. So fragments from
//! any two files of a camera can be put behind each other, and none has to be decoded for that.

pub mod entry;
pub mod fragment;
pub mod init;
pub mod merge;
pub mod origin;
pub mod rewrite;

pub use fragment::{Fragment, Piece};
pub use init::Init;
pub use origin::Origin;

/// Why something cannot be written as MP4, or what was written cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Mp4Error {
    /// A parameter set says nothing that can be used.
    #[error(
        "the {codec} parameters of track {track} cannot be read: the camera sends a damaged {what}"
    )]
    Parameters {
        /// The codec.
        codec: &'static str,
        /// The track.
        track: u8,
        /// Which of them.
        what: &'static str,
    },
    /// No track can be put into the file.
    #[error("there is no track that can be stored: the session has {tracks} of them")]
    NoTracks {
        /// How many there are.
        tracks: usize,
    },
    /// A fragment would be longer than 32 bits can say.
    #[error("a group of pictures of {bytes} bytes is too long for a fragment of MP4")]
    TooLong {
        /// Its length.
        bytes: usize,
    },
    /// The library refuses what it is to write.
    #[error("cannot write the box: {0}")]
    Library(#[from] mp4_atom::Error),
    /// What was to be a fragment is none.
    #[error("a fragment is damaged: {0}; the part of the file is left out")]
    Damaged(&'static str),
}

#[cfg(test)]
mod tests;
