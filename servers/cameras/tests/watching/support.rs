//! A server with cameras of the tests, and a client for it.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use cameras::hub::{Hub, Limits, Publisher};
use cameras::media::{Codec, Data, Sample, Track};
use cameras::record::backlog::Budgets;
use cameras::record::disk::LocalDisk;
use cameras::record::retention::{CameraLimits, VolumeLimits};
use cameras::record::{self, Recordings};
use cameras::watch::routes::Doing;
use cameras::watch::{Catalog, Listed, Server, Settings, Watch};
use evenkeel::runtime::{Builder, Runtime};
use serde_json::Value;

/// How long something is waited for.
pub(crate) const LIMIT: Duration = Duration::from_secs(20);

/// Parameter sets of 320 by 240 pixels.
pub(crate) const SPS: &[u8] = &[
    0x67, 0x64, 0x00, 0x0d, 0xac, 0xd9, 0x41, 0x41, 0xfa, 0x10, 0x00, 0x00, 0x03, 0x00, 0x10, 0x00,
    0x00, 0x03, 0x03, 0x20, 0xf1, 0x42, 0x99, 0x60,
];
pub(crate) const PPS: &[u8] = &[0x68, 0xeb, 0xe3, 0xcb, 0x22, 0xc0];

/// Cameras that are not connected to: whoever publishes is there.
struct Fixed {
    hub: Arc<Hub>,
}

impl Catalog for Fixed {
    fn one(&self, _: &str) -> Option<Listed> {
        None
    }

    fn add<'a>(&'a self, name: &'a str, camera: Value) -> Doing<'a, ()> {
        Box::pin(async move {
            if camera != serde_json::json!({}) {
                return Err(format!("{camera} is no camera"));
            }
            self.hub.add(name).map_err(|error| error.to_string())
        })
    }

    fn remove<'a>(&'a self, name: &'a str) -> Doing<'a, bool> {
        Box::pin(async move { Ok(self.hub.remove(name)) })
    }
}

/// A server with the cameras `yard`, which is recorded, and `door`, which is not.
pub(crate) struct Site {
    pub(crate) hub: Arc<Hub>,
    pub(crate) recordings: Option<Arc<Recordings>>,
    pub(crate) server: Server,
}

pub(crate) fn runtime() -> Runtime {
    Builder::new().workers(2).build().unwrap()
}

/// Records `yard` of a hub below a directory.
pub(crate) fn recordings(hub: &Hub, directory: &Path) -> Recordings {
    let settings = record::Settings {
        sync_every: Duration::from_millis(20),
        budgets: Budgets::default(),
        ..record::Settings::default()
    };
    let disk = LocalDisk::new("disk", directory.to_owned()).unwrap();
    let volumes = vec![("disk".to_owned(), disk, VolumeLimits::default())];
    let recordings = Recordings::new(settings, volumes, CameraLimits::default());
    recordings
        .record(hub, "yard", "disk", CameraLimits::default())
        .unwrap();
    recordings.start();
    recordings
}

impl Site {
    pub(crate) async fn begin(directory: &Path, settings: Settings) -> Self {
        let hub = Hub::new(Limits::default());
        for camera in ["yard", "door"] {
            hub.add(camera).unwrap();
        }
        let recordings = recordings(&hub, directory);
        Self::of(hub, Some(recordings), settings).await
    }

    async fn of(hub: Arc<Hub>, recordings: Option<Recordings>, settings: Settings) -> Self {
        let recordings = recordings.map(Arc::new);
        let watch = Watch {
            hub: Arc::clone(&hub),
            recordings: recordings.clone(),
            catalog: Arc::new(Fixed {
                hub: Arc::clone(&hub),
            }),
        };
        let settings = Settings {
            listen: "127.0.0.1:0".to_owned(),
            ..settings
        };
        let server = Server::begin(&settings, watch).await.unwrap();
        Self {
            hub,
            recordings,
            server,
        }
    }

    pub(crate) fn client(&self) -> Client {
        Client {
            address: self.server.address(),
            authorization: None,
        }
    }

    /// Waits until so many groups of `yard` are written.
    pub(crate) async fn until_written(&self, gops: u64) {
        let recordings = self.recordings.as_ref().unwrap();
        until("groups are written", || {
            recordings.status_of("yard").unwrap().reported.gops >= gops
        })
        .await;
    }
}

