//! Which of a camera's tracks a browser gets, and as what: they are passed on as they are.

use super::offer::{Format, Offer, OfferError};
use crate::media::h264::Sps;
use crate::media::{Codec, Law, Track};

/// What an offer is answered with.
#[derive(Debug)]
pub struct Choice {
    /// The offer, as the library of WebRTC is to see it.
    pub offer: String,
    /// Pictures, if the browser takes them.
    pub video: Option<Chosen>,
    /// Sound, if the browser takes it.
    pub sound: Option<Chosen>,
    /// Formats of media for which nothing is sent.
    pub idle: Vec<Format>,
}

/// A track that is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// The track.
    pub track: Track,
    /// As what.
    pub format: Format,
    /// The payload type for packets that are sent again.
    pub again: Option<u8>,
    /// The name of the section in the description.
    pub mid: String,
}

/// Why nothing is sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ChoiceError {
    /// The offer.
    #[error(transparent)]
    Offer(#[from] OfferError),
    /// There is nothing that both know.
    #[error(
        "the camera sends {sent}, and the browser takes {taken}: WebRTC passes on H.264, Opus and \
         G.711 as they are; watch it by the WebSocket or HLS, or have the camera send another \
         encoding"
    )]
    NothingShared {
        /// What the camera sends.
        sent: String,
        /// What the browser takes.
        taken: String,
    },
    /// Pictures are decoded in another order than shown.
    #[error(
        "the camera's pictures are shown in another order than they are sent in (B-frames), which \
         WebRTC cannot do; switch B-frames off in the camera, or watch it by the WebSocket or HLS"
    )]
    Reordered,
}

impl Choice {
    /// Chooses what of these tracks is sent.
    ///
    /// # Errors
    ///
    /// [`ChoiceError`].
    pub fn of(text: &str, tracks: &[Track]) -> Result<Self, ChoiceError> {
        let offer = Offer::read(text)?;
        let of_kind = |is_video| {
            let mut tracks = tracks
                .iter()
                .filter(move |track| track.codec.is_video() == is_video);
            tracks.find_map(|track| find(&offer, track))
        };
        let (video, sound) = (of_kind(true), of_kind(false));
        if video.is_none() && sound.is_none() {
            let sent: Vec<_> = tracks.iter().map(name).collect();
            return Err(ChoiceError::NothingShared {
                sent: sent.join(", "),
                taken: offer.names(),
            });
        }
        let is_reordered = |chosen: &(usize, Chosen)| match &chosen.1.track.codec {
            Codec::H264 { sps, .. } => Sps::parse(sps).and_then(|sps| sps.reorder) > Some(0),
            _ => false,
        };
        if video.as_ref().is_some_and(is_reordered) {
            return Err(ChoiceError::Reordered);
        }
        let served: Vec<usize> = [&video, &sound]
            .into_iter()
            .flatten()
            .map(|(place, _)| *place)
            .collect();
        Ok(Self {
            offer: offer.with(&served),
            idle: idle(&offer, &served),
            video: video.map(|(_, chosen)| chosen),
            sound: sound.map(|(_, chosen)| chosen),
        })
    }
}

/// The section and the format that fit a track.
fn find(offer: &Offer<'_>, track: &Track) -> Option<(usize, Chosen)> {
    let kind = if track.codec.is_video() {
        "video"
    } else {
        "audio"
    };
    let mut sections = offer.sections.iter().enumerate();
    sections.find_map(|(place, section)| {
        let is_right = section.kind == kind && section.takes && !section.mid.is_empty();
        let ranked = section.formats.iter().filter_map(|format| {
            let rank = rank(track, format).filter(|_| is_right)?;
            Some((rank, format))
        });
        // Of those that fit alike, the one that the browser wants most.
        let (_, format) = ranked.min_by_key(|(rank, _)| *rank)?;
        let chosen = Chosen {
            track: track.clone(),
            format: format.clone(),
            again: section.again(format.number),
            mid: section.mid.clone(),
        };
        Some((place, chosen))
    })
}

