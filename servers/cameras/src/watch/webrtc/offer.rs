//! What a browser offers, of its description (SDP, RFC 8866 and RFC 8829).
//!
//! The description itself is read by the library of WebRTC. Here stands what decides which of its
//! formats are taken, and what of it the library is not to see: its addresses, since browsers are
//! answered where they ask from, and media that are not sent.

use std::fmt::Write;

/// Sections of a description: each costs memory for as long as the session lasts.
const SECTIONS_MAX: usize = 16;
/// Stands in sections for which nothing is sent.
const IDLE: &str = "a=inactive\r\n";

/// A description.
#[derive(Debug)]
pub struct Offer<'a> {
    lines: Vec<&'a str>,
    /// What it offers to take or to send.
    pub sections: Vec<Section>,
}

/// Pictures, sound or something else.
#[derive(Debug)]
pub struct Section {
    /// The place of its `m=` among the lines.
    at: usize,
    /// `video`, `audio` or something else.
    pub kind: String,
    /// Its name.
    pub mid: String,
    /// What it can have, in the order in which it is wanted.
    pub formats: Vec<Format>,
    /// Whether the browser takes it.
    pub takes: bool,
}

/// An encoding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Format {
    /// The payload type.
    pub number: u8,
    /// The encoding's name.
    pub name: String,
    /// Ticks a second.
    pub clock_rate: u32,
    /// How many channels.
    pub channels: u8,
    /// More about it, as `a=fmtp` has it.
    pub parameters: String,
}

/// Why a text is no offer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OfferError {
    /// It is something else.
    #[error("the body is no description: SDP begins with the line `v=0`")]
    NotSdp,
    /// A line cannot be read.
    #[error("the description cannot be read at {0:?}")]
    Line(String),
    /// It is of nothing.
    #[error("the description has no media; offer to receive video, audio or both")]
    Empty,
    /// It is of too much.
    #[error("the description has {0} media; {SECTIONS_MAX} at most are taken")]
    TooMany(usize),
}

impl Format {
    /// One of its parameters.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        self.parameters.split(';').find_map(|pair| {
            let (found, value) = pair.split_once('=')?;
            (found.trim().eq_ignore_ascii_case(name)).then(|| value.trim())
        })
    }

    /// Whether it is of this encoding.
    pub fn is(&self, name: &str, clock_rate: u32) -> bool {
        self.name.eq_ignore_ascii_case(name) && self.clock_rate == clock_rate
    }
}

impl<'a> Offer<'a> {
    /// Reads a description.
    ///
    /// # Errors
    ///
    /// [`OfferError`].
    pub fn read(text: &'a str) -> Result<Self, OfferError> {
        let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
        if lines.first() != Some(&"v=0") {
            return Err(OfferError::NotSdp);
        }
        let mut sections: Vec<Section> = Vec::new();
        let mut takes = true;
        for (at, &line) in lines.iter().enumerate() {
            let bad = || OfferError::Line(line.chars().take(80).collect());
            if let Some(media) = line.strip_prefix("m=") {
                sections.push(section(at, media, takes).ok_or_else(bad)?);
            } else if let Some(attribute) = line.strip_prefix("a=") {
                match sections.last_mut() {
                    Some(section) => section.attribute(attribute).ok_or_else(bad)?,
                    None => takes = direction(attribute).unwrap_or(takes),
                }
            }
        }
        match sections.len() {
            0 => Err(OfferError::Empty),
            many if many > SECTIONS_MAX => Err(OfferError::TooMany(many)),
            _ => Ok(Self { lines, sections }),
        }
    }

