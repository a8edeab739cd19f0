//! Asks a camera for its streams: one request after the other, each answered before the next.
//!
//! ```text
//!  OPTIONS ──▶ DESCRIBE ──▶ SETUP, for each track ──▶ PLAY ──▶ keep-alives ──▶ TEARDOWN
//!     (1)        (2) │ 401: again with credentials   (3)  (4)     (5)            (6)
//!                    └ 30x: begin at the other address
//! ```
//!
//! (1) [`begin`](Client::begin), (2) and what follows [`answer`](Client::answer), after (2)
//! [`set_up`](Client::set_up), (5) [`keep_alive`](Client::keep_alive), (6)
//! [`tear_down`](Client::tear_down).

mod address;
mod error;

pub use error::ClientError;

use std::collections::VecDeque;
use std::time::Duration;

use rtsp_types::{Method, Request, Response, StatusCode, Url, Version, headers};

use super::AGENT;
use super::auth::{Answering, Credentials};
use super::sdp::{self, Description};
use super::transport::{self, Transport};
use address::{credentials_of, joined};

/// The most redirects that are followed.
pub const REDIRECTS_MAX: usize = 4;

/// What to do next.
#[derive(Debug)]
pub enum Step {
    /// Send these bytes, and wait for the answer.
    Send(Vec<u8>),
    /// These streams are offered: open sockets, if datagrams are wanted, and go on with
    /// [`Client::set_up`].
    Described(Description),
    /// Begin again at this address, with [`Client::redirected`].
    Redirect(Url),
    /// Packets come from now on.
    Playing(Playing),
    /// Nothing: the answer to a keep-alive.
    Alive,
}

/// A session that plays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Playing {
    /// How often the camera wants to hear from us.
    pub keep_alive: Duration,
    /// What was agreed on for each track.
    pub transports: Vec<Transport>,
}

/// How packets shall come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// In the connection.
    Tcp,
    /// In datagrams, to these ports, for each track a pair of which this is the first.
    Udp(Vec<u16>),
}

/// How often in a row a nonce may be too old. One that is so at once would make an endless loop.
const STALE_MAX: u8 = 3;

/// The longest time without a keep-alive. Cameras that say nothing end sessions after 60 s.
const KEEP_ALIVE_MAX: Duration = Duration::from_secs(30);

/// Asks one camera, over one connection.
#[derive(Debug)]
pub struct Client {
    url: Url,
    credentials: Option<Credentials>,
    answering: Option<Answering>,
    /// How often the last request was refused for want of credentials.
    refusals: u8,
    cseq: u32,
    session: Option<String>,
    session_timeout: Duration,
    state: State,
    base: String,
    tracks: VecDeque<Track>,
    agreed: Vec<Transport>,
    has_get_parameter: bool,
    redirects: usize,
    random: [u8; 8],
}

#[derive(Debug)]
struct Track {
    url: String,
    /// The channels that are asked for; `None` of datagrams.
    channels: Option<(u8, u8)>,
    wanted: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Options,
    Describe,
    /// Streams are known, and nothing was asked since.
    Described,
    SetUp,
    Play,
    Playing,
}

impl Client {
    /// For the camera at this address. `random` is for digests.
    pub fn new(mut url: Url, credentials: Option<Credentials>, random: [u8; 8]) -> Self {
        // What stands in the address for people is no part of requests.
        let in_url = credentials_of(&url);
        let _ = url.set_username("");
        let _ = url.set_password(None);
        Self {
            base: url.to_string(),
            url,
            credentials: credentials.or(in_url),
            answering: None,
            refusals: 0,
            cseq: 0,
            session: None,
            session_timeout: Duration::from_secs(60),
            state: State::Options,
            tracks: VecDeque::new(),
            agreed: Vec::new(),
            has_get_parameter: false,
            redirects: 0,
            random,
        }
    }

    /// The address that is asked.
    pub fn url(&self) -> &Url {
        &self.url
    }

    /// The first request.
    pub fn begin(&mut self) -> Vec<u8> {
        self.state = State::Options;
        self.repeat()
    }

    /// Begins again at another address, over another connection.
    ///
    /// # Errors
    ///
    /// [`ClientError::Redirects`].
    pub fn redirected(&mut self, url: Url) -> Result<Vec<u8>, ClientError> {
        self.redirects += 1;
        if self.redirects > REDIRECTS_MAX {
            return Err(ClientError::Redirects(url.to_string()));
        }
        let mut next = Self::new(url, None, self.random);
        // A password is for the camera that it was given for, not for another host, nor for those
        // who listen where there is no TLS.
        let same_host = next.url.host_str() == self.url.host_str();
        let is_bared = self.url.scheme() == "rtsps" && next.url.scheme() == "rtsp";
        if next.credentials.is_none() && same_host && !is_bared {
            next.credentials = self.credentials.take();
        }
        next.redirects = self.redirects;
        *self = next;
        Ok(self.begin())
    }

