//! A client of WHEP that receives pictures, on a thread of its own.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use cameras::simulator::{Stamp, stamps};
use str0m::change::SdpAnswer;
use str0m::media::{Direction, MediaKind};
use str0m::net::{Protocol, Receive};
use str0m::rtp::RtpPacket;
use str0m::{Candidate, Event, Input, Output, Rtc, RtcConfig};

use super::super::Result;
use super::super::servers::LIMIT;

/// The longest datagram.
const DATAGRAM_MAX: usize = 2_048;
/// Packets that wait for one that is missing: as long as a server could still send it again.
const WAITING_MAX: usize = 500;
/// The longest wait for a datagram.
const WAIT_MAX: Duration = Duration::from_millis(100);

/// When a client does what.
#[derive(Clone, Copy)]
pub(super) struct Times {
    pub(super) begin: Instant,
    /// From here on pictures are counted.
    pub(super) from: Instant,
    pub(super) until: Instant,
}

/// What a client has seen.
pub(super) struct Seen {
    /// From the offer until the first whole picture.
    pub(super) first: Duration,
    /// How late each picture was whole.
    pub(super) delays: Vec<Duration>,
    /// Pictures that did not come.
    pub(super) lost: u32,
}

/// Watches for as long as is wanted.
pub(super) fn watch(server: SocketAddr, path: &str, times: Times) -> Result<Seen> {
    thread::sleep(times.begin.saturating_duration_since(Instant::now()));
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    let address = socket.local_addr()?;
    let began = Instant::now();
    let mut rtc = RtcConfig::new().set_rtp_mode(true).build(began);
    rtc.add_local_candidate(Candidate::host(address, "udp")?);
    let mut changes = rtc.sdp_api();
    changes.add_media(MediaKind::Video, Direction::RecvOnly, None, None, None);
    let (offer, pending) = changes.apply().ok_or("there is nothing to offer")?;
    let answer = SdpAnswer::from_sdp_string(&post(server, path, &offer.to_sdp_string())?)?;
    rtc.sdp_api().accept_answer(pending, answer)?;
    let (mut pictures, mut first) = (Pictures::default(), None);
    let mut seen = (Vec::new(), None::<Stamp>, 0);
    let mut buffer = [0; DATAGRAM_MAX];
    while Instant::now() < times.until {
        let due = turn(&mut rtc, &socket, &mut pictures)?;
        for stamp in pictures.whole.drain(..) {
            first.get_or_insert_with(|| began.elapsed());
            if Instant::now() >= times.from {
                seen.0.push(delay(stamp)?);
                let next = seen.1.map_or(stamp.number, |last| last.number + 1);
                seen.2 += stamp.number.saturating_sub(next);
                seen.1 = Some(stamp);
            }
        }
        let wait = due.saturating_duration_since(Instant::now());
        // A wait of nothing would be one without an end.
        socket.set_read_timeout(Some(wait.clamp(Duration::from_micros(100), WAIT_MAX)))?;
        let input = match socket.recv_from(&mut buffer) {
            Ok((len, source)) => {
                let received = Receive::new(Protocol::Udp, source, address, &buffer[..len])?;
                Input::Receive(Instant::now(), received)
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                Input::Timeout(Instant::now())
            }
            Err(error) => return Err(error.into()),
        };
        rtc.handle_input(input)?;
    }
    let (delays, _, lost) = seen;
    Ok(Seen {
        first: first.ok_or("no picture came")?,
        delays,
        lost,
    })
}

/// Sends what is to be sent. Returns when there is more to do.
fn turn(rtc: &mut Rtc, socket: &UdpSocket, pictures: &mut Pictures) -> Result<Instant> {
    loop {
        match rtc.poll_output()? {
            Output::Timeout(due) => return Ok(due),
            Output::Transmit(datagram) => {
                socket.send_to(&datagram.contents, datagram.destination)?;
            }
            Output::Event(Event::RtpPacket(packet)) => pictures.take(&packet),
            Output::Event(_) => {}
        }
    }
}

fn delay(stamp: Stamp) -> Result<Duration> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
    Ok(now.saturating_sub(Duration::from_micros(stamp.sent_us)))
}

/// Offers, and returns the answer.
fn post(server: SocketAddr, path: &str, offer: &str) -> Result<String> {
    let mut stream = TcpStream::connect(server)?;
    stream.set_read_timeout(Some(LIMIT))?;
    // By the old version, answers come in one piece.
    let request = format!(
        "POST {path} HTTP/1.0\r\nhost: {server}\r\ncontent-type: application/sdp\r\n\
         content-length: {}\r\n\r\n{offer}",
        offer.len()
    );
    stream.write_all(request.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    match answer.split_once("\r\n\r\n") {
        Some((head, body)) if head.split(' ').nth(1) == Some("201") => Ok(body.to_owned()),
        _ => Err(format!("the offer for {path} is answered with {answer}").into()),
    }
}

/// Packets become pictures: those that are whole, in their order.
#[derive(Default)]
struct Pictures {
    waiting: BTreeMap<u64, (bool, Option<Stamp>)>,
    next: Option<u64>,
    /// What the picture that is coming says of itself.
    stamp: Option<Stamp>,
    /// A packet of the picture that is coming will never be there.
    is_damaged: bool,
    whole: Vec<Stamp>,
}

impl Pictures {
    fn take(&mut self, packet: &RtpPacket) {
        // It is at the beginning of the supplemental information: by itself, beside others, or cut.
        let kind = packet.payload.first().map_or(0, |first| first & 0x1f);
        let stamp = matches!(kind, 6 | 24 | 28)
            .then(|| stamps(&packet.payload).next())
            .flatten();
        let stamp = stamp.map(|(_, stamp)| stamp);
        let number = *packet.seq_no;
        let next = *self.next.get_or_insert(number);
        if number < next {
            return;
        }
        self.waiting.insert(number, (packet.header.marker, stamp));
        if self.waiting.len() > WAITING_MAX {
            self.next = self.waiting.keys().next().copied();
            self.is_damaged = true;
        }
        while let Some(next) = self.next
            && let Some((is_last, stamp)) = self.waiting.remove(&next)
        {
            self.next = Some(next + 1);
            self.stamp = stamp.or(self.stamp);
            if is_last {
                let stamp = self.stamp.take();
                self.whole.extend(stamp.filter(|_| !self.is_damaged));
                self.is_damaged = false;
            }
        }
    }
}
