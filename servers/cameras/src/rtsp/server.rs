//! Answers one connection of a viewer, or of a camera that publishes by itself.
//!
//! ```text
//!            DESCRIBE          SETUP            PLAY
//!  viewer ──────────▶ Idle ──────────▶ Ready ──────────▶ Playing ──▶ TEARDOWN, or the end
//!            ANNOUNCE          SETUP            RECORD
//!  camera ──────────▶ Idle ──────────▶ Ready ──────────▶ Recording ──▶ the same
//! ```
//!
//! What there is and who may is asked of a [`Directory`]. Packets go in the connection, by
//! channels, or as datagrams, if the directory has ports for them: to viewers all from the same
//! ones, from publishers to their own, which are opened before ([`Server::wants_ports`]). Otherwise
//! who asks for datagrams is answered with 461, after which players ask for channels.

mod directory;

pub(crate) use directory::mark_of;
pub use directory::{Action, Directory, Found, Permission, Reply, SetUp};

use std::sync::Arc;

use rtsp_types::{HeaderName, Method, Request, Response, StatusCode, Version, headers};

use directory::By;

use super::AGENT;
use super::auth::{Algorithm, Checking, Refused};
use super::sdp::{self, Offer};
use super::transport::{self, Transport};
use crate::media::Track;

/// What passwords are for, as clients are told.
pub const REALM: &str = "evenkeel";

/// Wrong passwords that a connection may try. Each wrong one costs another connection after that.
const REFUSALS_MAX: u32 = 4;

/// Seconds after which a session ends; over TCP it ends with the connection.
const TIMEOUT: u32 = 60;

const METHODS: &str = "OPTIONS, DESCRIBE, SETUP, PLAY, PAUSE, TEARDOWN, GET_PARAMETER, \
     SET_PARAMETER, ANNOUNCE, RECORD";

/// One connection.
#[derive(Debug)]
pub struct Server {
    checking: Checking,
    session: String,
    state: State,
    user: Option<String>,
    /// Of the user, as it was let in.
    mark: Option<[u8; 32]>,
    refusals: u32,
    /// Ports that were opened for a publisher, and are not set up yet.
    offered: Option<(u16, u16)>,
}

#[derive(Debug)]
enum State {
    Idle,
    Ready(Subject, Vec<SetUp>),
    Playing(Subject, Vec<SetUp>),
    Recording,
}

/// What the session is of.
#[derive(Clone, Debug)]
enum Subject {
    View {
        camera: String,
        tracks: Arc<[Track]>,
    },
    Publish {
        camera: String,
        offers: Vec<Offer>,
    },
}

impl Subject {
    fn camera(&self) -> &str {
        match self {
            Self::View { camera, .. } | Self::Publish { camera, .. } => camera,
        }
    }
}

/// Why a request is refused: the status, and a sentence for people.
type Problem = (StatusCode, String);

/// What a good answer bears: headers, a body, and what is done then.
#[derive(Default)]
struct Good {
    headers: Vec<(HeaderName, String)>,
    body: Option<String>,
    action: Option<Action>,
}

impl Server {
    /// A connection that has just been made. The numbers are random.
    pub fn new(nonce: [u8; 16], session: u64) -> Self {
        Self {
            checking: Checking::new(REALM, nonce),
            session: format!("{session:016x}"),
            state: State::Idle,
            user: None,
            mark: None,
            refusals: 0,
            offered: None,
        }
    }

    /// Whether this request, which comes next, needs two more ports for datagrams of a publisher,
    /// of packets and of reports: [`offer_ports`](Self::offer_ports).
    pub fn wants_ports(&self, request: &Request<Vec<u8>>, directory: &dyn Directory) -> bool {
        let is_publisher = *request.method() == Method::Setup && self.publishes();
        let is_allowed = is_publisher && directory.datagrams().is_some();
        is_allowed
            && self.offered.is_none()
            && way(transport_of(request), true).is_ok_and(|way| !way.is_tcp)
    }

    /// Ports that were opened.
    pub fn offer_ports(&mut self, ports: (u16, u16)) {
        self.offered = Some(ports);
    }

    /// The user of the last request that was good.
    pub fn user(&self) -> Option<&str> {
        self.user.as_deref()
    }

    /// Whether whoever was let in may go on with this: not a user that was removed since, has
    /// another password or other cameras, nor somebody without a name where there are users now.
    pub fn may_go_on(&self, camera: &str, what: Permission, directory: &dyn Directory) -> bool {
        directory.is_open()
            || self.user.as_ref().is_some_and(|user| {
                let mark = directory.mark(user);
                mark.is_some() && mark == self.mark && directory.may(user, camera, what)
            })
    }

