//! What cameras send: descriptions, packets and media.

use std::time::Duration;

use bytes::Bytes;
use cameras::hub::TRACKS_MAX;
use cameras::media::{Law, Sample, Track};
use cameras::mp4::{Init, merge};
use cameras::rtp::depacketizer::{Depacketizer, Format, SAMPLE_MAX};
use cameras::rtp::order::Patience;
use cameras::rtp::packet::Packet;
use cameras::rtp::receiver::{Received, Receiver};
use cameras::rtp::rtcp::SenderReport;
use cameras::rtsp::{Frame, Wire, sdp};
use cameras::watch::webrtc::stun;
use servers_common::properties::{Property, chosen};

/// What is read in a description is read again in ours.
pub(crate) const DESCRIPTION: Property = Property::new("description", descriptions, description);
/// Samples are the same however their bytes are cut, well formed, and not much larger than these.
pub(crate) const MEDIA: Property = Property::new("media", streams, media);
/// Packets and reports are read as they are written.
pub(crate) const PACKETS: Property = Property::new("packets", packets, packet);

const SPS: &str = "Z2QADazZQUH6EAAAAwAQAAADAyDxQplg";
const PPS: &str = "aOvjyyLA";

fn descriptions() -> Vec<Vec<u8>> {
    let head = "v=0\r\no=- 1 1 IN IP4 192.0.2.1\r\ns=x\r\nc=IN IP4 0.0.0.0\r\nt=0 0\r\n";
    let pictures = format!(
        "m=video 0 RTP/AVP 96\r\na=rtpmap:96 H264/90000\r\na=fmtp:96 packetization-mode=1; \
         profile-level-id=64000D; sprop-parameter-sets={SPS},{PPS}\r\na=control:track1\r\n"
    );
    let sound = "m=audio 0 RTP/AVP 97\r\na=rtpmap:97 mpeg4-generic/48000/2\r\na=fmtp:97 \
         streamtype=5; mode=AAC-hbr; sizelength=13; indexlength=3; indexdeltalength=3; \
         config=1190\r\na=control:track2\r\nm=audio 0 RTP/AVP 8\r\n";
    let others = "m=video 0 RTP/AVP 26\r\nm=audio 0 RTP/AVP 98\r\na=rtpmap:98 opus/48000/2\r\n\
         a=fmtp:98 sprop-stereo=1\r\nm=audio 0 RTP/AVP 99\r\na=rtpmap:99 PCMU/16000/2\r\n\
         m=application 0 RTP/AVP 107\r\na=rtpmap:107 vnd.onvif.metadata/90000\r\n";
    let newer = "m=video 0 RTP/AVP 96\r\na=rtpmap:96 H265/90000\r\na=fmtp:96 \
         sprop-vps=QAEMAf//AWAAAAMAkAAAAwAAAwA8lZgJ; sprop-sps=QgEBAWAAAAMAkAAAAwAAAwA8oAoIDxZZ; \
         sprop-pps=RAHBcrRiQA==; sprop-max-don-diff=2\r\n";
    [
        format!("{head}{pictures}{sound}"),
        format!("{head}{others}"),
        format!("{head}{newer}{sound}"),
    ]
    .map(String::into_bytes)
    .to_vec()
}

fn description(bytes: &[u8]) -> bool {
    let Ok(description) = sdp::read(bytes) else {
        return false;
    };
    assert!((1..=TRACKS_MAX).contains(&description.offers.len()));
    let offers = description.offers.iter();
    let known = offers.filter_map(|offer| {
        let codec = Depacketizer::new(offer.format.clone()).codec()?;
        Some((codec, offer.clock_rate))
    });
    let tracks: Vec<Track> = (0..)
        .zip(known)
        .map(|(id, (codec, clock_rate))| Track {
            id,
            codec,
            clock_rate,
        })
        .collect();
    if tracks.is_empty() {
        return true;
    }
    let text = sdp::write("gate", &tracks);
    let again = sdp::read(text.as_bytes()).unwrap_or_else(|error| panic!("{text}: {error}"));
    assert_eq!(again.offers.len(), tracks.len(), "{text}");
    for (track, offer) in tracks.iter().zip(again.offers) {
        let codec = Depacketizer::new(offer.format).codec();
        assert_eq!(codec.as_ref(), Some(&track.codec), "{text}");
        assert_eq!(offer.clock_rate, track.clock_rate, "{text}");
    }
    if let Ok(init) = Init::of(&tracks) {
        let described = merge::describe(&init.bytes);
        assert!(described.is_ok(), "{text}: {described:?}");
    }
    true
}

