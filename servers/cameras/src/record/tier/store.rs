//! The requests that a store with the interface of S3 understands, over a few connections that are
//! used again.
//!
//! Requests are signed by their address. Neither addresses nor credentials are in errors.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, Request, header};
use bytes::Bytes;
use evenkeel::Class;
use evenkeel::net::TcpStream;
use evenkeel::time::timeout;
use hyper::client::conn::http1::{self, SendRequest};
use rustls::ClientConfig;
use rusty_s3::actions::{
    CompleteMultipartUploadResponse, CreateMultipartUpload, ListObjectsV2, ListParts, S3Action,
};
use rusty_s3::{Bucket, BucketError, Credentials, Method, UrlStyle};

use super::Settings;
use crate::tls::{self, NoAuthorities, Stream};

/// How long an address is good: a request is made at once.
const SIGNED_FOR: Duration = Duration::from_secs(900);
/// No answer but a part of an object is longer.
const ANSWER_BYTES_MAX: usize = 8 << 20;
/// Connections that wait for their next request.
const IDLE_MAX: usize = 8;

/// Why a request was not met.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The connection.
    #[error("the connection: {0}")]
    Connection(#[from] io::Error),
    /// The exchange over it.
    #[error("the request: {0}")]
    Request(#[from] hyper::Error),
    /// Nothing was answered in time.
    #[error("there was no answer within {0:?}")]
    Late(Duration),
    /// The store refuses.
    #[error("the answer is {status} {code}")]
    Answer {
        /// The status of HTTP.
        status: u16,
        /// What the store calls it.
        code: String,
    },
    /// What it says is not understood.
    #[error("the answer is not understood: {0}")]
    Nonsense(String),
}

impl StoreError {
    /// Whether what was asked for is not there.
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Answer { status: 404, .. })
    }
}

/// Why a store cannot be used at all.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// Its address.
    #[error("endpoint is no address of a store: {0}; write https://HOST or https://HOST:PORT")]
    Endpoint(String),
    /// Who we are is not said.
    #[error(
        "there are no credentials: set credentials to a file with access_key and secret_key, or \
         AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the environment"
    )]
    NoCredentials,
    /// Or cannot be read.
    #[error("credentials: {file}: {why}")]
    Credentials {
        /// The file.
        file: String,
        /// What is wrong, without what is in it.
        why: String,
    },
    /// Certificates of others cannot be checked.
    #[error(transparent)]
    Authorities(#[from] NoAuthorities),
}

/// A part of an object that is being put together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) number: u16,
    pub(super) etag: String,
    pub(super) bytes: u64,
}

/// The store.
pub(super) struct Store {
    bucket: Bucket,
    credentials: Credentials,
    host: String,
    port: u16,
    tls: Option<Arc<ClientConfig>>,
    patience: Duration,
    idle: Mutex<Vec<SendRequest<Body>>>,
}

impl Store {
    /// By its settings. This reads a file.
    pub(super) fn new(settings: &Settings) -> Result<Self, SettingsError> {
        let endpoint = settings.endpoint.parse();
        let endpoint =
            endpoint.map_err(|error| SettingsError::Endpoint(BucketError::from(error).to_string()));
        let (name, region) = (settings.bucket.clone(), settings.region.clone());
        let bucket = Bucket::new(endpoint?, UrlStyle::Path, name, region);
        let bucket = bucket.map_err(|error| SettingsError::Endpoint(error.to_string()))?;
        let url = bucket.base_url();
        let host = url.host_str().unwrap_or_default().to_owned();
        let tls = match url.scheme() {
            "https" => Some(tls::trusting(None)?),
            _ => None,
        };
        Ok(Self {
            port: url.port_or_known_default().unwrap_or(443),
            credentials: super::credentials::read(settings.credentials.as_deref())?,
            host,
            tls,
            patience: settings.patience,
            idle: Mutex::default(),
            bucket,
        })
    }

    /// Puts a whole object.
    pub(super) async fn put(&self, key: &str, bytes: Bytes) -> Result<(), StoreError> {
        let action = self.bucket.put_object(Some(&self.credentials), key);
        self.send(&action, None, bytes).await.map(drop)
    }

