//! A playlist, line by line.

use bytes::Bytes;

use super::*;
use crate::watch::parts::{Head, Part};

fn window() -> Window {
    let head = |name: &str| Head {
        init: Bytes::copy_from_slice(name.as_bytes()),
        kind: String::new(),
        codecs: String::new(),
    };
    let mut window = Window::default();
    window.begin(head("a"));
    let push = |window: &mut Window, place: i64, is_key| {
        let part = Part {
            bytes: Bytes::from_static(b"part"),
            start_us: 1_764_162_300_000_000 + place * 1_000_000,
            duration_us: 1_000_000,
            is_key,
        };
        window.push(part, usize::MAX);
    };
    for place in 0..9 {
        push(&mut window, place, place % 2 == 0);
    }
    window.begin(head("b"));
    push(&mut window, 60, true);
    window
}

#[test]
fn the_playlist_names_segments_parts_and_changes() {
    let text = media(&window()).unwrap();
    let expected = "\
#EXTM3U
#EXT-X-VERSION:9
#EXT-X-TARGETDURATION:4
#EXT-X-SERVER-CONTROL:CAN-BLOCK-RELOAD=YES,PART-HOLD-BACK=1.500000
#EXT-X-PART-INF:PART-TARGET=0.500000
#EXT-X-MEDIA-SEQUENCE:1
#EXT-X-DISCONTINUITY-SEQUENCE:0
#EXT-X-MAP:URI=\"live/1/init.mp4\"
#EXT-X-PROGRAM-DATE-TIME:2025-11-26T13:05:00.000Z
#EXTINF:2.000000,
live/1.m4s
#EXT-X-PROGRAM-DATE-TIME:2025-11-26T13:05:02.000Z
#EXTINF:2.000000,
live/2.m4s
#EXT-X-PROGRAM-DATE-TIME:2025-11-26T13:05:04.000Z
#EXTINF:2.000000,
live/3.m4s
#EXT-X-PROGRAM-DATE-TIME:2025-11-26T13:05:06.000Z
#EXT-X-PART:DURATION=1.000000,URI=\"live/4/0.m4s\",INDEPENDENT=YES
#EXT-X-PART:DURATION=1.000000,URI=\"live/4/1.m4s\"
#EXTINF:2.000000,
live/4.m4s
#EXT-X-PROGRAM-DATE-TIME:2025-11-26T13:05:08.000Z
#EXT-X-PART:DURATION=1.000000,URI=\"live/5/0.m4s\",INDEPENDENT=YES
#EXTINF:1.000000,
live/5.m4s
#EXT-X-DISCONTINUITY
#EXT-X-MAP:URI=\"live/6/init.mp4\"
#EXT-X-PROGRAM-DATE-TIME:2025-11-26T13:06:00.000Z
#EXT-X-PART:DURATION=1.000000,URI=\"live/6/0.m4s\",INDEPENDENT=YES
";
    assert_eq!(text, expected);
    assert_eq!(media(&Window::default()), None);
}
