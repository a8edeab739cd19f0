//! How a track is described in the part in front.

use mp4_atom::esds::{DecoderConfig, DecoderSpecific, EsDescriptor, Esds, SLConfig};
use mp4_atom::{
    Audio, Avc1, Avcc, Codec as Entry, Dinf, Dops, Dref, DrefEntry, FixedPoint, FourCC, Hdlr, Hvc1,
    HvcCArray, Hvcc, Jpeg, Mdhd, Mdia, Minf, Mp4a, Opus, Smhd, Stbl, Stco, Stsd, Tkhd, Trak, Twos,
    Url, Visual, Vmhd,
};

use super::Mp4Error;
use crate::media::{Codec, Law, Track, h265};

/// The number that a track has in files. Zero is none there.
pub fn number(track: &Track) -> u32 {
    u32::from(track.id) + 1
}

/// The box of a track whose samples are encoded like this.
pub fn trak(track: &Track, entry: Entry) -> Trak {
    let (width, height) = match entry.visual() {
        Some(visual) => (visual.width, visual.height),
        None => (0, 0),
    };
    let is_video = track.codec.is_video();
    let (handler, name) = if is_video {
        (FourCC::new(b"vide"), "video")
    } else {
        (FourCC::new(b"soun"), "sound")
    };
    Trak {
        tkhd: Tkhd {
            track_id: number(track),
            enabled: true,
            in_movie: true,
            volume: FixedPoint::new(u8::from(!is_video), 0),
            width: width.into(),
            height: height.into(),
            ..Tkhd::default()
        },
        mdia: Mdia {
            mdhd: Mdhd {
                timescale: track.clock_rate,
                language: "und".to_owned(),
                ..Mdhd::default()
            },
            hdlr: Hdlr {
                handler,
                name: name.to_owned(),
            },
            minf: Minf {
                vmhd: is_video.then(Vmhd::default),
                smhd: (!is_video).then(Smhd::default),
                dinf: Dinf {
                    dref: Dref {
                        entries: vec![DrefEntry::Url(Url::default())],
                    },
                },
                stbl: Stbl {
                    stsd: Stsd {
                        codecs: vec![entry],
                    },
                    stco: Some(Stco::default()),
                    ..Stbl::default()
                },
                ..Minf::default()
            },
        },
        ..Trak::default()
    }
}

/// How the samples of a track are encoded.
///
/// # Errors
///
/// A parameter set cannot be read.
pub fn entry(track: &Track) -> Result<Entry, Mp4Error> {
    let damaged = |what| Mp4Error::Parameters {
        codec: track.codec.name(),
        track: track.id,
        what,
    };
    let size = || {
        track
            .codec
            .size()
            .ok_or_else(|| damaged("sequence parameter set"))
    };
    Ok(match &track.codec {
        Codec::H264 { sps, pps } => Avc1 {
            visual: visual(size()?),
            avcc: Avcc::new(sps, pps).map_err(|_| damaged("sequence parameter set"))?,
            ..Avc1::default()
        }
        .into(),
        Codec::H265 { vps, sps, pps } => {
            let parsed = h265::Sps::parse(sps).ok_or_else(|| damaged("sequence parameter set"))?;
            Hvc1 {
                visual: visual(size()?),
                hvcc: hvcc(&parsed, [vps, sps, pps]),
                ..Hvc1::default()
            }
            .into()
        }
        Codec::Mjpeg { .. } => Jpeg {
            visual: visual(size()?),
            ..Jpeg::default()
        }
        .into(),
        Codec::Aac { config, channels } => Mp4a {
            audio: audio(track, *channels),
            esds: esds(track, config),
            btrt: None,
            taic: None,
        }
        .into(),
        Codec::Opus { channels } => Opus {
            audio: audio(track, *channels),
            dops: Dops {
                output_channel_count: u8::try_from(*channels).unwrap_or(2),
                pre_skip: 0,
                input_sample_rate: 48_000,
                output_gain: 0,
                channel_mapping: None,
            },
            btrt: None,
        }
        .into(),
        Codec::G711 { channels, .. } => Twos {
            audio: audio(track, *channels),
            pcmc: None,
            chnl: None,
            btrt: None,
        }
        .into(),
    })
}

/// The name of the entry in the file, where it is not the one that the library has written. G.711
/// is unknown to the library, and its entry has the shape of `twos`.
pub fn renamed(track: &Track) -> Option<FourCC> {
    let name = match track.codec {
        Codec::G711 { law: Law::A, .. } => b"alaw",
        Codec::G711 { law: Law::Mu, .. } => b"ulaw",
        _ => return None,
    };
    Some(FourCC::new(name))
}

/// What RFC 6381 calls the codec, as browsers and playlists name it. `None` of what browsers do not
/// play.
pub fn rfc6381(track: &Track) -> Option<String> {
    rfc6381_of(&entry(track).ok()?)
}