/// How well a format fits a track: less is better. `None` if it does not.
fn rank(track: &Track, format: &Format) -> Option<u8> {
    match &track.codec {
        Codec::H264 { sps, .. } => {
            let is_whole = format.parameter("packetization-mode") == Some("1");
            let id = format.parameter("profile-level-id").unwrap_or("420010");
            let taken = Profile::read(id).filter(|_| is_whole && format.is("H264", 90_000))?;
            Profile::of(sps)?.rank(taken)
        }
        Codec::Opus { .. } => (format.is("opus", 48_000) && format.channels == 2).then_some(0),
        Codec::G711 { law, channels: 1 } if track.clock_rate == 8_000 => {
            let name = match law {
                Law::A => "PCMA",
                Law::Mu => "PCMU",
            };
            format.is(name, 8_000).then_some(0)
        }
        _ => None,
    }
}

/// What a decoder of H.264 has to be able to do (RFC 6184, section 8.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Profile {
    ConstrainedBaseline,
    Baseline,
    Main,
    ConstrainedHigh,
    High,
    Other(u8),
}

impl Profile {
    /// By its number and the flags of constraints.
    fn new(number: u8, constraints: u8) -> Self {
        match number {
            66 if constraints & 0x40 != 0 => Self::ConstrainedBaseline,
            66 => Self::Baseline,
            77 if constraints & 0x80 != 0 => Self::ConstrainedBaseline,
            77 => Self::Main,
            100 if constraints & 0x0c == 0x0c => Self::ConstrainedHigh,
            100 => Self::High,
            other => Self::Other(other),
        }
    }

    /// As descriptions have it: six hexadecimal digits.
    fn read(id: &str) -> Option<Self> {
        let number = u32::from_str_radix(id, 16).ok().filter(|_| id.len() == 6)?;
        let [_, profile, constraints, _level] = number.to_be_bytes();
        Some(Self::new(profile, constraints))
    }

    /// That of a camera.
    fn of(sps: &[u8]) -> Option<Self> {
        let [_, profile, constraints, ..] = sps else {
            return None;
        };
        Some(Self::new(*profile, *constraints))
    }

    /// Whether a decoder of another profile takes pictures of this one; less is better. Cameras do
    /// not use what Baseline has and the profiles above it have not.
    fn rank(self, taken: Self) -> Option<u8> {
        if self == taken {
            return Some(0);
        }
        let order = match self {
            Self::ConstrainedBaseline | Self::Baseline => &[
                Self::ConstrainedBaseline,
                Self::Baseline,
                Self::Main,
                Self::ConstrainedHigh,
                Self::High,
            ][..],
            // What "constrained" leaves out of High is interlaced pictures.
            Self::Main => &[Self::ConstrainedHigh, Self::High],
            Self::High => &[Self::ConstrainedHigh],
            Self::ConstrainedHigh => &[Self::High],
            Self::Other(_) => &[],
        };
        let place = order.iter().position(|known| *known == taken)?;
        u8::try_from(place + 1).ok()
    }
}

/// A format of each section that is not served, since an answer has one for each.
fn idle(offer: &Offer<'_>, served: &[usize]) -> Vec<Format> {
    let mut idle: Vec<Format> = Vec::new();
    for (place, section) in offer.sections.iter().enumerate() {
        if served.contains(&place) {
            continue;
        }
        let known = |format: &&Format| {
            let is_h264 = format.is("H264", 90_000)
                && format.parameter("packetization-mode") == Some("1")
                && format.parameter("profile-level-id").is_some();
            is_h264
                || format.is("VP8", 90_000)
                || format.is("opus", 48_000) && format.channels == 2
                || format.is("PCMU", 8_000)
                || format.is("PCMA", 8_000)
        };
        if let Some(format) = section.formats.iter().find(known) {
            idle.push(format.clone());
        }
    }
    idle
}