    /// A part of an object; shorter at its end.
    pub(super) async fn get(
        &self,
        key: &str,
        offset: u64,
        len: usize,
    ) -> Result<Bytes, StoreError> {
        if len == 0 {
            return Ok(Bytes::new());
        }
        let action = self.bucket.get_object(Some(&self.credentials), key);
        let range = (format!("bytes={offset}-{}", offset + len as u64 - 1), len);
        match self.send(&action, Some(range), Bytes::new()).await {
            Ok((_, bytes)) => Ok(bytes.slice(..bytes.len().min(len))),
            // Nothing is there from the offset on.
            Err(StoreError::Answer { status: 416, .. }) => Ok(Bytes::new()),
            Err(error) => Err(error),
        }
    }

    /// Keys that begin so, behind one of them, with their sizes; and directories, if names are
    /// wanted up to the next `/`. As many as the store says at a time; whether there are more.
    pub(super) async fn list(
        &self,
        prefix: &str,
        after: Option<&str>,
        has_directories: bool,
    ) -> Result<(Vec<String>, Vec<String>, bool), StoreError> {
        let mut action: ListObjectsV2 = self.bucket.list_objects_v2(Some(&self.credentials));
        action.with_prefix(prefix);
        if let Some(after) = after {
            action.with_start_after(after);
        }
        if has_directories {
            action.with_delimiter("/");
        }
        let (_, bytes) = self.send(&action, None, Bytes::new()).await?;
        let said = ListObjectsV2::parse_response(&text(&bytes)).map_err(nonsense)?;
        let keys = said.contents.into_iter().map(|object| object.key).collect();
        let directories = said.common_prefixes.into_iter().map(|it| it.prefix);
        let is_more = said.next_continuation_token.is_some();
        Ok((keys, directories.collect(), is_more))
    }

    /// Begins an object that is put in parts. Returns the name of the upload.
    pub(super) async fn begin(&self, key: &str) -> Result<String, StoreError> {
        let action = (self.bucket).create_multipart_upload(Some(&self.credentials), key);
        let (_, bytes) = self.send(&action, None, Bytes::new()).await?;
        let said = CreateMultipartUpload::parse_response(&text(&bytes)).map_err(nonsense)?;
        Ok(said.upload_id().to_owned())
    }

    /// Puts a part. Returns its tag.
    pub(super) async fn part(
        &self,
        (key, upload): (&str, &str),
        number: u16,
        bytes: Bytes,
    ) -> Result<String, StoreError> {
        let action = (self.bucket).upload_part(Some(&self.credentials), key, number, upload);
        let (headers, _) = self.send(&action, None, bytes).await?;
        let tag = headers.get(header::ETAG).and_then(|tag| tag.to_str().ok());
        tag.map(str::to_owned)
            .ok_or_else(|| StoreError::Nonsense("a part without a tag".to_owned()))
    }

    /// The parts that are there, in their order.
    pub(super) async fn parts(&self, (key, upload): (&str, &str)) -> Result<Vec<Part>, StoreError> {
        let mut parts: Vec<Part> = Vec::new();
        loop {
            let mut action = (self.bucket).list_parts(Some(&self.credentials), key, upload);
            if let Some(last) = parts.last() {
                action.set_part_number_marker(last.number);
            }
            let (_, bytes) = self.send(&action, None, Bytes::new()).await?;
            let said = ListParts::parse_response(&text(&bytes)).map_err(nonsense)?;
            let before = parts.len();
            parts.extend(said.parts.into_iter().map(|part| Part {
                number: part.number,
                etag: part.etag,
                bytes: part.size,
            }));
            if said.next_part_number_marker.is_none() || parts.len() == before {
                return Ok(parts);
            }
        }
    }

    /// Makes an object of its parts.
    pub(super) async fn complete(
        &self,
        (key, upload): (&str, &str),
        tags: &[String],
    ) -> Result<(), StoreError> {
        let complete = || {
            let tags = tags.iter().map(String::as_str);
            let of = Some(&self.credentials);
            self.bucket.complete_multipart_upload(of, key, upload, tags)
        };
        let body = Bytes::from(complete().body());
        let (_, bytes) = self.send(&complete(), None, body).await?;
        // A failure may come behind a status that says that all is well.
        let said = CompleteMultipartUploadResponse::parse(&text(&bytes));
        said.map(drop).map_err(nonsense)
    }