    /// The description with these of its sections, by their places. Others stay, so that the answer
    /// has as many as the offer, and nothing is sent for them.
    pub fn with(&self, served: &[usize]) -> String {
        let mut text = String::new();
        let mut next = self.sections.iter().enumerate().peekable();
        // Of the section that is being written: whether nothing is to be sent for it.
        let mut is_idle = false;
        for (at, line) in self.lines.iter().enumerate() {
            if let Some((place, section)) = next.next_if(|(_, section)| section.at == at) {
                if is_idle {
                    text.push_str(IDLE);
                }
                is_idle = !served.contains(&place) && section.is_media();
            }
            let attribute = line.strip_prefix("a=").unwrap_or("");
            let is_address =
                attribute.starts_with("candidate:") || attribute == "end-of-candidates";
            let is_replaced = is_idle && direction(attribute).is_some();
            if !is_address && !is_replaced && !line.is_empty() {
                // Writing to a string does not fail.
                _ = write!(text, "{line}\r\n");
            }
        }
        if is_idle {
            text.push_str(IDLE);
        }
        text
    }

    /// The encodings it takes, for people.
    pub fn names(&self) -> String {
        let taken = self.sections.iter().filter(|section| section.takes);
        let formats = taken.flat_map(|section| &section.formats);
        let mut names: Vec<&str> = formats.map(|format| format.name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        names.retain(|name| !matches!(*name, "rtx" | "red" | "ulpfec" | "flexfec-03"));
        names.truncate(12);
        names.join(", ")
    }
}

fn section(at: usize, media: &str, takes: bool) -> Option<Section> {
    let mut words = media.split(' ').filter(|word| !word.is_empty());
    let (kind, port, _protocol) = (words.next()?, words.next()?, words.next()?);
    let _: u16 = port.split('/').next()?.parse().ok()?;
    let mut section = Section {
        at,
        kind: kind.to_owned(),
        mid: String::new(),
        formats: Vec::new(),
        takes,
    };
    if section.is_media() {
        for word in words {
            let number = word.parse().ok().filter(|&number| number < 128)?;
            section.formats.push(fixed(number));
        }
    }
    Some(section)
}

/// A payload type before `a=rtpmap` says more (RFC 3551, section 6).
fn fixed(number: u8) -> Format {
    let (name, clock_rate) = match number {
        0 => ("PCMU", 8_000),
        8 => ("PCMA", 8_000),
        _ => ("", 0),
    };
    Format {
        number,
        name: name.to_owned(),
        clock_rate,
        channels: 1,
        parameters: String::new(),
    }
}

/// Whether the browser takes something, if the attribute says which way media go.
fn direction(attribute: &str) -> Option<bool> {
    match attribute {
        "sendrecv" | "recvonly" => Some(true),
        "sendonly" | "inactive" => Some(false),
        _ => None,
    }
}

impl Section {
    /// Whether it is of pictures or sound.
    fn is_media(&self) -> bool {
        matches!(self.kind.as_str(), "video" | "audio")
    }

    fn attribute(&mut self, attribute: &str) -> Option<()> {
        if let Some(takes) = direction(attribute) {
            self.takes = takes;
        }
        match attribute.split_once(':') {
            Some(("mid", mid)) => self.mid = mid.to_owned(),
            Some(("rtpmap", map)) => {
                let (number, encoding) = map.split_once(' ')?;
                let mut parts = encoding.trim().split('/');
                let (name, clock_rate) = (parts.next()?, parts.next()?.parse().ok()?);
                let channels = parts.next().map_or(Ok(1), str::parse).ok()?;
                if let Some(format) = self.format(number.parse().ok()?) {
                    format.name = name.to_owned();
                    format.clock_rate = clock_rate;
                    format.channels = channels;
                }
            }
            Some(("fmtp", more)) => {
                let (number, parameters) = more.split_once(' ')?;
                if let Some(format) = self.format(number.parse().ok()?) {
                    format.parameters = parameters.to_owned();
                }
            }
            _ => {}
        }
        Some(())
    }

    fn format(&mut self, number: u8) -> Option<&mut Format> {
        self.formats
            .iter_mut()
            .find(|format| format.number == number)
    }