/// A track for people, with what decides whether a browser decodes it.
fn name(track: &Track) -> String {
    match &track.codec {
        Codec::H264 { sps, .. } if sps.len() > 3 => {
            format!("H.264 ({:02x}{:02x}{:02x})", sps[1], sps[2], sps[3])
        }
        codec => codec.name().to_owned(),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::offer::tests::BROWSER;
    use super::*;
    use bytes::Bytes;

    pub(in super::super) fn h264(profile: u8, constraints: u8) -> Track {
        Track {
            id: 0,
            codec: Codec::H264 {
                sps: Bytes::copy_from_slice(&[0x67, profile, constraints, 0x1f]),
                pps: Bytes::from_static(&[0x68]),
            },
            clock_rate: 90_000,
        }
    }

    pub(in super::super) fn g711(law: Law, id: u8) -> Track {
        let codec = Codec::G711 { law, channels: 1 };
        Track {
            id,
            codec,
            clock_rate: 8_000,
        }
    }

    #[test]
    fn the_cameras_profile_is_chosen_or_one_that_decodes_it() {
        for (profile, constraints, number) in [
            (66, 0, Some(102)),
            (66, 0x40, Some(102)),
            (77, 0, Some(106)),
            (100, 0, Some(106)),
            (110, 0, None),
        ] {
            let choice = Choice::of(BROWSER, &[h264(profile, constraints)]);
            let chosen = choice.ok().and_then(|choice| choice.video);
            let found = chosen.as_ref().map(|chosen| chosen.format.number);
            assert_eq!(found, number, "{profile}");
            if number == Some(102) {
                assert_eq!(chosen.and_then(|chosen| chosen.again), Some(103));
            }
        }
    }

    #[test]
    fn sound_is_chosen_beside_pictures_and_alone() {
        let both = Choice::of(BROWSER, &[h264(66, 0), g711(Law::A, 1)]).unwrap();
        assert!(both.video.is_some());
        assert_eq!(both.sound.unwrap().format.number, 8);
        assert!(both.idle.is_empty());
        let alone = Choice::of(BROWSER, &[g711(Law::Mu, 0)]).unwrap();
        assert_eq!(alone.sound.unwrap().format.number, 0);
        assert!(alone.video.is_none());
        // The answer has a section for pictures all the same.
        assert_eq!(alone.idle[0].number, 96);
    }

    #[test]
    fn what_is_shared_by_nobody_is_named() {
        let aac = Track {
            id: 0,
            codec: Codec::Aac {
                config: Bytes::new(),
                channels: 1,
            },
            clock_rate: 16_000,
        };
        let error = Choice::of(BROWSER, &[h264(110, 0), aac]).unwrap_err();
        let expected = ChoiceError::NothingShared {
            sent: "H.264 (6e001f), AAC".to_owned(),
            taken: "H264, PCMA, PCMU, VP8, opus".to_owned(),
        };
        assert_eq!(error, expected);
        let wide = Track {
            clock_rate: 16_000,
            ..g711(Law::A, 0)
        };
        assert!(Choice::of(BROWSER, &[wide]).is_err());
    }

    #[test]
    fn pictures_that_are_reordered_by_their_parameters_are_refused() {
        // Of ffmpeg's libx264, with two B-frames; the same without them.
        let with = [
            0x67, 0x4d, 0x40, 0x0d, 0xec, 0xa0, 0xa0, 0xfd, 0x80, 0x88, 0x00, 0x00, 0x03, 0x00,
            0x08, 0x00, 0x00, 0x03, 0x01, 0x90, 0x78, 0xa1, 0x4c, 0xb0,
        ];
        let mut track = h264(77, 0);
        let Codec::H264 { sps, .. } = &mut track.codec else {
            unreachable!("it was made so");
        };
        *sps = Bytes::copy_from_slice(&with);
        assert_eq!(
            Choice::of(BROWSER, &[track]).unwrap_err(),
            ChoiceError::Reordered
        );
    }
}
