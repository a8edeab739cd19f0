//! What streams there are and how they are encoded (RFC 8866), read and written.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use sdp_types::{Attribute, Media, Session};

use crate::hub::TRACKS_MAX;
use crate::media::aac::AudioConfig;
use crate::media::{Codec, Law, Track, h264, h265};
use crate::rtp::depacketizer::Format;

/// A stream that is offered, and of use here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// The type in its packets.
    pub payload_type: u8,
    /// Ticks a second.
    pub clock_rate: u32,
    /// How it is packed.
    pub format: Format,
    /// What names it in requests, as it stands there.
    pub control: String,
}

/// What a description says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// What names all streams together, as it stands there.
    pub control: Option<String>,
    /// The streams, at most [`TRACKS_MAX`].
    pub offers: Vec<Offer>,
    /// What else is offered, for people.
    pub unused: Vec<String>,
}

/// Why a description is of no use.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SdpError {
    /// It cannot be read.
    #[error("the description of the streams cannot be read: {0}")]
    Read(String),
    /// Nothing in it is understood.
    #[error(
        "none of the streams that are offered can be used: {0}; choose H.264, H.265 or MJPEG in \
         the camera's settings"
    )]
    Useless(String),
}

/// Reads a description.
///
/// # Errors
///
/// [`SdpError`].
pub fn read(body: &[u8]) -> Result<Description, SdpError> {
    let session = Session::parse(body).map_err(|error| SdpError::Read(error.to_string()))?;
    let mut description = Description {
        control: value(&session.attributes, "control").map(str::to_owned),
        offers: Vec::new(),
        unused: Vec::new(),
    };
    for media in &session.medias {
        match offer(media) {
            Some(offer) if description.offers.len() < TRACKS_MAX => description.offers.push(offer),
            _ => description.unused.push(shown(media)),
        }
    }
    if description.offers.is_empty() {
        let unused = &description.unused;
        let shown = if unused.is_empty() {
            "there are none".to_owned()
        } else {
            unused.join(", ")
        };
        return Err(SdpError::Useless(shown));
    }
    Ok(description)
}

/// The type of a track's packets in what [`write()`] says.
pub fn payload_type(track: &Track) -> u8 {
    96 + track.id
}

/// What names a track in what [`write()`] says.
pub fn control(track: &Track) -> String {
    format!("trackID={}", track.id)
}

/// Describes the tracks of a session for viewers.
pub fn write(name: &str, tracks: &[Track]) -> String {
    // The name is checked to be of harmless letters where it comes in.
    let mut text = format!(
        "v=0\r\no=- 0 0 IN IP4 0.0.0.0\r\ns={name}\r\nc=IN IP4 0.0.0.0\r\nt=0 0\r\n\
         a=control:*\r\na=range:npt=now-\r\n"
    );
    for track in tracks {
        let kind = if track.codec.is_video() {
            "video"
        } else {
            "audio"
        };
        let (number, rate) = (payload_type(track), track.clock_rate);
        let (map, parameters) = words(&track.codec, rate);
        text += &format!("m={kind} 0 RTP/AVP {number}\r\na=rtpmap:{number} {map}\r\n");
        if let Some(parameters) = parameters {
            text += &format!("a=fmtp:{number} {parameters}\r\n");
        }
        text += &format!("a=control:{}\r\n", control(track));
    }
    text
}

/// `rtpmap` and `fmtp` of an encoding.
fn words(codec: &Codec, rate: u32) -> (String, Option<String>) {
    match codec {
        Codec::H264 { sps, pps } => {
            let profile = sps.get(1..4).map(hex).unwrap_or_default();
            let (sps, pps) = (STANDARD.encode(sps), STANDARD.encode(pps));
            let parameters = format!(
                "packetization-mode=1; profile-level-id={profile}; sprop-parameter-sets={sps},{pps}"
            );
            (format!("H264/{rate}"), Some(parameters))
        }
        Codec::H265 { vps, sps, pps } => {
            let [vps, sps, pps] = [vps, sps, pps].map(|set| STANDARD.encode(set));
            let parameters = format!("sprop-vps={vps}; sprop-sps={sps}; sprop-pps={pps}");
            (format!("H265/{rate}"), Some(parameters))
        }
        Codec::Aac { config, channels } => {
            let parameters = format!(
                "streamtype=5; profile-level-id=1; mode=AAC-hbr; sizelength=13; indexlength=3; \
                 indexdeltalength=3; config={}",
                hex(config)
            );
            (format!("mpeg4-generic/{rate}/{channels}"), Some(parameters))
        }
        Codec::Opus { channels } => {
            let stereo = (*channels > 1).then(|| "sprop-stereo=1; stereo=1".to_owned());
            (format!("opus/{rate}/2"), stereo)
        }
        Codec::G711 { law, channels } => {
            let name = if *law == Law::A { "PCMA" } else { "PCMU" };
            (format!("{name}/{rate}/{channels}"), None)
        }
        Codec::Mjpeg { .. } => (format!("JPEG/{rate}"), None),
    }
}