    /// The payload type by which packets of this one are sent again (RFC 4588).
    pub fn again(&self, number: u8) -> Option<u8> {
        let is_again = |format: &&Format| {
            let of = format.parameter("apt").and_then(|apt| apt.parse().ok());
            format.name.eq_ignore_ascii_case("rtx") && of == Some(number)
        };
        self.formats
            .iter()
            .find(is_again)
            .map(|format| format.number)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// As browsers offer, with less of it.
    pub(in super::super) const BROWSER: &str = "v=0\r\no=- 1 2 IN IP4 127.0.0.1\r\ns=-\r\n\
        t=0 0\r\na=group:BUNDLE 0 1\r\na=msid-semantic: WMS\r\n\
        m=audio 9 UDP/TLS/RTP/SAVPF 111 0 8\r\nc=IN IP4 0.0.0.0\r\na=ice-ufrag:abcd\r\n\
        a=ice-pwd:0123456789012345678901\r\na=candidate:1 1 udp 1 host.local 9 typ host\r\n\
        a=mid:0\r\na=recvonly\r\na=rtcp-mux\r\na=rtpmap:111 opus/48000/2\r\n\
        a=fmtp:111 minptime=10;useinbandfec=1\r\n\
        m=video 9 UDP/TLS/RTP/SAVPF 96 102 103 104 106\r\na=mid:1\r\na=recvonly\r\na=rtcp-mux\r\n\
        a=rtpmap:96 VP8/90000\r\na=rtpmap:102 H264/90000\r\n\
        a=fmtp:102 level-asymmetry-allowed=1;packetization-mode=1;profile-level-id=42001f\r\n\
        a=rtpmap:103 rtx/90000\r\na=fmtp:103 apt=102\r\na=rtpmap:104 H264/90000\r\n\
        a=fmtp:104 level-asymmetry-allowed=1;packetization-mode=0;profile-level-id=64001f\r\n\
        a=rtpmap:106 H264/90000\r\n\
        a=fmtp:106 level-asymmetry-allowed=1;packetization-mode=1;profile-level-id=64001f\r\n";

    #[test]
    fn formats_are_read_with_their_parameters() {
        let offer = Offer::read(BROWSER).unwrap();
        let [audio, video] = &offer.sections[..] else {
            panic!("{offer:?}");
        };
        assert_eq!((audio.mid.as_str(), video.mid.as_str()), ("0", "1"));
        assert!(audio.formats[1].is("pcmu", 8_000));
        assert_eq!(audio.formats[0].channels, 2);
        let h264 = &video.formats[1];
        assert_eq!(h264.parameter("profile-level-id"), Some("42001f"));
        assert_eq!((video.again(102), video.again(96)), (Some(103), None));
        assert_eq!(offer.names(), "H264, PCMA, PCMU, VP8, opus");
    }

    #[test]
    fn what_is_not_served_is_inactive_and_addresses_are_left_out() {
        let offer = Offer::read(BROWSER).unwrap();
        let text = offer.with(&[1]);
        assert!(!text.contains("candidate"), "{text}");
        let read = Offer::read(&text).unwrap();
        assert_eq!(read.sections.len(), 2);
        assert!(!read.sections[0].takes && read.sections[1].takes);
        assert_eq!(text.matches("a=inactive").count(), 1);
    }

    #[test]
    fn what_is_no_offer_is_refused() {
        let error = |text: &str| Offer::read(text).unwrap_err();
        assert_eq!(error(""), OfferError::NotSdp);
        assert_eq!(error("{}"), OfferError::NotSdp);
        assert_eq!(error("v=0\r\ns=-\r\n"), OfferError::Empty);
        let line = "m=video x UDP/TLS/RTP/SAVPF 96";
        let cut = format!("v=0\r\n{line}\r\n");
        assert_eq!(error(&cut), OfferError::Line(line.to_owned()));
        let many = format!("v=0\r\n{}", "m=audio 9 UDP/TLS/RTP/SAVPF 0\r\n".repeat(17));
        assert_eq!(error(&many), OfferError::TooMany(17));
    }

    proptest! {
        #[test]
        fn nonsense_does_no_harm(text in "(v=0\r\n)?([ma]=[a-z:/ 0-9]{0,40}\r\n){0,20}") {
            if let Ok(offer) = Offer::read(&text) {
                let all: Vec<usize> = (0..offer.sections.len()).collect();
                let again = offer.with(&all);
                prop_assert_eq!(Offer::read(&again).unwrap().sections.len(), all.len());
            }
        }
    }
}
