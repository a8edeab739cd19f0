//! What the packetizer cuts is put together again: whole, in any order within patience, and beside
//! losses without anything that is damaged.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use proptest::prelude::*;

use super::*;
use crate::media::{Data, Sample, Track};
use crate::rtp::order::Patience;
use crate::rtp::packet::Packet;
use crate::rtp::packetizer::{Framing, Packetizer};
use crate::rtp::receiver::{Received, Receiver};

/// Keeps the packets apart.
#[derive(Default)]
struct Apart(Vec<Bytes>);

impl Framing for Apart {
    fn begin(&mut self, _out: &mut BytesMut, _len: usize) {}

    fn end(&mut self, out: &mut BytesMut) {
        self.0.push(out.split().freeze());
    }
}

fn h264() -> (Codec, Format) {
    let (sps, pps) = (
        Bytes::from_static(&[0x67, 1]),
        Bytes::from_static(&[0x68, 2]),
    );
    let format = Format::H264 {
        sets: Some((sps.clone(), pps.clone())),
    };
    (Codec::H264 { sps, pps }, format)
}

fn h265() -> (Codec, Format) {
    let [vps, sps, pps] = [[0x40, 1], [0x42, 1], [0x44, 1]].map(|set| Bytes::copy_from_slice(&set));
    let format = Format::H265 {
        sets: Some((vps.clone(), sps.clone(), pps.clone())),
        has_order_numbers: false,
    };
    (Codec::H265 { vps, sps, pps }, format)
}

fn aac() -> (Codec, Format) {
    let config = Bytes::from_static(&[0x11, 0x90]);
    let format = Format::Aac {
        config: config.clone(),
        channels: 2,
        size_bits: 13,
        index_bits: 3,
        delta_bits: 3,
    };
    (
        Codec::Aac {
            config,
            channels: 2,
        },
        format,
    )
}

fn g711() -> (Codec, Format) {
    let (law, channels) = (Law::A, 1);
    (
        Codec::G711 { law, channels },
        Format::G711 { law, channels },
    )
}

/// A picture of NAL units of these lengths. `head` is the units' type; the first slice says so.
fn picture(codec: &Codec, lens: &[usize], is_key: bool) -> (Vec<u8>, bool) {
    let mut data = Vec::new();
    for (index, &len) in lens.iter().enumerate() {
        let first = if index == 0 { 0x80 } else { 0 };
        let unit = match codec {
            Codec::H264 { .. } => vec![if is_key { 0x65 } else { 0x41 }, first | 1],
            _ => vec![if is_key { 19 << 1 } else { 1 << 1 }, 1, first | 1],
        };
        data.extend(((unit.len() + len) as u32).to_be_bytes());
        data.extend(&unit);
        data.extend((0..len).map(|place| (place * 7 + index) as u8));
    }
    (data, is_key)
}

fn samples(codec: &Codec, shapes: &[(Vec<usize>, bool)]) -> Vec<Sample> {
    let sample = |(index, (lens, is_key)): (usize, &(Vec<usize>, bool))| {
        let is_video = codec.is_video();
        let (data, is_key) = if is_video {
            picture(codec, lens, *is_key)
        } else {
            let len = lens[0].clamp(1, 8_000);
            (
                (0..len).map(|place| (place * 3 + index) as u8).collect(),
                true,
            )
        };
        Sample {
            track: 0,
            dts: 1_024 * index as i64,
            pts_offset: 0,
            duration: None,
            is_key,
            data: Data::new(vec![data.into()]),
        }
    };
    shapes.iter().enumerate().map(sample).collect()
}

/// Each sample's packets. Numbers and times wrap soon.
fn packets(codec: &Codec, samples: &[Sample]) -> Vec<Vec<Bytes>> {
    let track = Track {
        id: 0,
        codec: codec.clone(),
        clock_rate: 90_000,
    };
    let random = [1, 2, 3, 4, 0xff, 0xf8, 0xff, 0xff, 0xf8, 0];
    let mut packetizer = Packetizer::new(&track, 96, random);
    let cut = |sample: &Sample| {
        let mut apart = Apart::default();
        packetizer.write(sample, &mut apart, &mut BytesMut::new());
        apart.0
    };
    samples.iter().map(cut).collect()
}

fn receive(format: Format, patience: Patience, packets: &[Bytes]) -> (Receiver, Vec<Sample>) {
    let mut receiver = Receiver::new(0, 96, 90_000, format, patience);
    let mut out = Vec::new();
    for packet in packets {
        let _ = receiver.receive(packet, Duration::ZERO, &mut out);
    }
    for round in 1..1_000 {
        let _ = receiver.expire(Duration::from_secs(round), &mut out);
    }
    let sample = |received| match received {
        Received::Sample(sample) => Some(sample),
        Received::Codec(_) => None,
    };
    (receiver, out.into_iter().filter_map(sample).collect())
}