    /// Asks for the streams, in the order of the description.
    ///
    /// # Errors
    ///
    /// [`ClientError::Answer`]: nothing was described.
    pub fn set_up(
        &mut self,
        description: &Description,
        wanted: &Wanted,
    ) -> Result<Vec<u8>, ClientError> {
        if let Some(control) = &description.control
            && control.contains("://")
        {
            self.base.clone_from(control);
        }
        self.agreed.clear();
        let tracks = description.offers.iter().enumerate().map(|(index, offer)| {
            let (channels, wanted) = way(index, wanted);
            Track {
                url: joined(&self.base, &offer.control),
                channels,
                wanted,
            }
        });
        self.tracks = tracks.collect();
        if self.tracks.is_empty() {
            return Err(self.wrong("offers no streams"));
        }
        self.state = State::SetUp;
        Ok(self.repeat())
    }

    /// Takes in an answer.
    ///
    /// # Errors
    ///
    /// [`ClientError`]: the session is over.
    pub fn answer(&mut self, response: &Response<Vec<u8>>) -> Result<Step, ClientError> {
        self.notice_session(response);
        match response.status() {
            StatusCode::Unauthorized => return self.unauthorized(response).map(Step::Send),
            StatusCode::MovedPermanently
            | StatusCode::Found
            | StatusCode::SeeOther
            | StatusCode::Extension(307 | 308) => return Self::redirect(response),
            StatusCode::Continue => return Ok(Step::Alive),
            _ => {}
        }
        self.refusals = 0;
        let is_good = u16::from(response.status()) / 100 == 2;
        // Keep-alives that are refused keep sessions alive too; and some cameras know no OPTIONS.
        if !is_good && !matches!(self.state, State::Playing | State::Options) {
            return Err(self.refused(response));
        }
        match self.state {
            State::Options => {
                let public = response
                    .header(&headers::PUBLIC)
                    .map_or("", |value| value.as_str());
                let mut methods = public.split(',').map(str::trim);
                self.has_get_parameter =
                    methods.any(|method| method.eq_ignore_ascii_case("GET_PARAMETER"));
                self.state = State::Describe;
                Ok(Step::Send(self.repeat()))
            }
            State::Describe => {
                self.state = State::Described;
                let base = response.header(&headers::CONTENT_BASE);
                let base = base.or_else(|| response.header(&headers::CONTENT_LOCATION));
                if let Some(base) = base.map(|value| value.as_str().trim())
                    && base.contains("://")
                {
                    base.clone_into(&mut self.base);
                }
                Ok(Step::Described(sdp::read(response.body())?))
            }
            State::SetUp => self.was_set_up(response),
            State::Play => {
                self.state = State::Playing;
                Ok(Step::Playing(Playing {
                    keep_alive: (self.session_timeout / 2).min(KEEP_ALIVE_MAX),
                    transports: self.agreed.clone(),
                }))
            }
            State::Playing => Ok(Step::Alive),
            State::Described => Err(self.wrong("came without a request")),
        }
    }

    /// A request that keeps the session alive.
    pub fn keep_alive(&mut self) -> Vec<u8> {
        let (method, name) = if self.has_get_parameter {
            (Method::GetParameter, "GET_PARAMETER")
        } else {
            (Method::Options, "OPTIONS")
        };
        self.request(method, name, &self.base.clone(), &[])
    }

    /// Ends the session. No answer is waited for.
    pub fn tear_down(&mut self) -> Option<Vec<u8>> {
        self.session.as_ref()?;
        Some(self.request(Method::Teardown, "TEARDOWN", &self.base.clone(), &[]))
    }

    /// The request of this state, once more after a refusal for want of credentials.
    fn repeat(&mut self) -> Vec<u8> {
        let url = self.url.to_string();
        match self.state {
            State::Options => self.request(Method::Options, "OPTIONS", &url, &[]),
            State::Describe | State::Described => {
                let accept = (headers::ACCEPT, "application/sdp".to_owned());
                self.request(Method::Describe, "DESCRIBE", &url, &[accept])
            }
            State::SetUp => {
                let first = self.tracks.front();
                let (url, wanted) = first.map_or_else(Default::default, |track| {
                    (track.url.clone(), track.wanted.clone())
                });
                let wanted = (headers::TRANSPORT, wanted);
                self.request(Method::Setup, "SETUP", &url, &[wanted])
            }
            State::Play => {
                let range = (headers::RANGE, "npt=0.000-".to_owned());
                self.request(Method::Play, "PLAY", &self.base.clone(), &[range])
            }
            State::Playing => self.keep_alive(),
        }
    }

    fn was_set_up(&mut self, response: &Response<Vec<u8>>) -> Result<Step, ClientError> {
        let header = response
            .header(&headers::TRANSPORT)
            .map(|value| value.as_str());
        let agreed = header.and_then(|header| transport::parse(header).into_iter().next());
        let mut agreed = agreed.ok_or_else(|| self.wrong("says nothing of the transport"))?;
        let Some(track) = self.tracks.pop_front() else {
            return Err(self.wrong("came without a request"));
        };
        if track.channels.is_some() != agreed.is_tcp {
            return Err(self.wrong("is for another transport than was asked for"));
        }
        // Some do not repeat the channels that they agree to.
        agreed.interleaved = agreed.interleaved.or(track.channels);
        self.agreed.push(agreed);
        if self.tracks.is_empty() {
            self.state = State::Play;
        }
        Ok(Step::Send(self.repeat()))
    }

