//! One connection to a camera: asks for its streams and receives them.
//!
//! While both sides talk, bytes are delivered at once. After PLAY they are held back for a while,
//! so that one delivery brings the packets of several pictures. While somebody watches the camera
//! they are held back for a moment only.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use evenkeel::net::{Delivery, TcpStream};
use evenkeel::time::{Instant, sleep_until, timeout};
use rtsp_types::{Message, Url};
use tokio::io::AsyncReadExt;
use tokio::sync::OwnedSemaphorePermit;

use super::datagrams::Datagrams;
use super::talk::{Talk, answer_to};
use super::{Feed, IngestError, State, Status};
use crate::config::{self, Camera, Transport};
use crate::hub::Hub;
use crate::onvif;
use crate::onvif::device::Device;
use crate::rtp::order::Patience;
use crate::rtsp::auth::Credentials;
use crate::rtsp::client::{Playing, Wanted};
use crate::rtsp::sdp::Description;
use crate::rtsp::{Client, Frame, Step, Wire};
use crate::tls::{self, Stream};

/// The port that addresses mean if they say none, and over TLS.
const PORT: u16 = 554;
const PORT_TLS: u16 = 322;

/// Bytes are read into pieces of this, and delivered when there are as many. Each camera has one
/// that is half full on average.
pub(crate) const CHUNK: usize = 64 << 10;

/// A read into less room than this would be one of many.
const ROOM_MIN: usize = 8 << 10;

/// How long packets are held back while somebody watches, at most: the packets of one picture come
/// together, and nobody sees the delay.
const DELIVERY_WATCHED: Duration = Duration::from_millis(10);

/// How often a session looks at its clocks, for silence, keep-alives and reports, and whether
/// somebody watches.
const TICK: Duration = Duration::from_secs(1);

/// How often a sender gets a report.
const REPORTS_EVERY: Duration = Duration::from_secs(5);

/// What a session needs.
pub(super) struct Session<'a> {
    pub(super) hub: &'a Arc<Hub>,
    pub(super) settings: &'a config::Ingest,
    pub(super) name: &'a str,
    pub(super) camera: &'a Camera,
    pub(super) status: &'a Status,
}

