//! A part of what was recorded, as one MP4: fragments of the segments behind each other, with other
//! times. Nothing is decoded, and at most one fragment is in memory.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::disk::Disk;
use super::index::{Head, Index, LINE, Line};
use super::listing::{self, Found};
use super::names::Name;
use super::tier::AnyFile;
use super::volume::Volume;
use crate::mp4::merge::{Description, Merged};
use crate::mp4::rewrite::{Shift, shift};
use crate::mp4::{Mp4Error, merge};

/// How many bytes of an index are read.
const INDEX_BYTES_MAX: usize = 4 << 20;
/// The longest clip.
pub const CLIP_MAX_MS: u64 = 24 * 60 * 60 * 1000;

/// Why there is no clip.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClipError {
    /// Nothing is there.
    #[error(
        "nothing was recorded of {camera} between {from_ms} and {until_ms}; GET \
             /api/cameras/{camera}/recordings says what was"
    )]
    Nothing {
        /// The camera.
        camera: String,
        /// From this time on.
        from_ms: u64,
        /// Until this one.
        until_ms: u64,
    },
    /// The tracks before and after have nothing in common.
    #[error(
        "the tracks of {camera} change at {at_ms}: ask for the time before it, and for that \
             after it"
    )]
    TracksChange {
        /// The camera.
        camera: String,
        /// When.
        at_ms: u64,
    },
    /// The disk's error.
    #[error("cannot read the recordings: {0}")]
    Disk(#[from] io::Error),
    /// Browsers play none of the tracks.
    #[error("browsers play none of the tracks that {camera} had then; save a clip instead")]
    NotPlayable {
        /// The camera.
        camera: String,
    },
    /// What is in the files cannot be used.
    #[error(transparent)]
    Mp4(#[from] Mp4Error),
}

/// Whom a clip is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// People, who get everything.
    Keep,
    /// Browsers: it has the tracks that they play, and ends where parameters change, as they take
    /// those of a stream's beginning.
    Play,
}

/// A clip that is planned.
pub struct Clip<D: Disk> {
    volume: Arc<Volume<D>>,
    init: Bytes,
    kind: String,
    rates: Vec<u32>,
    pieces: Vec<Piece>,
    start_us: i64,
    end_us: i64,
    /// The file that was read last.
    open: Option<(usize, AnyFile<D>)>,
    /// Where segments are, and whether in the store alone.
    segments: Vec<(PathBuf, bool)>,
    next: usize,
    damaged: u64,
}

/// A fragment of a clip.
#[derive(Clone, Copy, Debug)]
struct Piece {
    segment: usize,
    line: Line,
    description: u32,
}

/// A segment with what is needed of it.
struct Source {
    path: PathBuf,
    is_copy: bool,
    description: Description,
    lines: Vec<Line>,
}

impl<D: Disk> Clip<D> {
    /// Finds the fragments that have a part between two times, and those back to the key frame that
    /// the first one needs.
    ///
    /// # Errors
    ///
    /// [`ClipError`].
    pub async fn plan(
        volume: &Arc<Volume<D>>,
        camera: &str,
        from_ms: u64,
        until_ms: u64,
        purpose: Purpose,
    ) -> Result<Self, ClipError> {
        let sources = sources(volume, camera, from_ms, until_ms).await?;
        let nothing = || ClipError::Nothing {
            camera: camera.to_owned(),
            from_ms,
            until_ms,
        };
        let first = sources.first().ok_or_else(nothing)?;
        let start_us = first.lines.first().map_or(0, |line| line.start_us);
        let (shown, kind) = match (purpose, first.description.for_browsers()) {
            (Purpose::Play, Some(shown)) => shown,
            (Purpose::Play, None) => {
                return Err(ClipError::NotPlayable {
                    camera: camera.to_owned(),
                });
            }
            (Purpose::Keep, _) => (first.description.clone(), "video/mp4".to_owned()),
        };
        let mut merged = Merged::begin(&shown);
        let (mut pieces, mut segments, mut end_us) = (Vec::new(), Vec::new(), start_us);
        for source in &sources {
            let at_ms = source
                .lines
                .first()
                .map_or(0, |line| listing::ms(line.start_us));
            let is_other = source.description != first.description;
            if is_other && purpose == Purpose::Play {
                break;
            }
            let description = match purpose {
                Purpose::Play => merged.add(&shown),
                Purpose::Keep => merged.add(&source.description),
            };
            let description = description.ok_or_else(|| ClipError::TracksChange {
                camera: camera.to_owned(),
                at_ms,
            })?;
            for line in &source.lines {
                end_us = end_us.max(line.end_us());
                pieces.push(Piece {
                    segment: segments.len(),
                    line: *line,
                    description,
                });
            }
            segments.push((source.path.clone(), source.is_copy));
        }
        let lasts = Duration::from_micros(end_us.saturating_sub(start_us).unsigned_abs());
        Ok(Self {
            volume: Arc::clone(volume),
            init: merged.bytes(lasts)?,
            kind,
            rates: shown.rates(),
            pieces,
            start_us,
            end_us,
            open: None,
            segments,
            next: 0,
            damaged: 0,
        })
    }

    /// When it begins: at the key frame before the time that was asked for.
    pub fn start_ms(&self) -> u64 {
        listing::ms(self.start_us)
    }

    /// When it ends.
    pub fn end_ms(&self) -> u64 {
        listing::ms(self.end_us)
    }