    /// Answers a request.
    pub fn request(&mut self, request: &Request<Vec<u8>>, directory: &dyn Directory) -> Reply {
        let cseq = request
            .header(&headers::CSEQ)
            .map_or("0", |value| value.as_str());
        match self.answer(request, directory) {
            Ok(good) => {
                let action = good.action.unwrap_or(Action::None);
                let bytes = reply(StatusCode::Ok, cseq, good.headers, good.body);
                Reply { bytes, action }
            }
            Err((status, why)) => {
                let mut more = Vec::new();
                let mut action = Action::None;
                if status == StatusCode::Unauthorized {
                    // The one that all players know. Two challenges confuse some of them.
                    let challenge = if directory.knows_digests() {
                        self.checking.challenge(Algorithm::Md5)
                    } else {
                        self.checking.basic_challenge()
                    };
                    more.push((headers::WWW_AUTHENTICATE, challenge));
                    if self.refusals > REFUSALS_MAX {
                        action = Action::End;
                    }
                }
                let bytes = reply(status, cseq, more, Some(format!("{why}\n")));
                Reply { bytes, action }
            }
        }
    }

    /// Answers a request that cannot be looked at now.
    pub fn put_off(&self, request: &Request<Vec<u8>>, why: &str) -> Reply {
        let cseq = request.header(&headers::CSEQ);
        let cseq = cseq.map_or("0", |value| value.as_str());
        let status = StatusCode::ServiceUnavailable;
        let bytes = reply(status, cseq, Vec::new(), Some(format!("{why}\n")));
        Reply {
            bytes,
            action: Action::None,
        }
    }

    fn answer(
        &mut self,
        request: &Request<Vec<u8>>,
        directory: &dyn Directory,
    ) -> Result<Good, Problem> {
        let method = request.method();
        let name: &str = method.into();
        if *method == Method::Options {
            return Ok(Good {
                headers: vec![(headers::PUBLIC, METHODS.to_owned())],
                ..Good::default()
            });
        }
        let what = match method {
            Method::Announce | Method::Record => Permission::Publish,
            Method::Setup if self.publishes() => Permission::Publish,
            _ => Permission::View,
        };
        let (camera, track) = self.place(request)?;
        self.authorize(request, name, &camera, what, directory)?;
        match method {
            Method::Describe => describe(&camera, directory),
            Method::Announce => self.announce(request, camera, directory),
            Method::Setup => self.set_up(request, camera, track, directory),
            Method::Play => self.play(),
            Method::Record => self.record(),
            Method::Pause => self.pause(),
            Method::Teardown => {
                self.state = State::Idle;
                Ok(Good {
                    action: Some(Action::End),
                    ..Good::default()
                })
            }
            Method::GetParameter | Method::SetParameter => Ok(self.good(None)),
            _ => Err((
                StatusCode::NotImplemented,
                format!("{name} is not supported; these are: {METHODS}"),
            )),
        }
    }

    fn publishes(&self) -> bool {
        matches!(
            &self.state,
            State::Ready(Subject::Publish { .. }, _) | State::Recording
        )
    }

    /// The camera and the track that a request names.
    fn place(&self, request: &Request<Vec<u8>>) -> Result<(String, Option<u8>), Problem> {
        let path = request.request_uri().map_or("", |url| url.path());
        let path = path.trim_matches('/');
        let (camera, track) = match path.split_once('/') {
            Some((camera, rest)) => (camera, rest.trim_matches('/').strip_prefix("trackID=")),
            None => (path, None),
        };
        if camera.is_empty() {
            // `*` stands for the session's own.
            if let State::Ready(subject, _) | State::Playing(subject, _) = &self.state {
                return Ok((subject.camera().to_owned(), None));
            }
            let why = "the address names no camera: rtsp://HOST:PORT/CAMERA".to_owned();
            return Err((StatusCode::NotFound, why));
        }
        Ok((
            camera.to_owned(),
            track.and_then(|track| track.parse().ok()),
        ))
    }

    fn authorize(
        &mut self,
        request: &Request<Vec<u8>>,
        method: &str,
        camera: &str,
        what: Permission,
        directory: &dyn Directory,
    ) -> Result<(), Problem> {
        if directory.is_open() {
            return Ok(());
        }
        let header = request
            .header(&headers::AUTHORIZATION)
            .map(|value| value.as_str());
        let user = self
            .checking
            .check_by(header, method, &By(directory))
            .map_err(|refused| {
                self.refusals += u32::from(refused == Refused::Wrong);
                let why = "a user and a password are needed".to_owned();
                (StatusCode::Unauthorized, why)
            })?;
        if !directory.may(&user, camera, what) {
            let why = format!("user {user:?} may not do this with {camera:?}");
            return Err((StatusCode::Forbidden, why));
        }
        self.mark = directory.mark(&user);
        self.user = Some(user);
        Ok(())
    }