/// The same of what a file says of a track.
pub fn rfc6381_of(entry: &Entry) -> Option<String> {
    match entry {
        Entry::Avc1(avc1) => {
            let Avcc {
                avc_profile_indication: profile,
                profile_compatibility: compatible,
                avc_level_indication: level,
                ..
            } = avc1.avcc;
            Some(format!("avc1.{profile:02X}{compatible:02X}{level:02X}"))
        }
        Entry::Hvc1(hvc1) => Some(hvc1_name(&hvc1.hvcc)),
        Entry::Mp4a(mp4a) => {
            let specific = mp4a.esds.es_desc.dec_config.dec_specific.as_ref()?;
            Some(format!("mp4a.40.{}", specific.profile))
        }
        Entry::Opus(_) => Some("opus".to_owned()),
        _ => None,
    }
}

/// As annex E of ISO/IEC 14496-15 says.
fn hvc1_name(hvcc: &Hvcc) -> String {
    let space = ["", "A", "B", "C"][usize::from(hvcc.general_profile_space & 3)];
    let tier = if hvcc.general_tier_flag { 'H' } else { 'L' };
    let flags = u32::from_be_bytes(hvcc.general_profile_compatibility_flags).reverse_bits();
    let (profile, level) = (hvcc.general_profile_idc, hvcc.general_level_idc);
    let mut name = format!("hvc1.{space}{profile}.{flags:X}.{tier}{level}");
    let constraints = hvcc.general_constraint_indicator_flags;
    let used = constraints.iter().rposition(|&byte| byte != 0);
    for byte in constraints.iter().take(used.map_or(0, |last| last + 1)) {
        name.push_str(&format!(".{byte:X}"));
    }
    name
}

/// Parts of the first byte of a profile.
const TIER: u8 = 0x20;
const PROFILE: u8 = 0x1f;

fn constraints(sps: &h265::Sps) -> [u8; 6] {
    let [_, _, bytes @ ..] = sps.constraints.to_be_bytes();
    bytes
}

fn visual((width, height): (u16, u16)) -> Visual {
    Visual {
        data_reference_index: 1,
        width,
        height,
        ..Visual::default()
    }
}

fn audio(track: &Track, channel_count: u16) -> Audio {
    Audio {
        data_reference_index: 1,
        channel_count,
        sample_size: 16,
        // Faster clocks do not fit, and are read from the codec's own parameters.
        sample_rate: u16::try_from(track.clock_rate).unwrap_or(0).into(),
    }
}

fn hvcc(sps: &h265::Sps, sets: [&bytes::Bytes; 3]) -> Hvcc {
    let array = |set: &bytes::Bytes| HvcCArray {
        completeness: true,
        nal_unit_type: set.first().map_or(0, |byte| byte >> 1 & 0x3f),
        nalus: vec![set.to_vec()],
    };
    Hvcc {
        general_profile_space: sps.profile >> 6,
        general_tier_flag: sps.profile & TIER != 0,
        general_profile_idc: sps.profile & PROFILE,
        general_profile_compatibility_flags: sps.compatibility.to_be_bytes(),
        general_constraint_indicator_flags: constraints(sps),
        general_level_idc: sps.level,
        chroma_format_idc: sps.chroma,
        bit_depth_luma_minus8: sps.luma_bits.saturating_sub(8),
        bit_depth_chroma_minus8: sps.chroma_bits.saturating_sub(8),
        num_temporal_layers: sps.layers,
        temporal_id_nested: sps.layers_nested,
        length_size_minus_one: 3,
        arrays: sets.map(array).into(),
        ..Hvcc::new()
    }
}

fn esds(track: &Track, config: &bytes::Bytes) -> Esds {
    /// MPEG-4 audio, and a stream of sound (ISO/IEC 14496-1).
    const MPEG4_AUDIO: u8 = 0x40;
    const AUDIO_STREAM: u8 = 5;
    let frequency = config.first().map_or(0, |byte| byte << 1 & 0xe)
        | config.get(1).map_or(0, |byte| byte >> 7);
    Esds {
        es_desc: EsDescriptor {
            es_id: u16::from(track.id) + 1,
            dec_config: DecoderConfig {
                object_type_indication: MPEG4_AUDIO,
                stream_type: AUDIO_STREAM,
                dec_specific: Some(DecoderSpecific {
                    profile: object_type(config),
                    freq_index: frequency,
                    chan_conf: config.get(1).map_or(0, |byte| byte >> 3 & 0xf),
                    raw: config.to_vec(),
                }),
                ..DecoderConfig::default()
            },
            sl_config: SLConfig::default(),
            ..EsDescriptor::default()
        },
    }
}

/// The first five bits of the `AudioSpecificConfig`; 2, low complexity, of an empty one.
fn object_type(config: &[u8]) -> u8 {
    config.first().map_or(2, |byte| byte >> 3)
}
