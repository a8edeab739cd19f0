//! A camera that is asked by ONVIF: for its clock, by which it checks digests, for its profiles,
//! and for the address of a profile's stream.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::http::{Request, Uri, header};
use evenkeel::Class;
use evenkeel::net::TcpStream;
use evenkeel::time::timeout;
use hyper::client::conn::http1;
use rtsp_types::Url;

use super::document::Element;
use super::soap::{envelope, escaped};
use crate::rtsp::auth::Credentials;
use crate::tls::{self, Fingerprint, Stream};

/// The longest answer.
const ANSWER_BYTES_MAX: usize = 1 << 20;

const DEVICE: &str = "http://www.onvif.org/ver10/device/wsdl";
const MEDIA: &str = "http://www.onvif.org/ver10/media/wsdl";
const SCHEMA: &str = "http://www.onvif.org/ver10/schema";

/// Why a camera does not say where its streams are.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// The address is none.
    #[error("{0:?} is no address of ONVIF: write http://HOST/onvif/device_service")]
    Address(String),
    /// The connection.
    #[error("ONVIF: the connection: {0}")]
    Connection(#[from] io::Error),
    /// The exchange over it.
    #[error("ONVIF: the request: {0}")]
    Request(#[from] hyper::Error),
    /// It did not answer in time.
    #[error("ONVIF: no answer within {0:?}")]
    Late(Duration),
    /// It refuses.
    #[error("ONVIF: the camera answers {status} to {what}: {why}")]
    Refused {
        /// What it was asked for.
        what: &'static str,
        /// The status of HTTP.
        status: u16,
        /// What it says.
        why: String,
    },
    /// What it says is not understood.
    #[error("ONVIF: the answer to {what} is not understood: {why}")]
    Nonsense {
        /// What it was asked for.
        what: &'static str,
        /// What is wrong with it.
        why: String,
    },
    /// There is no such profile.
    #[error("ONVIF: the camera has no profile {wanted:?}; it has {}", .known.join(", "))]
    NoProfile {
        /// What was asked for.
        wanted: String,
        /// Those that it has, by their names and tokens.
        known: Vec<String>,
    },
}

/// A way in which a camera encodes what it sees.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Profile {
    /// What the camera calls it in requests.
    pub token: String,
    /// And for people.
    pub name: String,
    /// How pictures are encoded.
    pub encoding: Option<String>,
    /// Pixels from left to right, and from top to bottom.
    pub size: Option<(u32, u32)>,
}

impl Profile {
    fn of(element: &Element) -> Option<Self> {
        let number = |name| element.find("Resolution")?.said(name)?.parse().ok();
        Some(Self {
            token: element.attribute("token")?.to_owned(),
            name: element.said("Name").unwrap_or_default().to_owned(),
            encoding: element.said("Encoding").map(str::to_owned),
            size: number("Width").zip(number("Height")),
        })
    }
}

/// Where a camera is asked, and how.
#[derive(Clone, Debug)]
pub struct Device<'a> {
    /// Its address, of the service of devices.
    pub url: &'a Url,
    /// Who asks.
    pub credentials: Option<&'a Credentials>,
    /// The certificate that it shows, over TLS.
    pub fingerprint: Option<Fingerprint>,
    /// How long each answer may take.
    pub patience: Duration,
}

/// The profiles of a camera.
///
/// # Errors
///
/// [`DeviceError`].
pub async fn profiles(device: &Device<'_>) -> Result<Vec<Profile>, DeviceError> {
    Ok(device.media().await?.1)
}

/// Where a profile's stream is: of the one with this name or token, or of the first one. The host
/// is the one that was asked, as cameras behind a router say another one, and as a password is for
/// nobody else.
///
/// # Errors
///
/// [`DeviceError`].
pub async fn stream(device: &Device<'_>, profile: Option<&str>) -> Result<Url, DeviceError> {
    let (media, profiles) = device.media().await?;
    let is_wanted = |known: &&Profile| {
        profile.is_none_or(|wanted| known.token == wanted || known.name == wanted)
    };
    let found = profiles.iter().find(is_wanted);
    let found = found.ok_or_else(|| DeviceError::NoProfile {
        wanted: profile.unwrap_or("of any kind").to_owned(),
        known: profiles
            .iter()
            .map(|it| format!("{:?} ({})", it.name, it.token))
            .collect(),
    })?;
    let body = format!(
        "<GetStreamUri xmlns=\"{MEDIA}\"><StreamSetup><Stream xmlns=\"{SCHEMA}\">RTP-Unicast\
         </Stream><Transport xmlns=\"{SCHEMA}\"><Protocol>RTSP</Protocol></Transport>\
         </StreamSetup><ProfileToken>{}</ProfileToken></GetStreamUri>",
        escaped(&found.token)
    );
    let what = "GetStreamUri";
    let answer = device
        .ask(&media.url, what, &body, Some(&media.now))
        .await?;
    let wrong = |why: String| DeviceError::Nonsense { what, why };
    let said = answer.said("Uri").unwrap_or_default();
    let mut url = Url::parse(said).map_err(|error| wrong(error.to_string()))?;
    if !matches!(url.scheme(), "rtsp" | "rtsps") {
        return Err(wrong(format!("{said:?} is no address of RTSP")));
    }
    url.set_host(device.url.host_str())
        .map_err(|error| wrong(error.to_string()))?;
    Ok(url)
}

