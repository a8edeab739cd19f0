//! One browser: the library's state of its session, without sockets and clocks.
//!
//! Every change is followed by [`Peer::turn`], which says what is to be sent and what has happened,
//! and until when there is nothing to do.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use str0m::change::SdpOffer;
use str0m::config::DtlsCert;
use str0m::format::{Codec, FormatParams};
use str0m::media::{Frequency, Mid, Pt};
use str0m::net::{Protocol, Receive};
use str0m::rtp::{Extension, RtpWrite, SeqNo};
use str0m::{Candidate, Event, IceCreds, Input, Output, Rtc, RtcConfig, RtcError};

use super::choice::{Choice, Chosen};
use super::offer::Format;
use super::packets::{Kind, Packet};

/// Packets of pictures that are kept to be sent again: half a megabyte, a second of most cameras.
const AGAIN_MAX: usize = 500;
/// How often browsers' reports are counted.
const REPORTS_EVERY: Duration = Duration::from_secs(2);
/// What the library may have to do in one turn; it has more to do only by a fault of its own.
const STEPS_MAX: usize = 10_000;
/// If it does: when it is asked again.
const REST: Duration = Duration::from_millis(10);

/// Why there is no session.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PeerError {
    /// The description.
    #[error("the description cannot be read: {0}")]
    Sdp(String),
    /// The library refuses it.
    #[error("the description cannot be answered: {0}")]
    Refused(#[from] RtcError),
    /// An address that is offered.
    #[error("the address {0} cannot be offered to browsers; change watch.webrtc.hosts")]
    Candidate(SocketAddr),
}

/// A browser.
#[derive(Debug)]
pub struct Peer {
    rtc: Rtc,
    /// What it may say it sent to: it cannot tell which of the addresses it was.
    candidates: Vec<SocketAddr>,
    video: Option<Line>,
    sound: Option<Line>,
}

/// A track that is sent.
#[derive(Debug)]
struct Line {
    mid: Mid,
    format: Pt,
    sequence: u64,
    /// What the browser reported last.
    lost: u64,
    packets: u64,
}

/// What has happened.
#[derive(Debug)]
pub enum Told {
    /// This is to be sent.
    Send(SocketAddr, Vec<u8>),
    /// The browser takes media from now on.
    Connected,
    /// The browser needs a key frame.
    NeedsKey,
    /// So many more packets were sent, and so many more were lost on their way.
    Reported {
        /// Packets that were sent.
        packets: u64,
        /// Packets that the browser reports as lost.
        lost: u64,
    },
    /// The browser has ended the session.
    Ended,
}

/// What a session is known by.
#[derive(Clone)]
pub struct Identity {
    /// The certificate of DTLS.
    pub certificate: DtlsCert,
    /// The user and the password of ICE.
    pub credentials: IceCreds,
}

impl Peer {
    /// Answers an offer. The answer names these addresses.
    ///
    /// # Errors
    ///
    /// [`PeerError`].
    pub fn answer(
        choice: &Choice,
        identity: Identity,
        candidates: &[SocketAddr],
        sequence: u16,
        now: Instant,
    ) -> Result<(Self, String), PeerError> {
        let mut config = RtcConfig::new()
            .clear_codecs()
            .clear_extension_map()
            .set_extension(1, Extension::RtpMid)
            .set_rtp_mode(true)
            .set_ice_lite(true)
            .set_dtls_cert(identity.certificate)
            .set_local_ice_credentials(identity.credentials)
            .set_send_buffer_video(AGAIN_MAX)
            .set_stats_interval(Some(REPORTS_EVERY));
        let chosen = [&choice.video, &choice.sound].into_iter().flatten();
        let mut numbers = Vec::new();
        for (format, again) in chosen
            .map(|chosen| (&chosen.format, chosen.again))
            .chain(choice.idle.iter().map(|format| (format, None)))
        {
            // A payload type has one meaning; offers that give it two are answered for the first.
            if !numbers.contains(&format.number) {
                numbers.push(format.number);
                add(&mut config, format, again);
            }
        }
        let mut rtc = config.build(now);
        for &address in candidates {
            let candidate = Candidate::host(address, "udp");
            let candidate = candidate.map_err(|_| PeerError::Candidate(address))?;
            rtc.add_local_candidate(candidate);
        }
        let offer = SdpOffer::from_sdp_string(&choice.offer);
        let offer = offer.map_err(|error| PeerError::Sdp(said(&error)))?;
        let answer = rtc.sdp_api().accept_offer(offer)?;
        let line = |chosen: &Option<Chosen>| {
            let chosen = chosen.as_ref()?;
            Some(Line {
                mid: Mid::from(chosen.mid.as_str()),
                format: Pt::from(chosen.format.number),
                // In the lower half, so that it does not wrap before the browser has seen one.
                sequence: u64::from(sequence >> 1),
                lost: 0,
                packets: 0,
            })
        };
        let peer = Self {
            rtc,
            candidates: candidates.to_vec(),
            video: line(&choice.video),
            sound: line(&choice.sound),
        };
        let answer = answer.to_sdp_string();
        // The library leaves out what it does not know; browsers refuse such an answer.
        if media(&answer) != media(&choice.offer) {
            let kinds = "it has media of an unknown kind; offer video, audio or both";
            return Err(PeerError::Sdp(kinds.to_owned()));
        }
        Ok((peer, answer))
    }