    /// What is in front of its fragments.
    pub fn init(&self) -> Bytes {
        self.init.clone()
    }

    /// Its type, as browsers are asked whether they play it.
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// How many fragments were left out, as they are damaged.
    pub fn damaged(&self) -> u64 {
        self.damaged
    }

    /// The next fragment. Damaged ones are left out.
    ///
    /// # Errors
    ///
    /// The disk's.
    ///
    /// # Cancel safety
    ///
    /// If it is cancelled, the fragment is left out.
    pub async fn next(&mut self) -> io::Result<Option<Bytes>> {
        while let Some(piece) = self.pieces.get(self.next).copied() {
            self.next += 1;
            let mut bytes = self.read(piece).await?;
            let is_whole = crc32fast::hash(&bytes) == piece.line.checksum;
            let change = Shift {
                number: u32::try_from(self.next).unwrap_or(u32::MAX),
                earlier_us: self.start_us,
                description: piece.description,
            };
            if is_whole && shift(&mut bytes, &self.rates, change).is_ok() {
                return Ok(Some(bytes.into()));
            }
            self.damaged += 1;
        }
        Ok(None)
    }

    async fn read(&mut self, piece: Piece) -> io::Result<Vec<u8>> {
        let file = match self.open.take() {
            Some((segment, file)) if segment == piece.segment => file,
            _ => {
                let (path, is_copy) = &self.segments[piece.segment];
                open(&self.volume, path, *is_copy).await?
            }
        };
        let bytes = file
            .read(piece.line.len as usize, piece.line.offset)
            .await?;
        self.open = Some((piece.segment, file));
        Ok(bytes)
    }
}

/// Opens a segment, which may have been completed since it was listed.
async fn open<D: Disk>(volume: &Volume<D>, path: &Path, is_copy: bool) -> io::Result<AnyFile<D>> {
    let name = path.file_name().and_then(|name| name.to_str());
    let Some(Name::Open(start_ms)) = name.and_then(Name::parse) else {
        return volume.open(path, is_copy).await;
    };
    match volume.disk().open(path).await {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        opened => return opened.map(AnyFile::Here),
    }
    let directory = path.parent().unwrap_or(path);
    for name in volume.disk().list(directory).await? {
        match Name::parse(&name) {
            Some(Name::Closed(closed)) if closed.start_ms == start_ms => {
                return volume.open(&directory.join(name), false).await;
            }
            _ => {}
        }
    }
    Err(io::ErrorKind::NotFound.into())
}

/// Segments between two times, with the lines that count. One that was deleted meanwhile, or whose
/// index is damaged, is left out.
async fn sources<D: Disk>(
    volume: &Volume<D>,
    camera: &str,
    from_ms: u64,
    until_ms: u64,
) -> Result<Vec<Source>, ClipError> {
    let mut sources = Vec::new();
    for found in listing::segments(volume, camera, from_ms, until_ms).await? {
        match source(volume, &found, from_ms, until_ms).await {
            Ok(Some(source)) => sources.push(source),
            Ok(None) => {}
            Err(ClipError::Disk(error)) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(sources)
}

async fn source<D: Disk>(
    volume: &Volume<D>,
    found: &Found,
    from_ms: u64,
    until_ms: u64,
) -> Result<Option<Source>, ClipError> {
    let path = found
        .directory
        .join(Name::Index(found.start_ms).to_string());
    let index = volume.open(&path, found.is_copy).await?;
    let bytes = match &found.entries {
        // The head alone: its lines are in memory.
        Some(_) => index.read(LINE, 0).await?,
        None => index.read(INDEX_BYTES_MAX, 0).await?,
    };
    let Some(mut index) = Index::read(&bytes) else {
        return Ok(None);
    };
    if let Some(entries) = &found.entries {
        index.entries.clone_from(entries);
    }
    let lines = between(&index, from_ms, until_ms);
    if lines.is_empty() {
        return Ok(None);
    }
    let path = found.directory.join(found.name.to_string());
    let init = init(volume, &path, found.is_copy, &index.head).await?;
    let Some(description) = init.and_then(|init| merge::describe(&init).ok()) else {
        return Ok(None);
    };
    Ok(Some(Source {
        path,
        is_copy: found.is_copy,
        description,
        lines,
    }))
}

/// Lines that have a part between two times, from the key frame on that the first of them needs.
fn between(index: &Index, from_ms: u64, until_ms: u64) -> Vec<Line> {
    let lines: Vec<Line> = index.fragments().copied().collect();
    let is_in =
        |line: &Line| listing::ms(line.end_us()) > from_ms && listing::ms(line.start_us) < until_ms;
    let Some(first) = lines.iter().position(is_in) else {
        return Vec::new();
    };
    let key = lines[..=first]
        .iter()
        .rposition(|line| line.begins_with_key);
    let from = key.unwrap_or(first);
    let last = lines.iter().rposition(is_in).unwrap_or(first);
    lines[from..=last].to_vec()
}

async fn init<D: Disk>(
    volume: &Volume<D>,
    path: &Path,
    is_copy: bool,
    head: &Head,
) -> io::Result<Option<Vec<u8>>> {
    let file = open(volume, path, is_copy).await?;
    let init = file.read(head.init_len as usize, 0).await?;
    Ok((crc32fast::hash(&init) == head.init_checksum).then_some(init))
}