impl Session<'_> {
    /// Until the session is over. The permit is given back with the first packet.
    pub(super) async fn run(&self, permit: OwnedSemaphorePermit) -> Result<(), IngestError> {
        let credentials = self.camera.user.clone().map(|user| Credentials {
            user,
            password: self.camera.password.clone().unwrap_or_default(),
        });
        let Some(url) = self.url(credentials.as_ref()).await? else {
            return Ok(());
        };
        let mut seed = [0; 8];
        // Without randomness digests are still good for once, by the camera's part of them.
        let _ = getrandom::fill(&mut seed);
        let mut client = Client::new(url, credentials, seed);
        let mut talk = self.connect(client.url()).await?;
        let first = client.begin();
        let mut described = None;
        let mut datagrams = None;
        let mut step = Step::Send(first);
        let playing = loop {
            step = match step {
                Step::Send(bytes) => {
                    let response = talk.ask(&bytes).await?;
                    client.answer(&response)?
                }
                Step::Described(description) => {
                    let wanted = self.wanted(&talk, &description, &mut datagrams).await?;
                    let next = client.set_up(&description, &wanted)?;
                    described = Some(description);
                    Step::Send(next)
                }
                Step::Redirect(url) => {
                    let first = client.redirected(url)?;
                    talk = self.connect(client.url()).await?;
                    Step::Send(first)
                }
                // An answer before the final one.
                Step::Alive => {
                    let response = talk.response().await?;
                    client.answer(&response)?
                }
                Step::Playing(playing) => break playing,
            };
        };
        let Some(description) = described else {
            return Err(IngestError::Ended);
        };
        let outcome = self
            .receive(
                &mut talk,
                &mut client,
                &playing,
                &description,
                datagrams,
                permit,
            )
            .await;
        if let Some(bytes) = client.tear_down() {
            // A camera that waits for more than a moment is gone.
            let _ = timeout(TICK, talk.send(&bytes)).await;
        }
        outcome
    }

    /// Where the streams are. By ONVIF it is asked each time, as it may change.
    async fn url(&self, credentials: Option<&Credentials>) -> Result<Option<Url>, IngestError> {
        let Some(onvif) = &self.camera.onvif else {
            return Ok(self.camera.url.as_ref().map(|url| url.get_ref().clone()));
        };
        let device = Device {
            url: onvif.get_ref(),
            credentials,
            fingerprint: self.camera.fingerprint,
            patience: self.settings.patience,
        };
        Ok(Some(
            onvif::stream(&device, self.camera.profile.as_deref()).await?,
        ))
    }

    async fn connect(&self, url: &Url) -> Result<Talk, IngestError> {
        let host = url.host_str().unwrap_or_default();
        // IPv6 stands in brackets.
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let is_tls = url.scheme() == "rtsps";
        let port = url.port().unwrap_or(if is_tls { PORT_TLS } else { PORT });
        let address = format!("{host}:{port}");
        let patience = self.settings.patience;
        let connected = timeout(patience, TcpStream::connect((host, port))).await;
        let connected = connected.map_err(|_| IngestError::Slow {
            what: "a connection",
            patience,
        })?;
        let failed = |error| IngestError::Connect {
            address: address.clone(),
            error,
        };
        let socket = connected.map_err(&failed)?;
        socket.set_nodelay(true)?;
        let stream = if is_tls {
            let config = tls::trusting(self.camera.fingerprint).map_err(io::Error::other);
            let shaken = tls::connect(config.map_err(&failed)?, host, socket);
            let shaken = timeout(patience, shaken).await;
            shaken
                .map_err(|_| IngestError::Slow {
                    what: "a handshake of TLS",
                    patience,
                })?
                .map_err(failed)?
        } else {
            Stream::plain(socket)
        };
        Ok(Talk {
            stream,
            wire: Wire::default(),
            patience,
        })
    }

    async fn wanted(
        &self,
        talk: &Talk,
        description: &Description,
        datagrams: &mut Option<Datagrams>,
    ) -> Result<Wanted, IngestError> {
        if self.camera.transport == Transport::Tcp {
            return Ok(Wanted::Tcp);
        }
        let socket = talk.stream.socket().ok_or(IngestError::Ended)?;
        let (local, camera) = (socket.local_addr()?.ip(), socket.peer_addr()?.ip());
        let opened = Datagrams::open(local, camera, description.offers.len()).await;
        let opened = opened.map_err(IngestError::Ports)?;
        let ports = opened.ports();
        *datagrams = Some(opened);
        Ok(Wanted::Udp(ports))
    }

    async fn receive(
        &self,
        talk: &mut Talk,
        client: &mut Client,
        playing: &Playing,
        description: &Description,
        mut datagrams: Option<Datagrams>,
        permit: OwnedSemaphorePermit,
    ) -> Result<(), IngestError> {
        let patience = match datagrams {
            Some(_) => Patience::DATAGRAMS,
            None => Patience::NONE,
        };
        let feed = Feed::new(self.hub, self.name, &description.offers, patience);
        let mut receiving = Receiving {
            session: self,
            feed,
            playing,
            permit: Some(permit),
            began: Instant::now(),
            heard: Instant::now(),
            asked: Instant::now(),
            reported: Instant::now(),
            delivery: None,
        };
        receiving.deliver(talk);
        // What came behind the answer to PLAY.
        receiving.frames(talk, client).await?;
        let mut tick = Instant::now() + TICK;
        loop {
            let sooner = receiving.feed.deadline().map(|left| Instant::now() + left);
            let wake = sooner.map_or(tick, |sooner| sooner.min(tick));
            make_room(&mut talk.wire);
            tokio::select! {
                biased;
                read = talk.stream.read_buf(talk.wire.buffer()) => match read? {
                    0 => return Err(IngestError::Ended),
                    _ => receiving.frames(talk, client).await?,
                },
                datagram = Datagrams::next_of(&mut datagrams) => {
                    let (track, bytes) = datagram?;
                    receiving.packet(track, &bytes)?;
                }
                () = sleep_until(wake) => {
                    receiving.feed.expire()?;
                    if Instant::now() >= tick {
                        tick = Instant::now() + TICK;
                        receiving.tick(talk, client, datagrams.as_ref()).await?;
                        if receiving.feed.is_removed() {
                            return Ok(());
                        }
                    }
                }
            }
        }
    }
}

