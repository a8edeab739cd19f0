//! The sockets of a camera that sends by UDP: for each track one for packets and one for reports,
//! on two ports of which the first is even (RFC 3550, section 11).

use std::io;
use std::net::{IpAddr, SocketAddr};

use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use evenkeel::net::UdpSocket;
use tokio::io::ReadBuf;

use super::random;

/// The largest datagram that cameras send, and room for jumbo frames.
const DATAGRAM_MAX: usize = 9_216;
/// Datagrams are received into pieces of this, so that few allocations are made.
const CHUNK: usize = 64 << 10;
/// Ports that are tried for a pair before there seem to be none.
const ATTEMPTS: u32 = 64;
/// Where pairs are looked for: above the ports of services, and below those that systems hand out.
const PORTS: std::ops::Range<u32> = 16_384..32_768;

/// The sockets of a session.
#[derive(Debug)]
pub struct Datagrams {
    pairs: Vec<Pair>,
    /// Who may send.
    camera: IpAddr,
    buffer: BytesMut,
    /// The track that is looked at first, so that none starves another.
    first: usize,
}

/// A socket for packets and one for reports.
#[derive(Debug)]
pub(crate) struct Pair {
    pub(crate) packets: UdpSocket,
    pub(crate) reports: UdpSocket,
    /// That of packets; the other one is the next.
    pub(crate) port: u16,
}

impl Datagrams {
    /// Opens them on the address by which the camera is reached.
    ///
    /// # Errors
    ///
    /// No pair of ports is free.
    pub async fn open(local: IpAddr, camera: IpAddr, tracks: usize) -> io::Result<Self> {
        let mut pairs = Vec::new();
        for _ in 0..tracks {
            pairs.push(Pair::open(local).await?);
        }
        Ok(Self::of(pairs, camera))
    }

    /// Of sockets that are open, for a camera at this address.
    pub(crate) fn of(pairs: Vec<Pair>, camera: IpAddr) -> Self {
        Self {
            pairs,
            camera,
            buffer: BytesMut::new(),
            first: 0,
        }
    }

    /// The first ports of the pairs.
    pub fn ports(&self) -> Vec<u16> {
        self.pairs.iter().map(|pair| pair.port).collect()
    }

    /// The next packet, with its track.
    ///
    /// # Errors
    ///
    /// A socket failed.
    ///
    /// # Cancel safety
    ///
    /// If it is cancelled, nothing is lost.
    pub async fn next(&mut self) -> io::Result<(usize, Bytes)> {
        std::future::poll_fn(|cx| self.poll_next(cx)).await
    }

    /// Sends a report on a track to the camera's port for these.
    pub fn report(&self, track: usize, port: u16, report: &[u8]) {
        if let Some(pair) = self.pairs.get(track) {
            // One that is lost is followed by another.
            let _ = pair
                .reports
                .try_send_to(report, SocketAddr::new(self.camera, port));
        }
    }

    /// The next packet of sockets that may not be there.
    pub(crate) async fn next_of(datagrams: &mut Option<Self>) -> io::Result<(usize, Bytes)> {
        match datagrams {
            Some(datagrams) => datagrams.next().await,
            None => std::future::pending().await,
        }
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<(usize, Bytes)>> {
        self.first = self.first.wrapping_add(1);
        for index in 0..self.pairs.len() {
            let track = self.first.wrapping_add(index) % self.pairs.len();
            while let Poll::Ready(received) = self.poll_track(track, cx) {
                match received {
                    Ok(Some(bytes)) => return Poll::Ready(Ok((track, bytes))),
                    Ok(None) => {}
                    // The other side has no such port yet: an answer to a report of ours.
                    Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
                    Err(error) => return Poll::Ready(Err(error)),
                }
            }
            self.drain_reports(track);
        }
        Poll::Pending
    }

    fn poll_track(
        &mut self,
        track: usize,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<Option<Bytes>>> {
        if self.buffer.capacity() - self.buffer.len() < DATAGRAM_MAX {
            self.buffer.reserve(CHUNK);
        }
        self.buffer.resize(DATAGRAM_MAX, 0);
        let mut into = ReadBuf::new(&mut self.buffer);
        let from = self.pairs[track].packets.poll_recv_from(cx, &mut into);
        let len = into.filled().len();
        self.buffer.truncate(len);
        let bytes = self.buffer.split().freeze();
        from.map_ok(|from| (from.ip() == self.camera).then_some(bytes))
    }

    /// Reports of the sender are not used. They are read when packets are, so that the socket's
    /// buffer does not stay full.
    fn drain_reports(&self, track: usize) {
        let mut report = [0; 2_048];
        while self.pairs[track].reports.try_recv(&mut report).is_ok() {}
    }
}

impl Pair {
    /// Two whose ports follow each other.
    pub(crate) async fn open(local: IpAddr) -> io::Result<Self> {
        let mut last = io::Error::from(io::ErrorKind::AddrInUse);
        for _ in 0..ATTEMPTS {
            let drawn = PORTS.start + random() % (PORTS.end - PORTS.start);
            // Even, as the number of the reports is the next one.
            let Ok(port) = u16::try_from(drawn & !1) else {
                continue;
            };
            let packets = UdpSocket::bind((local, port)).await;
            let reports = UdpSocket::bind((local, port + 1)).await;
            match (packets, reports) {
                (Ok(packets), Ok(reports)) => {
                    return Ok(Self {
                        packets,
                        reports,
                        port,
                    });
                }
                (Err(error), _) | (_, Err(error)) => last = error,
            }
        }
        Err(last)
    }
}