fn bytes_of(samples: &[Sample]) -> Vec<Bytes> {
    samples.iter().map(|sample| sample.data.joined()).collect()
}

fn shapes() -> impl Strategy<Value = Vec<(Vec<usize>, bool)>> {
    let lens = prop::collection::vec(0..4_000_usize, 1..4);
    prop::collection::vec((lens, any::<bool>()), 1..30)
}

proptest! {
    #[test]
    fn what_was_cut_is_put_together(shapes in shapes(), which in 0..3_usize) {
        let (codec, format) = [h264(), h265(), aac()][which].clone();
        let sent = samples(&codec, &shapes);
        let packets = packets(&codec, &sent).concat();
        let (receiver, received) = receive(format, Patience::NONE, &packets);
        prop_assert_eq!(bytes_of(&received), bytes_of(&sent));
        let first = received[0].dts;
        for (received, sent) in received.iter().zip(&sent) {
            prop_assert_eq!(received.dts - first, sent.dts);
            prop_assert_eq!(received.is_key, sent.is_key);
        }
        prop_assert_eq!(receiver.counts().dropped, 0);
        prop_assert_eq!(receiver.counts().malformed, 0);
    }

    #[test]
    fn packets_that_overtake_each_other_are_put_together(
        shapes in shapes(),
        keys in prop::collection::vec(0..8_usize, 500),
        which in 0..3_usize,
    ) {
        let (codec, format) = [h264(), h265(), aac()][which].clone();
        let sent = samples(&codec, &shapes);
        let all = packets(&codec, &sent).concat();
        let mut order: Vec<usize> = (0..all.len()).collect();
        // The first one says where numbers begin.
        order.sort_by_key(|&place| match place {
            0 => 0,
            _ => 1 + place + keys[place % keys.len()],
        });
        let shaken: Vec<Bytes> = order.iter().map(|&place| all[place].clone()).collect();
        let (receiver, received) = receive(format, Patience::DATAGRAMS, &shaken);
        prop_assert_eq!(bytes_of(&received), bytes_of(&sent));
        prop_assert_eq!(receiver.counts().packets.lost, 0);
    }

    /// What comes out is what was sent, bit by bit, and only what a loss has touched is missing.
    #[test]
    fn losses_take_what_they_touch_and_nothing_else(
        shapes in shapes(),
        lost in prop::collection::btree_set(0..200_usize, 0..20),
        which in 0..3_usize,
    ) {
        let (codec, format) = [h264(), h265(), aac()][which].clone();
        let sent = samples(&codec, &shapes);
        let cut = packets(&codec, &sent);
        let (mut kept, mut whole, mut number) = (Vec::new(), Vec::new(), 0);
        for (sample, packets) in sent.iter().zip(&cut) {
            let before = kept.len();
            for packet in packets {
                // The first packet says where numbers begin.
                if number == 0 || !lost.contains(&number) {
                    kept.push(packet.clone());
                }
                number += 1;
            }
            if kept.len() - before == packets.len() {
                whole.push(sample.data.joined());
            }
        }
        let (receiver, received) = receive(format, Patience::NONE, &kept);
        prop_assert_eq!(bytes_of(&received), whole);
        let last = kept.last().map(|last| Packet::parse(last).unwrap().sequence);
        let cut = cut.concat();
        let sequence = |packet: &Bytes| Some(Packet::parse(packet).unwrap().sequence);
        let seen = cut.iter().position(|packet| sequence(packet) == last).unwrap() + 1;
        prop_assert_eq!(receiver.counts().packets.lost, (seen - kept.len()) as u64);
    }

    #[test]
    fn nonsense_does_no_harm(
        payloads in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..60), 0..60),
        marks in any::<u64>(),
        which in 0..6_usize,
    ) {
        let opus = Format::Opus { channels: 2 };
        let formats = [h264().1, h265().1, aac().1, g711().1, opus, Format::Mjpeg];
        let packets: Vec<Bytes> = payloads.into_iter().enumerate().map(|(place, payload)| Packet {
            marker: marks >> (place % 64) & 1 == 1,
            payload_type: 96,
            sequence: place as u16,
            timestamp: (marks >> (place % 60) & 3) as u32,
            ssrc: 1,
            payload: payload.into(),
        }.to_bytes()).collect();
        let (_, received) = receive(formats[which].clone(), Patience::NONE, &packets);
        for sample in received {
            prop_assert!(!sample.data.is_empty());
        }
    }
}