    /// Gives up an object that is put in parts.
    pub(super) async fn abort(&self, (key, upload): (&str, &str)) -> Result<(), StoreError> {
        let action = (self.bucket).abort_multipart_upload(Some(&self.credentials), key, upload);
        self.send(&action, None, Bytes::new()).await.map(drop)
    }

    async fn send<'a, A: S3Action<'a>>(
        &self,
        action: &A,
        range: Option<(String, usize)>,
        body: Bytes,
    ) -> Result<(HeaderMap, Bytes), StoreError> {
        let method = match A::METHOD {
            Method::Head => "HEAD",
            Method::Get => "GET",
            Method::Post => "POST",
            Method::Put => "PUT",
            Method::Delete => "DELETE",
        };
        let url = action.sign(SIGNED_FOR);
        let target = format!("{}?{}", url.path(), url.query().unwrap_or_default());
        let exchanged = async {
            // A connection that has waited may have been closed meanwhile: then once more.
            let waited = self.idle().pop();
            if let Some(sender) = waited
                && let Ok(answer) = self.exchange(sender, method, &target, &range, &body).await
            {
                return Ok(answer);
            }
            let sender = self.connect().await?;
            self.exchange(sender, method, &target, &range, &body).await
        };
        let exchanged = timeout(self.patience, exchanged).await;
        let (status, headers, bytes) = exchanged.unwrap_or(Err(StoreError::Late(self.patience)))?;
        match status {
            200..300 => Ok((headers, bytes)),
            _ => Err(StoreError::Answer {
                status,
                code: code(&text(&bytes)),
            }),
        }
    }

    async fn exchange(
        &self,
        mut sender: SendRequest<Body>,
        method: &str,
        target: &str,
        range: &Option<(String, usize)>,
        body: &Bytes,
    ) -> Result<(u16, HeaderMap, Bytes), StoreError> {
        let known = match (self.tls.is_some(), self.port) {
            (true, 443) | (false, 80) => self.host.clone(),
            (_, port) => format!("{}:{port}", self.host),
        };
        let mut request = Request::builder()
            .method(method)
            .uri(target)
            .header(header::HOST, known)
            .header(header::CONTENT_LENGTH, body.len());
        let mut bytes_max = ANSWER_BYTES_MAX;
        if let Some((range, len)) = range {
            request = request.header(header::RANGE, range);
            bytes_max = bytes_max.max(*len);
        }
        let request = request.body(Body::from(body.clone()));
        let request = request.map_err(io::Error::other)?;
        sender.ready().await?;
        let (head, answer) = sender.send_request(request).await?.into_parts();
        let bytes = to_bytes(Body::new(answer), bytes_max).await;
        let bytes = bytes.map_err(io::Error::other)?;
        let mut idle = self.idle();
        if idle.len() < IDLE_MAX {
            idle.push(sender);
        }
        Ok((head.status.as_u16(), head.headers, bytes))
    }

    async fn connect(&self) -> Result<SendRequest<Body>, StoreError> {
        let host = self.host.trim_start_matches('[').trim_end_matches(']');
        let socket = TcpStream::connect((host, self.port)).await?;
        socket.set_nodelay(true)?;
        let stream = match &self.tls {
            None => Stream::plain(socket),
            Some(config) => tls::connect(Arc::clone(config), host, socket).await?,
        };
        let (sender, connection) = http1::handshake(stream).await?;
        // It ends with its sender; what goes wrong the exchange is told.
        drop(evenkeel::spawn_in(Class::BULK, async {
            _ = connection.await;
        }));
        Ok(sender)
    }

    fn idle(&self) -> MutexGuard<'_, Vec<SendRequest<Body>>> {
        // A list, which no panic leaves half-changed.
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn text(bytes: &Bytes) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

fn nonsense(error: impl std::fmt::Display) -> StoreError {
    StoreError::Nonsense(error.to_string())
}

/// What a store calls its error: a word between two tags.
fn code(answer: &str) -> String {
    let behind = answer.split("<Code>").nth(1).unwrap_or_default();
    let word = behind.chars().take_while(char::is_ascii_alphanumeric);
    word.take(64).collect()
}