    fn unauthorized(&mut self, response: &Response<Vec<u8>>) -> Result<Vec<u8>, ClientError> {
        let header = response.header(&headers::WWW_AUTHENTICATE);
        let header = header.map_or("", |value| value.as_str());
        let credentials = self.credentials.as_ref().ok_or(ClientError::Credentials)?;
        let is_stale = Answering::is_stale(header) && self.refusals < STALE_MAX;
        if self.refusals > 0 && !is_stale {
            return Err(ClientError::Refused(credentials.user.clone()));
        }
        let answering = Answering::best(header);
        let answering = answering.ok_or_else(|| ClientError::Challenge(header.to_owned()))?;
        self.answering = Some(answering);
        self.refusals += 1;
        Ok(self.repeat())
    }

    fn redirect(response: &Response<Vec<u8>>) -> Result<Step, ClientError> {
        let location = response.header(&headers::LOCATION);
        let location = location.map_or("", |value| value.as_str().trim());
        let url = address::parse(location);
        let url = url.ok_or_else(|| ClientError::Location(location.to_owned()))?;
        Ok(Step::Redirect(url))
    }

    fn notice_session(&mut self, response: &Response<Vec<u8>>) {
        let Some(header) = response.header(&headers::SESSION) else {
            return;
        };
        let mut parts = header.as_str().split(';').map(str::trim);
        if let Some(id) = parts.next().filter(|id| !id.is_empty()) {
            self.session = Some(id.to_owned());
        }
        let timeout = parts.find_map(|part| part.strip_prefix("timeout="));
        if let Some(seconds) = timeout.and_then(|timeout| timeout.parse::<u32>().ok()) {
            // Shorter than some seconds would be nothing but keep-alives.
            self.session_timeout = Duration::from_secs(u64::from(seconds.max(4)));
        }
    }

    fn request(
        &mut self,
        method: Method,
        name: &str,
        url: &str,
        more: &[(rtsp_types::HeaderName, String)],
    ) -> Vec<u8> {
        self.cseq += 1;
        let mut request = Request::builder(method, Version::V1_0)
            .header(headers::CSEQ, self.cseq.to_string())
            .header(headers::USER_AGENT, AGENT);
        // The digest is of the address as it is written in the request.
        // One that a camera made up, of another sort, would be no word of a request.
        let parsed = address::parse(url).unwrap_or_else(|| self.url.clone());
        let written = parsed.to_string();
        request = request.request_uri(parsed);
        for (header, value) in more {
            request = request.header(header.clone(), value.clone());
        }
        if let Some(session) = &self.session {
            request = request.header(headers::SESSION, session.clone());
        }
        if let (Some(answering), Some(credentials)) = (&mut self.answering, &self.credentials) {
            let cnonce: String = self
                .random
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect();
            let value = answering.authorization(credentials, name, &written, &cnonce);
            request = request.header(headers::AUTHORIZATION, value);
        }
        let mut bytes = Vec::new();
        // Writing into memory does not fail.
        let _ = request.empty().write(&mut bytes);
        bytes
    }

    fn method(&self) -> &'static str {
        match self.state {
            State::Options => "OPTIONS",
            State::Describe | State::Described => "DESCRIBE",
            State::SetUp => "SETUP",
            State::Play => "PLAY",
            State::Playing => "a keep-alive",
        }
    }

    fn wrong(&self, what: &'static str) -> ClientError {
        ClientError::Answer {
            method: self.method(),
            what,
        }
    }

    fn refused(&self, response: &Response<Vec<u8>>) -> ClientError {
        let status = u16::from(response.status());
        let hint = match status {
            403 => "; the user may not see this stream",
            404 => "; is the path in the url right?",
            453 => "; it has too many viewers, or streams that are too large",
            461 => "; try the other transport, tcp or udp",
            503 => "; it may have as many viewers as it can",
            _ => "",
        };
        ClientError::Status {
            method: self.method(),
            status,
            reason: response.reason_phrase().to_owned(),
            hint,
        }
    }
}

/// How packets of this track shall come.
fn way(index: usize, wanted: &Wanted) -> (Option<(u8, u8)>, String) {
    match wanted {
        Wanted::Tcp => {
            // There are fewer tracks than channels.
            let channel = 2 * index as u8;
            let text = format!("RTP/AVP/TCP;unicast;interleaved={channel}-{}", channel + 1);
            (Some((channel, channel + 1)), text)
        }
        Wanted::Udp(ports) => {
            let port = ports.get(index).copied().unwrap_or_default();
            let reports = port.wrapping_add(1);
            (
                None,
                format!("RTP/AVP;unicast;client_port={port}-{reports}"),
            )
        }
    }
}

#[cfg(test)]
mod tests;