    /// Takes a datagram. Whether it is one of this session.
    ///
    /// # Errors
    ///
    /// The session is broken.
    pub fn receive(
        &mut self,
        now: Instant,
        source: SocketAddr,
        bytes: &[u8],
    ) -> Result<bool, RtcError> {
        let is_alike = |address: &&SocketAddr| address.is_ipv4() == source.is_ipv4();
        let Some(&destination) = self.candidates.iter().find(is_alike) else {
            return Ok(false);
        };
        let Ok(received) = Receive::new(Protocol::Udp, source, destination, bytes) else {
            return Ok(false);
        };
        let input = Input::Receive(now, received);
        if !self.rtc.accepts(&input) {
            return Ok(false);
        }
        self.rtc.handle_input(input)?;
        Ok(true)
    }

    /// Takes a packet for the browser. It goes out in the next turn.
    pub fn send(&mut self, packet: Packet) {
        let line = match packet.kind {
            Kind::Video => &mut self.video,
            Kind::Sound => &mut self.sound,
        };
        let Some(line) = line else { return };
        let mut direct = self.rtc.direct_api();
        let Some(stream) = direct.stream_tx_by_mid(line.mid, None) else {
            return;
        };
        let number = SeqNo::from(line.sequence);
        line.sequence += 1;
        let Packet {
            timestamp, shown, ..
        } = packet;
        let write = RtpWrite::new(line.format, number, timestamp, shown, packet.payload)
            .marker(packet.marker)
            .nackable(packet.kind == Kind::Video);
        stream.write_rtp(write);
    }

    /// Does what is due, and says what has happened. Returns when there is more to do.
    ///
    /// # Errors
    ///
    /// The session is broken.
    pub fn turn(&mut self, now: Instant, told: &mut Vec<Told>) -> Result<Instant, RtcError> {
        for _ in 0..STEPS_MAX {
            match self.rtc.poll_output()? {
                Output::Timeout(at) if at > now => return Ok(at),
                Output::Timeout(_) => self.rtc.handle_input(Input::Timeout(now))?,
                Output::Transmit(datagram) => {
                    told.push(Told::Send(datagram.destination, datagram.contents.into()));
                }
                Output::Event(event) => told.extend(self.happened(&event)),
            }
        }
        Ok(now + REST)
    }

    fn happened(&mut self, event: &Event) -> Option<Told> {
        match event {
            Event::Connected => Some(Told::Connected),
            Event::KeyframeRequest(_) => Some(Told::NeedsKey),
            Event::Closed => Some(Told::Ended),
            Event::MediaEgressStats(said) => {
                let mut lines = [&mut self.video, &mut self.sound].into_iter().flatten();
                let line = lines.find(|line| line.mid == said.mid)?;
                let lost = said.remote.as_ref().map_or(0, |remote| remote.packets_lost);
                let more = |last: &mut u64, total: u64| {
                    let more = total.saturating_sub(*last);
                    *last = total.max(*last);
                    more
                };
                Some(Told::Reported {
                    packets: more(&mut line.packets, said.packets),
                    lost: more(&mut line.lost, lost),
                })
            }
            _ => None,
        }
    }

    /// Tells the browser in the next turn that it is over.
    ///
    /// # Errors
    ///
    /// The session is broken.
    pub fn close(&mut self) -> Result<(), RtcError> {
        self.rtc.close()
    }

    /// Whether the session goes on.
    pub fn is_alive(&self) -> bool {
        self.rtc.is_alive()
    }
}

/// How many media a description has.
fn media(text: &str) -> usize {
    text.lines().filter(|line| line.starts_with("m=")).count()
}

/// What the library says of a description, without the places in memory that it adds.
fn said(error: &impl ToString) -> String {
    let text = error.to_string();
    let lines = text.lines().filter(|line| !line.contains("0x"));
    let said: Vec<&str> = lines.collect();
    said.join(" ").chars().take(200).collect()
}

/// Has the library know a format under the number that the offer gives it.
fn add(config: &mut RtcConfig, format: &Format, again: Option<u8>) {
    let parameters = FormatParams::parse_line(&format.parameters);
    let codecs = config.codec_config();
    let number = Pt::from(format.number);
    let again = again.map(Pt::from);
    if format.is("H264", 90_000) {
        codecs.add_config(
            number,
            again,
            Codec::H264,
            Frequency::NINETY_KHZ,
            None,
            parameters,
        );
    } else if format.is("VP8", 90_000) {
        codecs.add_config(
            number,
            None,
            Codec::Vp8,
            Frequency::NINETY_KHZ,
            None,
            parameters,
        );
    } else if format.is("opus", 48_000) {
        let rate = Frequency::FORTY_EIGHT_KHZ;
        codecs.add_config(number, None, Codec::Opus, rate, Some(2), parameters);
    } else if format.is("PCMU", 8_000) {
        codecs.enable_pcmu(true, false);
    } else if format.is("PCMA", 8_000) {
        codecs.enable_pcma(true, false);
    }
}

#[cfg(test)]
pub(super) mod tests;