/// As streams are packed, of which the first byte chooses one.
fn formats() -> Vec<Format> {
    let sets = |sets: [&'static [u8]; 2]| {
        let [sps, pps] = sets.map(Bytes::from_static);
        Some((sps, pps))
    };
    let aac = |[size_bits, index_bits, delta_bits]: [u32; 3]| Format::Aac {
        config: Bytes::from_static(&[0x11, 0x90]),
        channels: 2,
        size_bits,
        index_bits,
        delta_bits,
    };
    vec![
        Format::H264 {
            sets: sets([&[0x67, 1], &[0x68, 2]]),
        },
        Format::H264 { sets: None },
        Format::H265 {
            sets: None,
            has_order_numbers: false,
        },
        Format::H265 {
            sets: None,
            has_order_numbers: true,
        },
        aac([13, 3, 3]),
        aac([1, 0, 0]),
        aac([32, 32, 32]),
        Format::Opus { channels: 2 },
        Format::G711 {
            law: Law::Mu,
            channels: 2,
        },
        Format::Mjpeg,
    ]
}

/// Payloads, each with the marker or without.
type Payloads = &'static [(&'static [u8], bool)];

/// Payloads of the formats with these numbers.
const PAYLOADS: [(u8, Payloads); 7] = [
    // Sets and a slice together, a slice in three fragments, and a whole one.
    (
        1,
        &[
            (
                &[0x78, 0, 2, 0x67, 1, 0, 2, 0x68, 2, 0, 3, 0x65, 0x88, 7],
                true,
            ),
            (&[0x7c, 0x81, 0x88, 1], false),
            (&[0x7c, 0x01, 2], false),
            (&[0x7c, 0x41, 3], true),
            (&[0x41, 0x9a, 5], true),
        ],
    ),
    (
        2,
        &[
            (
                &[
                    0x60, 1, 0, 3, 0x40, 1, 1, 0, 3, 0x42, 1, 1, 0, 3, 0x44, 1, 1,
                ],
                false,
            ),
            (&[0x26, 1, 0x80, 9], true),
            (&[0x62, 1, 0x81, 0x80, 1], false),
            (&[0x62, 1, 0x41, 2], true),
        ],
    ),
    (
        3,
        &[(
            &[0x60, 1, 0, 1, 0, 3, 0x42, 1, 1, 0, 0, 3, 0x26, 1, 0x80],
            true,
        )],
    ),
    // Two access units, and one in two packets.
    (
        4,
        &[
            (&[0, 32, 0, 3 << 3, 0, 2 << 3, 1, 2, 3, 4, 5], true),
            (&[0, 16, 0, 4 << 3, 1, 2], false),
            (&[0, 16, 0, 4 << 3, 3, 4], true),
        ],
    ),
    (7, &[(&[0xf8, 1, 2], true), (&[0xfb, 0x83, 1], true)]),
    (8, &[(&[1, 2, 3, 4], true)]),
    (
        9,
        &[
            (&[0, 0, 0, 0, 1, 60, 40, 30, 1, 2, 3], false),
            (&[0, 0, 0, 3, 1, 60, 40, 30, 4, 5], true),
            (&[0, 0, 0, 0, 65, 60, 40, 30, 0, 1, 0xff, 0xff, 9], true),
        ],
    ),
];

/// In a connection, on channel 0.
fn streams() -> Vec<Vec<u8>> {
    let stream = |(format, payloads): (u8, Payloads)| {
        let mut stream = vec![format];
        for (sequence, (payload, marker)) in (0_u16..).zip(payloads) {
            let packet = Packet {
                marker: *marker,
                payload_type: 96,
                sequence,
                timestamp: u32::from(sequence / 2) * 3_600,
                ssrc: 1,
                payload: Bytes::copy_from_slice(payload),
            };
            let packet = packet.to_bytes();
            stream.extend([b'$', 0, 0, packet.len() as u8]);
            stream.extend_from_slice(&packet);
        }
        stream
    };
    PAYLOADS.map(stream).to_vec()
}

/// What comes out of a track that comes in these parts.
fn received(format: &Format, parts: &[&[u8]]) -> (Vec<Received>, Receiver) {
    let mut receiver = Receiver::new(0, 96, 90_000, format.clone(), Patience::NONE);
    let (mut wire, mut out) = (Wire::default(), Vec::new());
    for part in parts {
        wire.buffer().extend_from_slice(part);
        while let Ok(Some(frame)) = wire.frame() {
            if let Frame::Packet { channel: 0, bytes } = frame {
                // The next one may be good.
                let _ = receiver.receive(&bytes, Duration::ZERO, &mut out);
            }
        }
    }
    (out, receiver)
}

