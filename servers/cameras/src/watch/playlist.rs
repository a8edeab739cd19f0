//! What HLS calls the newest parts (RFC 8216, and the second edition's draft for parts). Pure.

use std::fmt::Write;

use super::window::{Segment, Window};

/// The shortest target duration. A longer one is announced once a camera's key frames are rarer.
const TARGET_MIN_S: i64 = 4;
/// Of how many of the newest segments the parts are named.
const SEGMENTS_WITH_PARTS: usize = 3;
/// What parts may last at most, as it is announced: a picture of a camera that sends two a second.
pub const PART_TARGET_US: i64 = 500_000;

/// The longest segment that the playlist announces, in seconds.
pub fn target_s(window: &Window) -> i64 {
    // Rounded to the nearest second, as the standard counts.
    ((window.longest_us() + 500_000) / 1_000_000).max(TARGET_MIN_S)
}

/// The playlist of the newest segments, with their parts. Addresses are relative to it. `None` if
/// there are none.
pub fn media(window: &Window) -> Option<String> {
    let first = window.segments().next()?;
    let mut text = String::with_capacity(4096);
    let part_target = seconds(PART_TARGET_US);
    let hold_back = seconds(PART_TARGET_US * 3);
    let target = target_s(window);
    // Writing to a string cannot fail.
    _ = write!(
        text,
        "#EXTM3U\n#EXT-X-VERSION:9\n#EXT-X-TARGETDURATION:{target}\n#EXT-X-SERVER-CONTROL:\
         CAN-BLOCK-RELOAD=YES,PART-HOLD-BACK={hold_back}\n#EXT-X-PART-INF:PART-TARGET=\
         {part_target}\n#EXT-X-MEDIA-SEQUENCE:{}\n#EXT-X-DISCONTINUITY-SEQUENCE:{}\n",
        first.number,
        window.discontinuities_gone(),
    );
    let with_parts = window.segments().len().saturating_sub(SEGMENTS_WITH_PARTS);
    let mut last_head = None;
    for (place, segment) in window.segments().enumerate() {
        let Some(head) = segment.parts.first().map(|placed| &placed.head) else {
            continue;
        };
        if segment.is_discontinuous && place > 0 {
            text.push_str("#EXT-X-DISCONTINUITY\n");
        }
        if last_head != Some(head) {
            _ = writeln!(text, "#EXT-X-MAP:URI=\"live/{}/init.mp4\"", segment.number);
            last_head = Some(head);
        }
        _ = writeln!(
            text,
            "#EXT-X-PROGRAM-DATE-TIME:{}",
            time(segment.start_us())
        );
        if place >= with_parts {
            parts(&mut text, segment);
        }
        if segment.is_complete {
            let duration = seconds(segment.duration_us());
            _ = writeln!(text, "#EXTINF:{duration},\nlive/{}.m4s", segment.number);
        }
    }
    Some(text)
}

fn parts(text: &mut String, segment: &Segment) {
    for (place, placed) in segment.parts.iter().enumerate() {
        let duration = seconds(placed.part.duration_us);
        let key = if placed.part.is_key {
            ",INDEPENDENT=YES"
        } else {
            ""
        };
        _ = writeln!(
            text,
            "#EXT-X-PART:DURATION={duration},URI=\"live/{}/{place}.m4s\"{key}",
            segment.number
        );
    }
}

/// A playlist that names the one of the parts, with the codecs that a player has to know first.
pub fn multivariant(codecs: &str, bits_per_second: u64, name: &str) -> String {
    format!(
        "#EXTM3U\n#EXT-X-VERSION:9\n#EXT-X-STREAM-INF:BANDWIDTH={bits_per_second},\
         CODECS=\"{codecs}\"\n{name}\n"
    )
}

fn seconds(us: i64) -> String {
    format!("{}.{:06}", us / 1_000_000, us % 1_000_000)
}

fn time(us: i64) -> String {
    let time = jiff::Timestamp::from_microsecond(us).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    time.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string()
}

#[cfg(test)]
mod tests;