/// Where profiles are asked for, and the camera's time.
struct Media {
    url: Url,
    now: String,
}

impl Device<'_> {
    async fn media(&self) -> Result<(Media, Vec<Profile>), DeviceError> {
        let now = self.now().await?;
        let what = "GetCapabilities";
        let body = format!("<{what} xmlns=\"{DEVICE}\"><Category>Media</Category></{what}>");
        let answer = self.ask(self.url, what, &body, Some(&now)).await?;
        let media = answer.find("Media").and_then(|media| media.said("XAddr"));
        let mut url = match media.map(Url::parse) {
            Some(Ok(url)) if url.has_host() => url,
            // Cameras that have one service for all.
            _ => self.url.clone(),
        };
        if url.set_host(self.url.host_str()).is_err() {
            url = self.url.clone();
        }
        let what = "GetProfiles";
        let body = format!("<{what} xmlns=\"{MEDIA}\"/>");
        let answer = self.ask(&url, what, &body, Some(&now)).await?;
        let profiles = answer.all("Profiles").into_iter().filter_map(Profile::of);
        Ok((Media { url, now }, profiles.collect()))
    }

    /// The camera's time; ours, if it does not say it.
    async fn now(&self) -> Result<String, DeviceError> {
        let what = "GetSystemDateAndTime";
        let body = format!("<{what} xmlns=\"{DEVICE}\"/>");
        let answer = match self.ask(self.url, what, &body, None).await {
            Err(DeviceError::Refused { .. }) => None,
            answer => Some(answer?),
        };
        let said = answer
            .as_ref()
            .and_then(|answer| answer.find("UTCDateTime"));
        let time = said.and_then(|said| {
            let number = |name| said.said(name)?.parse::<i16>().ok();
            let small = |name| number(name).and_then(|number| i8::try_from(number).ok());
            let date = jiff::civil::Date::new(number("Year")?, small("Month")?, small("Day")?);
            let time =
                jiff::civil::Time::new(small("Hour")?, small("Minute")?, small("Second")?, 0);
            let at = jiff::civil::DateTime::from_parts(date.ok()?, time.ok()?);
            jiff::tz::Offset::UTC.to_timestamp(at).ok()
        });
        let time = time.unwrap_or_else(jiff::Timestamp::now);
        Ok(time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
    }

    /// Asks, by a connection of its own.
    async fn ask(
        &self,
        url: &Url,
        what: &'static str,
        body: &str,
        now: Option<&str>,
    ) -> Result<Element, DeviceError> {
        let credentials = self.credentials.filter(|_| now.is_some());
        let envelope = envelope(body, credentials, now.unwrap_or_default());
        let asked = timeout(self.patience, self.exchange(url, envelope)).await;
        let (status, text) = asked.unwrap_or(Err(DeviceError::Late(self.patience)))?;
        let read = Element::read(&text);
        if !(200..300).contains(&status) {
            // The text of a fault, or of a page that says as much.
            let fault = read.ok();
            let why = fault.as_ref().and_then(|fault| fault.said("Text"));
            let why: String = why
                .unwrap_or("no reason is given")
                .chars()
                .take(200)
                .collect();
            return Err(DeviceError::Refused { what, status, why });
        }
        read.map_err(|why| DeviceError::Nonsense { what, why })
    }

    async fn exchange(&self, url: &Url, envelope: String) -> Result<(u16, String), DeviceError> {
        let is_tls = url.scheme() == "https";
        let host = url.host_str().unwrap_or_default();
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let port = url.port_or_known_default().unwrap_or(80);
        let target = match url.query() {
            Some(query) => format!("{}?{query}", url.path()),
            None => url.path().to_owned(),
        };
        let target: Uri = target.parse().map_err(io::Error::other)?;
        let request = Request::post(target)
            .header(header::HOST, format!("{host}:{port}"))
            .header(header::CONTENT_TYPE, "application/soap+xml; charset=utf-8")
            .header(header::CONTENT_LENGTH, envelope.len())
            .body(Body::from(envelope))
            .map_err(io::Error::other)?;
        let socket = TcpStream::connect((bare, port)).await?;
        let stream = if is_tls {
            let config = tls::trusting(self.fingerprint).map_err(io::Error::other)?;
            tls::connect(Arc::clone(&config), bare, socket).await?
        } else {
            Stream::plain(socket)
        };
        let (mut sender, connection) = http1::handshake(stream).await?;
        // It ends with its sender; what goes wrong the exchange is told.
        drop(evenkeel::spawn_in(Class::NORMAL, async {
            _ = connection.await;
        }));
        let (head, answer) = sender.send_request(request).await?.into_parts();
        let bytes = to_bytes(Body::new(answer), ANSWER_BYTES_MAX).await;
        let bytes = bytes.map_err(io::Error::other)?;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        Ok((head.status.as_u16(), text))
    }
}

/// The address of a camera.
///
/// # Errors
///
/// [`DeviceError::Address`].
pub fn address(text: &str) -> Result<Url, DeviceError> {
    match Url::parse(text) {
        Ok(url) if matches!(url.scheme(), "http" | "https") && url.has_host() => Ok(url),
        // Not what may be a password.
        _ => Err(DeviceError::Address(
            text.split('@').next_back().unwrap_or_default().to_owned(),
        )),
    }
}
