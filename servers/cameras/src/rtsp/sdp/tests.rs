//! Descriptions of cameras, and what is written is read again.

use super::*;
use proptest::prelude::*;

#[test]
fn a_description_of_a_camera_is_read() {
    let text = "v=0\r\no=- 1 1 IN IP4 192.0.2.1\r\ns=Media Presentation\r\nt=0 0\r\n\
        a=control:rtsp://192.0.2.1:554/stream/\r\n\
        m=video 0 RTP/AVP 96\r\na=rtpmap:96 H264/90000\r\n\
        a=fmtp:96 profile-level-id=640028; packetization-mode=1; \
        sprop-parameter-sets=Z2QAKKzZQHgCJ+XARAAAAwAEAAADAMg8YMZY,aOvjyyLA\r\n\
        a=control:trackID=1\r\n\
        m=audio 0 RTP/AVP 8\r\na=control:trackID=2\r\n\
        m=audio 0 RTP/AVP 97\r\na=rtpmap:97 MPEG4-GENERIC/16000/1\r\n\
        a=fmtp:97 streamtype=5;mode=AAC-hbr;config=1408;sizeLength=13;indexLength=3;\
        indexDeltaLength=3\r\na=control:trackID=3\r\n\
        m=application 0 RTP/AVP 107\r\na=rtpmap:107 vnd.onvif.metadata/90000\r\n";
    let read = read(text.as_bytes()).unwrap();
    assert_eq!(
        read.control.as_deref(),
        Some("rtsp://192.0.2.1:554/stream/")
    );
    assert_eq!(read.unused, ["application vnd.onvif.metadata"]);
    let [video, g711, aac] = &read.offers[..] else {
        panic!("{read:?}");
    };
    assert_eq!((video.payload_type, video.clock_rate), (96, 90_000));
    assert_eq!(video.control, "trackID=1");
    let Format::H264 {
        sets: Some((sps, pps)),
    } = &video.format
    else {
        panic!("{video:?}");
    };
    assert_eq!((sps[0], pps[0]), (0x67, 0x68));
    assert_eq!((g711.payload_type, g711.clock_rate), (8, 8_000));
    assert!(matches!(
        g711.format,
        Format::G711 {
            law: Law::A,
            channels: 1
        }
    ));
    assert!(matches!(
        aac.format,
        Format::Aac {
            channels: 1,
            size_bits: 13,
            ..
        }
    ));
}

#[test]
fn what_is_of_no_use_is_named() {
    let text = "v=0\r\ns=x\r\nm=video 0 RTP/AVP 96\r\na=rtpmap:96 VP9/90000\r\n";
    let error = read(text.as_bytes()).unwrap_err();
    assert!(error.to_string().contains("video VP9"), "{error}");
    assert!(matches!(read(b"nonsense"), Err(SdpError::Read(_))));
    assert!(matches!(read(b"v=0\r\ns=x\r\n"), Err(SdpError::Useless(_))));
}

#[test]
fn what_is_written_is_read_again() {
    let bytes = |bytes: &'static [u8]| Bytes::from_static(bytes);
    let codecs = [
        Codec::H264 {
            sps: bytes(&[0x67, 66, 0, 30]),
            pps: bytes(&[0x68, 1]),
        },
        Codec::H265 {
            vps: bytes(&[0x40, 1]),
            sps: bytes(&[0x42, 1]),
            pps: bytes(&[0x44, 1]),
        },
        Codec::Aac {
            config: bytes(&[0x11, 0x90]),
            channels: 2,
        },
        Codec::Opus { channels: 2 },
        Codec::G711 {
            law: Law::Mu,
            channels: 1,
        },
    ];
    let track = |(id, codec): (u8, &Codec)| Track {
        id,
        codec: codec.clone(),
        clock_rate: if codec.is_video() { 90_000 } else { 48_000 },
    };
    let tracks: Vec<Track> = (0..).zip(&codecs).map(track).collect();
    let read = read(write("gate", &tracks).as_bytes()).unwrap();
    assert_eq!(read.offers.len(), tracks.len());
    for (offer, track) in read.offers.iter().zip(&tracks) {
        let again = crate::rtp::Depacketizer::new(offer.format.clone());
        assert_eq!(again.codec().as_ref(), Some(&track.codec));
        assert_eq!(offer.clock_rate, track.clock_rate);
        assert_eq!(offer.payload_type, payload_type(track));
    }
}

proptest! {
    #[test]
    fn nonsense_does_no_harm(
        lines in prop::collection::vec(
            "(m=video 0 RTP/AVP [0-9]{1,3}|a=(rtpmap|fmtp|control):.*)",
            0..12,
        ),
    ) {
        let text = format!("v=0\r\ns=x\r\n{}\r\n", lines.join("\r\n"));
        let _ = read(text.as_bytes());
    }
}
