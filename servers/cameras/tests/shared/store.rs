//! A small store with the interface of S3, which can hang and fail.
#![allow(dead_code, reason = "each test program uses a part")]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// How long a request may be on its way.
const LIMIT: Duration = Duration::from_secs(20);

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    /// Requests are taken, and not answered.
    Hangs,
    /// Each request is answered with 503.
    Fails,
    /// Parts from this number on are answered with 503.
    FailsFromPart(u16),
}

#[derive(Default)]
struct State {
    objects: BTreeMap<String, Vec<u8>>,
    /// By the name of the upload: its key, and its parts.
    uploads: BTreeMap<String, (String, BTreeMap<u16, Vec<u8>>)>,
    fault: Option<Fault>,
    /// How often each part came.
    parts: BTreeMap<u16, usize>,
    unsigned: usize,
    next: usize,
}

/// It listens until it is dropped.
pub(crate) struct Store {
    pub(crate) address: SocketAddr,
    state: Arc<Mutex<State>>,
    ends: Arc<AtomicBool>,
    accepts: Option<JoinHandle<()>>,
}

impl Store {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (state, ends) = (Arc::<Mutex<State>>::default(), Arc::<AtomicBool>::default());
        let (shared, over) = (Arc::clone(&state), Arc::clone(&ends));
        let accepts = thread::spawn(move || {
            let mut threads = Vec::new();
            while let Ok((stream, _)) = listener.accept() {
                if over.load(Ordering::Relaxed) {
                    break;
                }
                let (shared, over) = (Arc::clone(&shared), Arc::clone(&over));
                threads.push(thread::spawn(move || connection(stream, &shared, &over)));
            }
            for thread in threads {
                let _ = thread.join();
            }
        });
        Self {
            address,
            state,
            ends,
            accepts: Some(accepts),
        }
    }

    pub(crate) fn set_fault(&self, fault: Fault) {
        self.state.lock().unwrap().fault = Some(fault);
    }

    /// The keys of all objects.
    pub(crate) fn keys(&self) -> Vec<String> {
        self.state.lock().unwrap().objects.keys().cloned().collect()
    }

    /// How often a part of this number came.
    pub(crate) fn parts(&self, number: u16) -> usize {
        let state = self.state.lock().unwrap();
        state.parts.get(&number).copied().unwrap_or(0)
    }

    /// Uploads that were begun, and neither completed nor given up.
    pub(crate) fn uploads(&self) -> usize {
        self.state.lock().unwrap().uploads.len()
    }

    /// Requests that were not signed.
    pub(crate) fn unsigned(&self) -> usize {
        self.state.lock().unwrap().unsigned
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        // So that it looks.
        let _ = TcpStream::connect(self.address);
        if let Some(accepts) = self.accepts.take() {
            let _ = accepts.join();
        }
    }
}

struct Asked {
    method: String,
    key: String,
    query: BTreeMap<String, String>,
    range: Option<(usize, usize)>,
    body: Vec<u8>,
}

fn connection(stream: TcpStream, state: &Mutex<State>, ends: &AtomicBool) {
    stream
        .set_read_timeout(Some(Duration::from_millis(20)))
        .unwrap();
    stream.set_nodelay(true).unwrap();
    let mut reader = BufReader::new(stream);
    loop {
        // Until something comes, or the end.
        let began = std::time::Instant::now();
        while reader.fill_buf().is_err() {
            if ends.load(Ordering::Relaxed) || began.elapsed() > LIMIT {
                return;
            }
        }
        let _ = reader.get_ref().set_read_timeout(Some(LIMIT));
        let Some(asked) = read(&mut reader) else {
            return;
        };
        let fault = state.lock().unwrap().fault;
        if fault == Some(Fault::Hangs) {
            while state.lock().unwrap().fault == Some(Fault::Hangs) {
                if ends.load(Ordering::Relaxed) {
                    return;
                }
                thread::sleep(Duration::from_millis(5));
            }
            return;
        }
        let (status, headers, body) = answer(&asked, &mut state.lock().unwrap());
        let len = body.len();
        let head = format!("HTTP/1.1 {status} X\r\ncontent-length: {len}\r\n{headers}\r\n");
        let whole = [head.as_bytes(), &body].concat();
        if reader.get_mut().write_all(&whole).is_err() {
            return;
        }
        let _ = reader
            .get_ref()
            .set_read_timeout(Some(Duration::from_millis(20)));
    }
}

fn read(reader: &mut BufReader<TcpStream>) -> Option<Asked> {
    let mut first = String::new();
    if reader.read_line(&mut first).ok()? == 0 {
        return None;
    }
    let mut words = first.split(' ');
    let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
    let (mut length, mut range) = (0, None);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim().split_once(": ") else {
            break;
        };
        match &*name.to_ascii_lowercase() {
            "content-length" => length = value.parse().ok()?,
            "range" => {
                let (from, to) = value.strip_prefix("bytes=")?.split_once('-')?;
                range = Some((from.parse().ok()?, to.parse().ok()?));
            }
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let pair = |pair: &str| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        (decoded(name), decoded(value))
    };
    let key = path.trim_start_matches('/').split_once('/');
    Some(Asked {
        method,
        key: decoded(key.map_or("", |(_, key)| key)),
        query: query.split('&').map(pair).collect(),
        range,
        body,
    })
}

fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let digits = [rest.next().unwrap(), rest.next().unwrap()];
            let digits = std::str::from_utf8(&digits).unwrap();
            bytes.push(u8::from_str_radix(digits, 16).unwrap());
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).unwrap()
}

type Answer = (u16, String, Vec<u8>);