    fn announce(
        &mut self,
        request: &Request<Vec<u8>>,
        camera: String,
        directory: &dyn Directory,
    ) -> Result<Good, Problem> {
        if !matches!(self.state, State::Idle) {
            return Err(in_wrong_state("ANNOUNCE comes before SETUP"));
        }
        match directory.find(&camera) {
            Found::Unknown => return Err(unknown(&camera)),
            Found::Tracks(_) => {
                let why = format!("camera {camera:?} has a publisher already");
                return Err((StatusCode::Forbidden, why));
            }
            Found::Silent if !directory.takes_publishers(&camera) => {
                let why = format!(
                    "camera {camera:?} has a url, from which its streams are taken; leave that \
                     out to have it publish by itself"
                );
                return Err((StatusCode::Forbidden, why));
            }
            Found::Silent => {}
        }
        let description = sdp::read(request.body());
        let description =
            description.map_err(|error| (StatusCode::UnsupportedMediaType, error.to_string()))?;
        let offers = description.offers;
        self.state = State::Ready(Subject::Publish { camera, offers }, Vec::new());
        Ok(Good::default())
    }

    fn set_up(
        &mut self,
        request: &Request<Vec<u8>>,
        camera: String,
        track: Option<u8>,
        directory: &dyn Directory,
    ) -> Result<Good, Problem> {
        if matches!(self.state, State::Idle) {
            let tracks = match directory.find(&camera) {
                Found::Tracks(tracks) => tracks,
                Found::Silent => return Err(silent(&camera)),
                Found::Unknown => return Err(unknown(&camera)),
            };
            self.state = State::Ready(
                Subject::View {
                    camera: camera.clone(),
                    tracks,
                },
                Vec::new(),
            );
        }
        let State::Ready(subject, set_up) = &mut self.state else {
            return Err(in_wrong_state("SETUP comes before PLAY and RECORD"));
        };
        if subject.camera() != camera {
            return Err(in_wrong_state("a session is of one camera"));
        }
        let track = match subject {
            Subject::View { tracks, .. } => track.filter(|&id| usize::from(id) < tracks.len()),
            // The names of tracks are the publisher's own.
            Subject::Publish { offers, .. } => announced(request, offers)
                .or(track.map(usize::from))
                .or(Some(set_up.len()))
                .filter(|&id| id < offers.len())
                .and_then(|id| u8::try_from(id).ok()),
        };
        let track = track.filter(|id| set_up.iter().all(|other| other.track != *id));
        let track = track.ok_or_else(|| {
            let why = "there is no such track, or it was set up before".to_owned();
            (StatusCode::NotFound, why)
        })?;
        let is_viewer = matches!(subject, Subject::View { .. });
        let from = if is_viewer {
            directory.datagrams()
        } else {
            self.offered
        };
        let way = way(transport_of(request), from.is_some())?;
        let channels = way.interleaved.unwrap_or((2 * track, 2 * track + 1));
        let taken = |other: &SetUp| {
            let (data, reports) = other.channels;
            [data, reports].contains(&channels.0) || [data, reports].contains(&channels.1)
        };
        if set_up.iter().any(taken) || channels.0 == channels.1 {
            let why = "these channels are another track's".to_owned();
            return Err((StatusCode::UnsupportedTransport, why));
        }
        let ports = way.client_port.filter(|_| !way.is_tcp);
        let receives = self.offered.take_if(|_| !is_viewer && ports.is_some());
        set_up.push(SetUp {
            track,
            channels,
            ports,
            receives: receives.map(|(packets, _)| packets),
        });
        let mut good = self.good(None);
        let agreed = agreed(&way, channels, from);
        good.headers.push((headers::TRANSPORT, agreed));
        Ok(good)
    }

    fn play(&mut self) -> Result<Good, Problem> {
        match std::mem::replace(&mut self.state, State::Idle) {
            State::Ready(Subject::View { camera, tracks }, set_up) if !set_up.is_empty() => {
                let action = Action::Play {
                    camera: camera.clone(),
                    tracks: Arc::clone(&tracks),
                    set_up: set_up.clone(),
                };
                self.state = State::Playing(Subject::View { camera, tracks }, set_up);
                let mut good = self.good(Some(action));
                good.headers.push((headers::RANGE, "npt=now-".to_owned()));
                Ok(good)
            }
            // Once more, as some players do after a pause that was none.
            playing @ State::Playing(..) => {
                self.state = playing;
                Ok(self.good(None))
            }
            other => {
                self.state = other;
                Err(in_wrong_state("SETUP comes before PLAY"))
            }
        }
    }