/// A session that receives.
struct Receiving<'a> {
    session: &'a Session<'a>,
    feed: Feed,
    playing: &'a Playing,
    permit: Option<OwnedSemaphorePermit>,
    began: Instant,
    /// When the last packet came.
    heard: Instant,
    /// When the last keep-alive was sent.
    asked: Instant,
    reported: Instant,
    /// How long packets are held back now.
    delivery: Option<Duration>,
}

impl Receiving<'_> {
    /// Takes in all that has been read.
    async fn frames(&mut self, talk: &mut Talk, client: &mut Client) -> Result<(), IngestError> {
        while let Some(frame) = talk.wire.frame()? {
            match frame {
                Frame::Packet { channel, bytes } => {
                    let of_channel = |way: &crate::rtsp::transport::Transport| {
                        way.interleaved
                            .is_some_and(|(packets, _)| packets == channel)
                    };
                    if let Some(track) = self.playing.transports.iter().position(of_channel) {
                        self.packet(track, &bytes)?;
                    } else {
                        self.feed.skip(talk.wire.frame_len());
                    }
                }
                Frame::Message(Message::Response(response)) => {
                    self.feed.skip(talk.wire.frame_len());
                    if let Step::Send(bytes) = client.answer(&response)? {
                        talk.send(&bytes).await?;
                    }
                }
                Frame::Message(Message::Request(request)) => {
                    self.feed.skip(talk.wire.frame_len());
                    talk.send(&answer_to(&request)).await?;
                }
                Frame::Message(Message::Data(_)) => {}
            }
        }
        Ok(())
    }

    /// Has packets held back for as long as is good now.
    fn deliver(&mut self, talk: &Talk) {
        let longest = *self.session.camera.delivery.get_ref();
        let delay = if self.feed.is_watched() {
            longest.min(DELIVERY_WATCHED)
        } else {
            longest
        };
        if self.delivery != Some(delay) {
            self.delivery = Some(delay);
            if let Some(socket) = talk.stream.socket() {
                // If it is refused, packets come as they did: it is an optimisation.
                let _ = socket.set_delivery(Delivery::Coalesce {
                    bytes: CHUNK,
                    delay,
                });
            }
        }
    }

    fn packet(&mut self, track: usize, bytes: &Bytes) -> Result<(), IngestError> {
        self.heard = Instant::now();
        if self.permit.take().is_some() {
            self.session.status.set(State::Receiving);
        }
        Ok(self.feed.packet(track, bytes)?)
    }

    async fn tick(
        &mut self,
        talk: &mut Talk,
        client: &mut Client,
        datagrams: Option<&Datagrams>,
    ) -> Result<(), IngestError> {
        self.session.status.count(self.feed.counts());
        self.deliver(talk);
        let silence = self.session.settings.silence;
        if self.heard.elapsed() >= silence {
            return Err(IngestError::Silent(silence));
        }
        // Key frames may be further apart than packets may be.
        let useless = silence * 3;
        if !self.feed.is_live() && self.began.elapsed() >= useless {
            return Err(IngestError::Useless(useless));
        }
        if self.asked.elapsed() >= self.playing.keep_alive {
            self.asked = Instant::now();
            let bytes = client.keep_alive();
            talk.send(&bytes).await?;
        }
        if self.reported.elapsed() >= REPORTS_EVERY {
            self.reported = Instant::now();
            self.report(talk, datagrams).await?;
        }
        Ok(())
    }

    async fn report(
        &mut self,
        talk: &mut Talk,
        datagrams: Option<&Datagrams>,
    ) -> Result<(), IngestError> {
        for (track, way) in self.playing.transports.iter().enumerate() {
            let Some(report) = self.feed.report(track) else {
                continue;
            };
            if let Some((_, channel)) = way.interleaved {
                talk.send(&interleaved(channel, &report)).await?;
            } else if let (Some(datagrams), Some((_, port))) = (datagrams, way.server_port) {
                datagrams.report(track, port, &report);
            }
        }
        Ok(())
    }
}

/// Room for a read that is worth its system call.
pub(crate) fn make_room(wire: &mut Wire) {
    let buffer = wire.buffer();
    if buffer.capacity() - buffer.len() < ROOM_MIN {
        buffer.reserve(CHUNK);
    }
}

/// A packet as it goes in a connection.
pub(crate) fn interleaved(channel: u8, packet: &[u8]) -> Vec<u8> {
    // Reports have some dozens of bytes.
    let [high, low] = (packet.len() as u16).to_be_bytes();
    [&[b'$', channel, high, low], packet].concat()
}