fn media(bytes: &[u8]) -> bool {
    let Some((&first, bytes)) = bytes.split_first() else {
        return false;
    };
    let formats = formats();
    let format = &formats[usize::from(first) % formats.len()];
    let (whole, receiver) = received(format, &[bytes]);
    let (one, two) = bytes.split_at(chosen(bytes, bytes.len() + 1));
    let (cut, again) = received(format, &[one, two]);
    let shown = bytes.escape_ascii();
    assert_eq!(whole, cut, "{format:?}: {shown}");
    assert_eq!(receiver.counts(), again.counts(), "{format:?}: {shown}");
    let samples: Vec<&Sample> = whole
        .iter()
        .filter_map(|received| match received {
            Received::Sample(sample) => Some(sample),
            Received::Codec(_) => None,
        })
        .collect();
    let mut before = None;
    let (mut len, mut footprint) = (0, 0);
    for sample in &samples {
        assert!(
            before < Some(sample.dts),
            "{format:?}: {shown}: {samples:?}"
        );
        before = Some(sample.dts);
        check_data(format, sample);
        len += sample.data.len();
        footprint += sample.data.footprint();
    }
    // Each NAL unit has a length before it, each file of JPEG a head. An access unit of one byte
    // costs what each sample does.
    assert!(
        len <= 4 * bytes.len() + 1_000 * samples.len(),
        "{format:?}: {shown}"
    );
    assert!(samples.len() <= bytes.len());
    assert!(
        footprint <= 200 * bytes.len() + 2_000 * samples.len(),
        "{format:?}: {shown}"
    );
    !whole.is_empty()
}

fn check_data(format: &Format, sample: &Sample) {
    let data = sample.data.joined();
    assert!(!data.is_empty() && data.len() <= SAMPLE_MAX + 1_000);
    assert_eq!(data.len(), sample.data.len());
    match format {
        Format::H264 { .. } | Format::H265 { .. } => {
            let mut rest = &data[..];
            while let Some((len, after)) = rest.split_first_chunk::<4>() {
                let len = u32::from_be_bytes(*len) as usize;
                assert!((1..=after.len()).contains(&len), "{data:?}");
                rest = &after[len..];
            }
            assert!(rest.is_empty(), "{data:?}");
        }
        Format::Mjpeg => {
            assert!(data.starts_with(&[0xff, 0xd8]) && data.ends_with(&[0xff, 0xd9]));
        }
        _ => assert!(sample.is_key && sample.duration.is_some()),
    }
}

fn packets() -> Vec<Vec<u8>> {
    let report = SenderReport {
        ssrc: 1,
        ntp: 2 << 32 | 3,
        timestamp: 4,
        packets: 5,
        bytes: 6,
    };
    let mut packet = vec![0xb2, 0xe0, 0x12, 0x34, 0, 0, 0, 1, 0, 0, 0, 2];
    packet.extend([9; 8]);
    packet.extend([0, 0, 0, 1, 8, 8, 8, 8]);
    packet.extend([1, 2, 3, 0, 0, 3]);
    let mut question = vec![0, 1, 0, 16, 0x21, 0x12, 0xa4, 0x42];
    question.extend([7; 12]);
    question.extend([0, 6, 0, 9]);
    question.extend(b"one:other\0\0\0");
    vec![report.write(), packet, question]
}

fn packet(bytes: &[u8]) -> bool {
    let mut is_taken = false;
    if let Ok(packet) = Packet::parse(&Bytes::copy_from_slice(bytes)) {
        assert_eq!(Packet::parse(&packet.to_bytes()), Ok(packet));
        is_taken = true;
    }
    if let Some(report) = SenderReport::parse(bytes) {
        assert_eq!(SenderReport::parse(&report.write()), Some(report));
        is_taken = true;
    }
    if let Some(asked) = stun::asked(bytes) {
        let mut parts = bytes.windows(asked.len() + 1);
        let named = [asked.as_bytes(), b":"].concat();
        assert!(parts.any(|part| part == named), "{asked:?}");
        is_taken = true;
    }
    is_taken
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use cameras::media::Codec;

    use super::*;

    /// The samples of each codec, by its name.
    fn codecs() -> BTreeMap<&'static str, usize> {
        let mut seen = BTreeMap::new();
        for stream in streams() {
            let format = &formats()[usize::from(stream[0])];
            let (out, receiver) = received(format, &[&stream[1..]]);
            let samples = out.iter().filter(|it| matches!(it, Received::Sample(_)));
            let name = receiver.codec().as_ref().map_or("none", Codec::name);
            *seen.entry(name).or_default() += samples.count();
        }
        seen
    }

    #[test]
    fn samples_of_every_codec_are_begun_with() {
        let seen = codecs();
        for name in ["H.264", "H.265", "AAC", "Opus", "G.711 mu-law", "MJPEG"] {
            assert!(seen.get(name) > Some(&0), "{name}: {seen:?}");
        }
    }
}