    fn record(&mut self) -> Result<Good, Problem> {
        match std::mem::replace(&mut self.state, State::Recording) {
            State::Ready(Subject::Publish { camera, offers }, set_up) if !set_up.is_empty() => {
                Ok(self.good(Some(Action::Record {
                    camera,
                    offers,
                    set_up,
                })))
            }
            other => {
                self.state = other;
                Err(in_wrong_state("ANNOUNCE and SETUP come before RECORD"))
            }
        }
    }

    fn pause(&mut self) -> Result<Good, Problem> {
        match std::mem::replace(&mut self.state, State::Idle) {
            State::Playing(subject, set_up) => {
                self.state = State::Ready(subject, set_up);
                Ok(self.good(Some(Action::Pause)))
            }
            other => {
                self.state = other;
                Err(in_wrong_state("PAUSE comes after PLAY"))
            }
        }
    }

    /// An answer within the session.
    fn good(&self, action: Option<Action>) -> Good {
        let session = match self.state {
            State::Idle => None,
            _ => Some((
                headers::SESSION,
                format!("{};timeout={TIMEOUT}", self.session),
            )),
        };
        Good {
            headers: session.into_iter().collect(),
            body: None,
            action,
        }
    }
}

fn transport_of(request: &Request<Vec<u8>>) -> &str {
    let header = request.header(&headers::TRANSPORT);
    header.map_or("", |value| value.as_str())
}

/// The first way in a header that can be gone.
fn way(header: &str, has_datagrams: bool) -> Result<Transport, Problem> {
    let mut ways = transport::parse(header).into_iter();
    let way = ways.find(|way| {
        let is_good = way.is_tcp || has_datagrams && way.client_port.is_some_and(is_taken);
        is_good && !way.is_multicast
    });
    way.ok_or_else(|| {
        let why = "packets go in the connection: ask for RTP/AVP/TCP".to_owned();
        (StatusCode::UnsupportedTransport, why)
    })
}

/// What was agreed on, as a header says it.
fn agreed(way: &Transport, channels: (u8, u8), from: Option<(u16, u16)>) -> String {
    let mode = if way.records { ";mode=record" } else { "" };
    let datagrams = way.client_port.zip(from).filter(|_| !way.is_tcp);
    if let Some(((data, reports), (from, from_reports))) = datagrams {
        return format!(
            "RTP/AVP;unicast;client_port={data}-{reports};server_port={from}-{from_reports}{mode}"
        );
    }
    let (data, reports) = channels;
    format!("RTP/AVP/TCP;unicast;interleaved={data}-{reports}{mode}")
}

/// Whether datagrams may be sent to these ports: not to those of services.
fn is_taken((data, reports): (u16, u16)) -> bool {
    data >= 1_024 && reports >= 1_024 && data != reports
}

fn describe(camera: &str, directory: &dyn Directory) -> Result<Good, Problem> {
    match directory.find(camera) {
        Found::Unknown => Err(unknown(camera)),
        Found::Silent => Err(silent(camera)),
        Found::Tracks(tracks) => Ok(Good {
            headers: vec![(headers::CONTENT_TYPE, "application/sdp".to_owned())],
            body: Some(sdp::write(camera, &tracks)),
            action: None,
        }),
    }
}

/// The place of the stream whose name the address ends with.
fn announced(request: &Request<Vec<u8>>, offers: &[Offer]) -> Option<usize> {
    let url = request.request_uri()?.as_str();
    offers.iter().position(|offer| {
        !offer.control.is_empty() && url.ends_with(offer.control.trim_start_matches('/'))
    })
}

fn unknown(camera: &str) -> Problem {
    let why = format!("there is no camera named {camera:?}");
    (StatusCode::NotFound, why)
}

fn silent(camera: &str) -> Problem {
    let why = format!("camera {camera:?} has no session now; try again later");
    (StatusCode::NotFound, why)
}

fn in_wrong_state(why: &str) -> Problem {
    (StatusCode::MethodNotValidInThisState, why.to_owned())
}

fn reply(
    status: StatusCode,
    cseq: &str,
    more: Vec<(HeaderName, String)>,
    body: Option<String>,
) -> Vec<u8> {
    let mut response = Response::builder(Version::V1_0, status)
        .header(headers::CSEQ, cseq)
        .header(headers::SERVER, AGENT);
    for (name, value) in more {
        response = response.header(name, value);
    }
    let mut bytes = Vec::new();
    // Writing into memory does not fail.
    let _ = match body {
        Some(body) => response.build(body.into_bytes()).write(&mut bytes),
        None => response.empty().write(&mut bytes),
    };
    bytes
}

#[cfg(test)]
mod tests;