fn offer(media: &Media) -> Option<Offer> {
    if !media.proto.starts_with("RTP/AVP") {
        return None;
    }
    let payload_type: u8 = media.fmt.split_whitespace().next()?.parse().ok()?;
    let map = map(media, payload_type);
    let name = map
        .as_ref()
        .map_or("", |(name, ..)| name)
        .to_ascii_uppercase();
    let channels = map.as_ref().map_or(1, |&(.., channels)| channels).max(1);
    let parameters = Parameters::of(media, payload_type);
    let format = match (&*name, payload_type) {
        ("H264", _) => Format::H264 {
            sets: parameters.get("sprop-parameter-sets").and_then(h264_sets),
        },
        ("H265" | "HEVC", _) => Format::H265 {
            sets: h265_sets(&parameters),
            has_order_numbers: parameters.number("sprop-max-don-diff").unwrap_or(0) > 0,
        },
        ("MPEG4-GENERIC", _) => aac(&parameters)?,
        ("OPUS", _) => Format::Opus {
            channels: if parameters.number("sprop-stereo") == Some(1) {
                2
            } else {
                1
            },
        },
        ("PCMU", _) | ("", 0) => Format::G711 {
            law: Law::Mu,
            channels,
        },
        ("PCMA", _) | ("", 8) => Format::G711 {
            law: Law::A,
            channels,
        },
        ("JPEG", _) | ("", 26) => Format::Mjpeg,
        _ => return None,
    };
    let usual = if payload_type == 0 || payload_type == 8 {
        8_000
    } else {
        90_000
    };
    let clock_rate = map.map_or(usual, |(_, rate, _)| rate);
    Some(Offer {
        payload_type,
        clock_rate: (clock_rate > 0).then_some(clock_rate)?,
        format,
        control: value(&media.attributes, "control")
            .unwrap_or_default()
            .to_owned(),
    })
}

/// Name, clock and channels by `rtpmap`.
fn map(media: &Media, payload_type: u8) -> Option<(String, u32, u16)> {
    let of_type = |attribute: &&Attribute| attribute.attribute == "rtpmap";
    media
        .attributes
        .iter()
        .filter(of_type)
        .find_map(|attribute| {
            let (number, words) = attribute.value.as_deref()?.trim().split_once(' ')?;
            let mut words = words.trim().split('/');
            let name = words.next()?.to_owned();
            let rate = words.next()?.trim().parse().ok()?;
            let channels = words.next().and_then(|word| word.trim().parse().ok());
            (number.parse() == Ok(payload_type)).then_some((name, rate, channels.unwrap_or(1)))
        })
}

/// The parameters of `fmtp`.
struct Parameters(Vec<(String, String)>);

impl Parameters {
    fn of(media: &Media, payload_type: u8) -> Self {
        let mut found = Vec::new();
        for attribute in media.attributes.iter().filter(|a| a.attribute == "fmtp") {
            let text = attribute.value.as_deref().unwrap_or_default().trim();
            let Some((number, text)) = text.split_once(' ') else {
                continue;
            };
            if number.parse() != Ok(payload_type) {
                continue;
            }
            for pair in text.split(';') {
                // Base64 ends with further equals signs.
                if let Some((name, value)) = pair.split_once('=') {
                    let name = name.trim().to_ascii_lowercase();
                    found.push((name, value.trim().to_owned()));
                }
            }
        }
        Self(found)
    }

    fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    fn number(&self, name: &str) -> Option<u32> {
        self.get(name)?.parse().ok()
    }
}

fn h264_sets(text: &str) -> Option<(Bytes, Bytes)> {
    let sets: Vec<Bytes> = text.split(',').filter_map(set).collect();
    let of = |kind| {
        let is = |set: &&Bytes| set.first().copied().map(h264::kind) == Some(kind);
        sets.iter().find(is).cloned()
    };
    of(h264::SPS).zip(of(h264::PPS))
}

fn h265_sets(parameters: &Parameters) -> Option<(Bytes, Bytes, Bytes)> {
    let of = |name, kind| {
        let text = parameters.get(name)?;
        let is = |set: &Bytes| set.first().copied().map(h265::kind) == Some(kind);
        text.split(',').filter_map(set).find(is)
    };
    let vps = of("sprop-vps", h265::VPS)?;
    let sps = of("sprop-sps", h265::SPS)?;
    Some((vps, sps, of("sprop-pps", h265::PPS)?))
}

fn set(text: &str) -> Option<Bytes> {
    let bytes = STANDARD.decode(text.trim()).ok()?;
    // Some cameras send start codes along.
    let nal = bytes.strip_prefix(&[0, 0, 0, 1]).unwrap_or(&bytes);
    (!nal.is_empty()).then(|| Bytes::copy_from_slice(nal))
}

fn aac(parameters: &Parameters) -> Option<Format> {
    let text = parameters.get("config")?;
    let pairs = text.as_bytes().chunks_exact(2);
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    let config: Vec<u8> = pairs.map(byte).collect::<Option<_>>()?;
    let channels = AudioConfig::parse(&config)?.channels;
    let bits = |name, usual| parameters.number(name).unwrap_or(usual).min(32);
    let size_bits = bits("sizelength", 13);
    // Without sizes a payload would be one whole unit, which no camera sends as AAC.
    (size_bits > 0).then(|| Format::Aac {
        config: config.into(),
        channels,
        size_bits,
        index_bits: bits("indexlength", 3),
        delta_bits: bits("indexdeltalength", 3),
    })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02X}")).collect()
}

fn value<'a>(attributes: &'a [Attribute], name: &str) -> Option<&'a str> {
    let found = attributes
        .iter()
        .find(|attribute| attribute.attribute == name);
    found?.value.as_deref().map(str::trim)
}

fn shown(media: &Media) -> String {
    let number = media
        .fmt
        .split_whitespace()
        .next()
        .and_then(|fmt| fmt.parse().ok());
    let name = number.and_then(|number| map(media, number));
    let name = name.map_or_else(|| format!("format {}", media.fmt), |(name, ..)| name);
    format!("{} {name}", media.media)
}

#[cfg(test)]
mod tests;