fn one(format: Format, payloads: &[(&[u8], bool)]) -> (Vec<Unit>, Vec<Malformed>, Depacketizer) {
    let mut depacketizer = Depacketizer::new(format);
    let (mut units, mut errors) = (Vec::new(), Vec::new());
    for (sequence, (payload, marker)) in (0..).zip(payloads) {
        let packet = Packet {
            marker: *marker,
            payload_type: 96,
            sequence,
            timestamp: 7,
            ssrc: 1,
            payload: Bytes::copy_from_slice(payload),
        };
        let ordered = Ordered {
            packet,
            after_loss: false,
        };
        if let Err(error) = depacketizer.push(&ordered, &mut units) {
            errors.push(error);
        }
    }
    (units, errors, depacketizer)
}

/// Sets in the stream are taken out of pictures, and told where they change.
#[test]
fn parameter_sets_that_change_are_told_with_their_key_frame() {
    let (_, format) = h264();
    let aggregate = |sps: u8| {
        let mut payload = vec![24, 0, 2, 0x67, sps, 0, 2, 0x68, 2];
        payload.extend([0, 3, 0x65, 0x80, 9]);
        payload
    };
    let (same, other) = (aggregate(1), aggregate(5));
    let slice = [0x41, 0x80, 3];
    let (units, errors, depacketizer) = one(
        format,
        &[
            (&same, true),
            (&slice, true),
            (&other, true),
            (&other, true),
        ],
    );
    assert_eq!(errors, []);
    let told: Vec<bool> = units.iter().map(|unit| unit.codec.is_some()).collect();
    assert_eq!(told, [false, false, true, false]);
    assert_eq!(*units[2].data.joined(), [0, 0, 0, 3, 0x65, 0x80, 9]);
    let Some(Codec::H264 { sps, .. }) = depacketizer.codec() else {
        panic!("there are sets");
    };
    assert_eq!(*sps, [0x67, 5]);
}

/// Sets that come between pictures hold from the next key frame on.
#[test]
fn parameter_sets_that_come_by_themselves_are_kept() {
    let (units, errors, _) = one(
        Format::H264 { sets: None },
        &[
            (&[0x41, 0x80, 1], true),
            (&[0x67, 9, 9], false),
            (&[0x68, 8], true),
            (&[0x65, 0x80, 2], true),
        ],
    );
    assert_eq!(errors, []);
    assert_eq!(units.len(), 2);
    let codec = units[1].codec.clone();
    let Some(Codec::H264 { sps, pps }) = codec else {
        panic!("{codec:?}");
    };
    assert_eq!((&*sps, &*pps), (&[0x67, 9, 9][..], &[0x68, 8][..]));
}

/// Bytes are slices of what came: only heads are new.
#[test]
fn fragments_are_not_copied() {
    let (_, format) = h264();
    let mut depacketizer = Depacketizer::new(format);
    let first = Bytes::from(vec![0x7c, 0x85, 0x80, 1, 2, 3]);
    let last = Bytes::from(vec![0x7c, 0x45, 4, 5, 6]);
    let mut units = Vec::new();
    for (payload, marker) in [(&first, false), (&last, true)] {
        let packet = Packet {
            marker,
            payload_type: 96,
            sequence: 0,
            timestamp: 0,
            ssrc: 0,
            payload: payload.clone(),
        };
        let after_loss = false;
        depacketizer
            .push(&Ordered { packet, after_loss }, &mut units)
            .unwrap();
    }
    let [head, one, two] = units[0].data.slices() else {
        panic!("{units:?}");
    };
    assert_eq!(**head, [0, 0, 0, 8, 0x65]);
    assert_eq!(one.as_ptr(), first[2..].as_ptr());
    assert_eq!(two.as_ptr(), last[2..].as_ptr());
}

#[test]
fn payloads_that_do_not_fit_together_are_refused() {
    let (_, format) = h264();
    let cases: [&[(&[u8], bool)]; 6] = [
        &[(&[], true)],
        &[(&[24, 0, 9, 1], true)],
        &[(&[28], true)],
        &[(&[26, 0, 0], true)],
        &[(&[0x7c, 0x05, 1], true)],
        &[(&[0x7c, 0x85, 1], false), (&[0x7c, 0x85, 1], true)],
    ];
    for payloads in cases {
        let (units, errors, depacketizer) = one(format.clone(), payloads);
        assert_eq!(units, []);
        assert_eq!(errors.len(), 1, "{payloads:?}");
        assert_eq!(depacketizer.dropped(), 1);
    }
}