/// Waits until something is so.
pub(crate) async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = std::time::Instant::now();
    while !is_so() {
        assert!(began.elapsed() < LIMIT, "never: {what}");
        evenkeel::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Pictures of a group, and ticks of a picture.
pub(crate) const GROUP: i64 = 13;
pub(crate) const PICTURE: i64 = 3_600;
pub(crate) const GROUP_MS: u64 = 520;

/// A camera that sends groups of half a second when it is told to.
pub(crate) struct Sender {
    publisher: Publisher,
    next: i64,
    /// Bytes of a picture.
    pub(crate) bytes: usize,
}

impl Sender {
    pub(crate) fn new(hub: &Hub, camera: &str) -> Self {
        let track = Track {
            id: 0,
            codec: Codec::H264 {
                sps: Bytes::from_static(SPS),
                pps: Bytes::from_static(PPS),
            },
            clock_rate: 90_000,
        };
        Self {
            publisher: hub.publish(camera, vec![track]).unwrap(),
            next: 0,
            bytes: 500,
        }
    }

    /// Sends this many groups, and the key frame that completes the last one.
    pub(crate) fn send(&mut self, groups: i64) {
        for _ in 0..groups * GROUP {
            self.one();
        }
        if self.next % GROUP == 0 {
            self.one();
        }
    }

    fn one(&mut self) {
        let fill = u8::try_from(self.next % 200).unwrap();
        self.publisher.push(Sample {
            track: 0,
            dts: self.next * PICTURE,
            pts_offset: 0,
            duration: None,
            is_key: self.next % GROUP == 0,
            data: Data::new(vec![Bytes::from(vec![fill; self.bytes])]),
        });
        self.next += 1;
    }

    /// Sends a group every so often, until it is told to stop.
    pub(crate) fn keep_sending(mut self, every: Duration) -> Stops {
        Stops::when_dropped(every, move || self.one())
    }
}

/// Ends a sender when it is dropped.
pub(crate) struct Stops(Arc<AtomicBool>);

impl Stops {
    /// Sends something every so often, until this is dropped.
    pub(crate) fn when_dropped(every: Duration, mut send: impl FnMut() + Send + 'static) -> Self {
        let stops = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stops);
        drop(evenkeel::spawn(async move {
            // Pairs with the store below; a picture more or less is no matter.
            while !told.load(Ordering::Relaxed) {
                send();
                evenkeel::time::sleep(every).await;
            }
        }));
        Self(stops)
    }
}

impl Drop for Stops {
    fn drop(&mut self) {
        // Pairs with the load above.
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A client that asks one thing at a time, each over a connection of its own.
#[derive(Clone)]
pub(crate) struct Client {
    pub(crate) address: SocketAddr,
    pub(crate) authorization: Option<String>,
}

/// What a server answered.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (found, value) = line.split_once(':')?;
            found.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }
}

impl Client {
    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, &[], "").await
    }

    pub(crate) async fn send(&self, method: &str, path: &str, body: &str) -> Answer {
        self.ask(method, path, &[("content-type", "application/json")], body)
            .await
    }

    pub(crate) async fn ask(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Answer {
        let mut text = format!(
            "{method} {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\ncontent-length: {}\r\n",
            self.address,
            body.len()
        );
        if let Some(authorization) = &self.authorization {
            text.push_str(&format!("authorization: {authorization}\r\n"));
        }
        for (name, value) in headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        text.push_str(&format!("\r\n{body}"));
        let address = self.address;
        let asked = evenkeel::spawn_blocking(move || {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.set_read_timeout(Some(LIMIT)).unwrap();
            stream.write_all(text.as_bytes()).unwrap();
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer).unwrap();
            answer
        });
        read(&asked.await.unwrap())
    }
}

/// Takes an answer apart.
fn read(bytes: &[u8]) -> Answer {
    let end = bytes
        .windows(4)
        .position(|four| four == b"\r\n\r\n")
        .unwrap();
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
    let mut body = bytes[end + 4..].to_vec();
    if head
        .to_ascii_lowercase()
        .contains("transfer-encoding: chunked")
    {
        body = dechunked(&body);
    }
    Answer {
        status: head[9..12].parse().unwrap(),
        head,
        body,
    }
}

fn dechunked(mut bytes: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    loop {
        let end = bytes.windows(2).position(|two| two == b"\r\n").unwrap();
        let length = std::str::from_utf8(&bytes[..end]).unwrap();
        let length = usize::from_str_radix(length, 16).unwrap();
        if length == 0 {
            return body;
        }
        body.extend(&bytes[end + 2..end + 2 + length]);
        bytes = &bytes[end + 4 + length..];
    }
}

/// The kinds of the boxes of a file, which has to have nothing else.
pub(crate) fn boxes(mut bytes: &[u8]) -> Vec<String> {
    let mut kinds = Vec::new();
    while !bytes.is_empty() {
        let length = u32::from_be_bytes(bytes[..4].try_into().unwrap()) as usize;
        kinds.push(String::from_utf8(bytes[4..8].to_vec()).unwrap());
        bytes = &bytes[length..];
    }
    kinds
}