fn xml(root: &str, body: &str) -> Answer {
    let space = "http://s3.amazonaws.com/doc/2006-03-01/";
    let text = format!("<?xml version=\"1.0\"?><{root} xmlns=\"{space}\">{body}</{root}>");
    (200, String::new(), text.into_bytes())
}

fn error(status: u16, code: &str) -> Answer {
    let text = format!("<Error><Code>{code}</Code></Error>");
    (status, String::new(), text.into_bytes())
}

fn empty(status: u16, headers: &str) -> Answer {
    (status, headers.to_owned(), Vec::new())
}

fn answer(asked: &Asked, state: &mut State) -> Answer {
    if !asked.query.contains_key("X-Amz-Signature") {
        state.unsigned += 1;
    }
    if state.fault == Some(Fault::Fails) {
        return error(503, "SlowDown");
    }
    match asked.query.get("uploadId") {
        Some(name) => of_upload(asked, name, state),
        None => of_object(asked, state),
    }
}

/// What is asked of an object that is put in parts.
fn of_upload(asked: &Asked, name: &str, state: &mut State) -> Answer {
    let missing = || error(404, "NoSuchUpload");
    match &*asked.method {
        "PUT" => {
            let number: u16 = asked.query["partNumber"].parse().unwrap();
            if matches!(state.fault, Some(Fault::FailsFromPart(from)) if number >= from) {
                return error(503, "SlowDown");
            }
            *state.parts.entry(number).or_default() += 1;
            let Some((_, parts)) = state.uploads.get_mut(name) else {
                return missing();
            };
            parts.insert(number, asked.body.clone());
            empty(200, &format!("etag: \"tag-{number}\"\r\n"))
        }
        "GET" => state.uploads.get(name).map_or_else(missing, |(_, parts)| {
            let part = |(number, bytes): (&u16, &Vec<u8>)| {
                format!(
                    "<Part><PartNumber>{number}</PartNumber><LastModified>2026</LastModified>\
                     <ETag>&quot;tag-{number}&quot;</ETag><Size>{}</Size></Part>",
                    bytes.len()
                )
            };
            let parts: String = parts.iter().map(part).collect();
            let more = "<MaxParts>1000</MaxParts><IsTruncated>false</IsTruncated>";
            xml("ListPartsResult", &format!("{more}{parts}"))
        }),
        "POST" => state
            .uploads
            .remove(name)
            .map_or_else(missing, |(key, parts)| {
                let object = parts.into_values().flatten().collect();
                state.objects.insert(key.clone(), object);
                let of = format!("<Bucket>b</Bucket><Key>{key}</Key><ETag>e</ETag>");
                xml(
                    "CompleteMultipartUploadResult",
                    &format!("<Location>l</Location>{of}"),
                )
            }),
        "DELETE" => state
            .uploads
            .remove(name)
            .map_or_else(missing, |_| empty(204, "")),
        _ => error(400, "Bad"),
    }
}

fn of_object(asked: &Asked, state: &mut State) -> Answer {
    let (key, query) = (&asked.key, &asked.query);
    match &*asked.method {
        "POST" => {
            state.next += 1;
            let name = format!("upload-{}", state.next);
            let begun = (key.clone(), BTreeMap::new());
            state.uploads.insert(name.clone(), begun);
            let body = format!("<Bucket>b</Bucket><Key>{key}</Key><UploadId>{name}</UploadId>");
            xml("InitiateMultipartUploadResult", &body)
        }
        "PUT" => {
            state.objects.insert(key.clone(), asked.body.clone());
            empty(200, "etag: \"tag\"\r\n")
        }
        "GET" if query.contains_key("list-type") => listed(query, state),
        "GET" => match (state.objects.get(key), asked.range) {
            (None, _) => error(404, "NoSuchKey"),
            (Some(object), Some((from, _))) if from >= object.len() => error(416, "InvalidRange"),
            (Some(object), Some((from, to))) => {
                let to = (to + 1).min(object.len());
                (206, String::new(), object[from..to].to_vec())
            }
            (Some(object), None) => (200, String::new(), object.clone()),
        },
        _ => error(400, "Bad"),
    }
}

/// Two at a time, so that lists go on.
fn listed(query: &BTreeMap<String, String>, state: &State) -> Answer {
    let prefix = query.get("prefix").cloned().unwrap_or_default();
    let after = query.get("start-after").cloned().unwrap_or_default();
    let delimiter = query.get("delimiter");
    let (mut contents, mut directories, mut more) = (String::new(), Vec::new(), false);
    let mut count = 0;
    for (key, object) in &state.objects {
        let Some(rest) = key.strip_prefix(&prefix).filter(|_| *key > after) else {
            continue;
        };
        let directory = delimiter.and_then(|it| rest.split_once(&**it));
        let directory = directory.map(|(name, _)| format!("{prefix}{name}/"));
        if directory
            .as_ref()
            .is_some_and(|it| directories.contains(it) || *it <= after)
        {
            continue;
        }
        if count == 2 {
            more = true;
            break;
        }
        count += 1;
        match directory {
            Some(directory) => directories.push(directory),
            None => {
                contents += &format!(
                    "<Contents><Key>{key}</Key><Size>{}</Size></Contents>",
                    object.len()
                );
            }
        }
    }
    let token = if more {
        "<NextContinuationToken>t</NextContinuationToken>"
    } else {
        ""
    };
    let directories: String = directories
        .iter()
        .map(|it| format!("<CommonPrefixes><Prefix>{it}</Prefix></CommonPrefixes>"))
        .collect();
    let body = format!(
        "<IsTruncated>{more}</IsTruncated><MaxKeys>2</MaxKeys>{token}{contents}{directories}"
    );
    xml("ListBucketResult", &body)
}