/// A picture without end is given up, and what follows is received.
#[test]
fn a_sample_has_a_largest_size() {
    let (_, format) = h264();
    let mut depacketizer = Depacketizer::new(format);
    let mut units = Vec::new();
    let mut outcome = Ok(());
    let part = Bytes::from(vec![0x1c; 60_000]);
    let packet = |payload: Bytes, timestamp, marker| Ordered {
        packet: Packet {
            marker,
            payload_type: 96,
            sequence: 0,
            timestamp,
            ssrc: 0,
            payload,
        },
        after_loss: false,
    };
    let begin = Bytes::from_static(&[0x7c, 0x85, 0x80]);
    depacketizer
        .push(&packet(begin, 1, false), &mut units)
        .unwrap();
    for _ in 0..=SAMPLE_MAX / 60_000 {
        let mut payload = part.to_vec();
        payload[1] = 0x05;
        outcome = outcome.and(depacketizer.push(&packet(payload.into(), 1, false), &mut units));
    }
    assert!(
        matches!(outcome, Err(Malformed::Large { .. })),
        "{outcome:?}"
    );
    let next = Bytes::from_static(&[0x65, 0x80, 1]);
    depacketizer
        .push(&packet(next, 2, true), &mut units)
        .unwrap();
    assert_eq!(units.len(), 1);
    assert_eq!(depacketizer.dropped(), 1);
}

#[test]
fn several_access_units_in_a_packet_have_times_of_their_own() {
    let (_, format) = aac();
    // Two units, of 3 and 2 bytes.
    let payload = [0, 32, 0, 3 << 3, 0, 2 << 3, 1, 2, 3, 4, 5];
    let (units, errors, _) = one(format.clone(), &[(&payload, true)]);
    assert_eq!(errors, []);
    let shown: Vec<_> = units
        .iter()
        .map(|unit| (unit.timestamp, unit.data.joined()))
        .collect();
    assert_eq!(shown[0], (7, Bytes::from_static(&[1, 2, 3])));
    assert_eq!(shown[1], (7 + 1_024, Bytes::from_static(&[4, 5])));
    assert_eq!(units[0].duration, Some(1_024));
    let (_, errors, _) = one(format, &[(&payload[..10], true)]);
    assert_eq!(errors.len(), 1);
}

/// A picture of JPEG goes through packets with its tables, and comes out as a file that says the
/// same.
#[test]
fn a_picture_of_jpeg_is_a_file_again() {
    let scan: Vec<u8> = (0..5_000_u32).map(|byte| (byte % 200) as u8).collect();
    let mut first = vec![0, 0, 0, 0, 1, 60, 40, 30];
    first.extend(&scan);
    let (units, errors, depacketizer) = one(Format::Mjpeg, &[(&first, true)]);
    assert_eq!(errors, []);
    let codec = depacketizer.codec().unwrap();
    assert_eq!(codec.size(), Some((320, 240)));
    let file = units[0].data.joined();
    assert!(file.starts_with(&[0xff, 0xd8]) && file.ends_with(&[0xff, 0xd9]));
    let sample = Sample {
        track: 0,
        dts: 0,
        pts_offset: 0,
        duration: None,
        is_key: true,
        data: units[0].data.clone(),
    };
    let packets = packets(&codec, std::slice::from_ref(&sample)).concat();
    assert!(packets.len() > 3);
    let (_, received) = receive(Format::Mjpeg, Patience::NONE, &packets);
    assert_eq!(received[0].data.joined(), file);
}

/// A sample in pieces of one byte would cost far more than its bytes.
#[test]
fn a_sample_has_a_largest_number_of_pieces() {
    let jpeg = |offset: u32| {
        let [_, o1, o2, o3] = offset.to_be_bytes();
        vec![0, o1, o2, o3, 1, 60, 40, 30, 7]
    };
    // One access unit of 30 000 bytes, of which each payload brings one.
    let aac_piece = vec![0, 32, 0x75, 0x30, 0, 0, 7];
    let (_, Format::Aac { config, .. }) = aac() else {
        panic!("it is of AAC");
    };
    let wide = Format::Aac {
        config,
        channels: 2,
        size_bits: 16,
        index_bits: 16,
        delta_bits: 0,
    };
    for (format, payloads) in [
        (Format::Mjpeg, (0..5_000).map(jpeg).collect::<Vec<_>>()),
        (wide, vec![aac_piece; 5_000]),
    ] {
        let payloads: Vec<(&[u8], bool)> = payloads.iter().map(|it| (&it[..], false)).collect();
        let (_, errors, depacketizer) = one(format.clone(), &payloads[..PIECES_MAX]);
        assert_eq!((errors.len(), depacketizer.dropped()), (0, 0), "{format:?}");
        let (_, errors, depacketizer) = one(format.clone(), &payloads);
        assert!(!errors.is_empty(), "{format:?}");
        assert_eq!(depacketizer.dropped(), 1, "{format:?}");
    }
    // As many access units as there may be in a payload, and one more.
    for units in [512_usize, 513] {
        let bits = (units * 16) as u16;
        let mut payload = bits.to_be_bytes().to_vec();
        payload.extend([0, 8].repeat(units));
        payload.extend(vec![7; units]);
        let (made, errors, _) = one(aac().1, &[(&payload, true)]);
        let expected = if units == 512 { (512, 0) } else { (0, 1) };
        assert_eq!((made.len(), errors.len()), expected);
    }
}
