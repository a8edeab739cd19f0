//! The same requests to HAProxy and nginx, for a table of what each forwards.
//!
//! ```sh
//! cargo test -p proxy --test whole -- --ignored --nocapture what_others_forward
//! ```

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use super::corpus::{self, Case};
use super::reader::{Reading, readings};
use crate::support::{LIMIT, Origin, Proxy, until, web};

/// A proxy that has said nothing for so long says nothing more.
const QUIET: Duration = Duration::from_millis(400);

/// What a proxy has made of a case.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    /// Nothing came to the server.
    Refused(Option<u16>),
    /// So many requests, of which all readings are the same.
    Forwarded(usize),
    /// The beginning of a request, which is whole for no reading.
    CutOff,
    /// Bytes that two readings differ on.
    Differs,
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Refused(Some(status)) => write!(f, "{status}"),
            Self::Refused(None) => f.write_str("closed"),
            Self::Forwarded(1) => f.write_str("1 request"),
            Self::Forwarded(count) => write!(f, "{count} requests"),
            Self::CutOff => f.write_str("cut off"),
            Self::Differs => f.write_str("DIFFERS"),
        }
    }
}

/// A peer at work, which ends with this.
struct Peer(Child, SocketAddr);

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn free_port() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap()
}

/// Starts a program that is there, and waits until it listens.
fn start(program: &str, arguments: &[&str], at: SocketAddr) -> Option<Peer> {
    let child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let peer = Peer(child, at);
    until("the peer listens", || TcpStream::connect(at).is_ok());
    Some(peer)
}

fn haproxy(directory: &Path, origin: SocketAddr) -> Option<Peer> {
    let at = free_port();
    let file = directory.join("haproxy.cfg");
    let text = format!(
        "defaults\n mode http\n timeout connect 2s\n timeout client 2s\n timeout server 2s\n\
         listen web\n bind {at}\n server one {origin}\n"
    );
    std::fs::write(&file, text).unwrap();
    start("haproxy", &["-db", "-f", file.to_str()?], at)
}

fn nginx(directory: &Path, origin: SocketAddr) -> Option<Peer> {
    let at = free_port();
    let file = directory.join("nginx.conf");
    let own = directory.display();
    let text = format!(
        "daemon off;\nmaster_process off;\npid {own}/nginx.pid;\nerror_log {own}/error.log;\n\
         events {{}}\nhttp {{\n access_log off;\n client_body_temp_path {own}/body;\n \
         proxy_temp_path {own}/proxy;\n fastcgi_temp_path {own}/f;\n uwsgi_temp_path {own}/u;\n \
         scgi_temp_path {own}/s;\n server {{\n listen {at};\n location / {{\n \
         proxy_pass http://{origin};\n proxy_http_version 1.1;\n \
         proxy_set_header Host $http_host;\n }}\n }}\n}}\n"
    );
    std::fs::write(&file, text).unwrap();
    start(
        "nginx",
        &["-p", directory.to_str()?, "-c", file.to_str()?],
        at,
    )
}

/// Answers when a strict reader has a whole request, or nothing more comes.
fn record(mut stream: TcpStream, records: &Mutex<Vec<Vec<u8>>>) {
    let mut bytes = Vec::new();
    let mut part = [0; 4_096];
    let mut is_answered = false;
    stream.set_read_timeout(Some(QUIET / 4)).unwrap();
    loop {
        let came = stream.read(&mut part);
        let is_quiet = came.is_err();
        match came {
            Ok(0) => break,
            Ok(came) => bytes.extend_from_slice(&part[..came]),
            Err(_) if is_answered => break,
            Err(_) => {}
        }
        if !is_answered && (is_quiet || Reading::STRICT.first_is_whole(&bytes)) {
            is_answered = true;
            let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
            if stream.write_all(answer).is_err() {
                break;
            }
        }
    }
    records.lock().unwrap().push(bytes);
}

/// The first status of what is answered.
fn send(at: &str, bytes: &[u8]) -> Option<u16> {
    let mut stream = TcpStream::connect(at).unwrap();
    stream.set_read_timeout(Some(QUIET)).unwrap();
    stream.set_write_timeout(Some(LIMIT)).unwrap();
    let _ = stream.write_all(bytes);
    let mut answer = Vec::new();
    let mut part = [0; 4_096];
    while let Ok(came @ 1..) = stream.read(&mut part) {
        answer.extend_from_slice(&part[..came]);
    }
    String::from_utf8_lossy(&answer).get(9..12)?.parse().ok()
}

/// A case with its number in it, so that it is known again.
fn marked(case: &Case, index: usize) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = case.bytes.as_slice();
    while let Some(&byte) = rest.first() {
        if rest.starts_with(b"case") {
            out.extend_from_slice(format!("case{index}_").as_bytes());
            rest = &rest[4..];
        } else {
            out.push(byte);
            rest = &rest[1..];
        }
    }
    out
}

/// What a proxy makes of all cases.
fn outcomes(at: &str, cases: &[Case], records: &Mutex<Vec<Vec<u8>>>) -> Vec<Outcome> {
    const AT_ONCE: usize = 16;
    records.lock().unwrap().clear();
    let statuses: BTreeMap<usize, Option<u16>> = thread::scope(|scope| {
        let workers: Vec<_> = (0..AT_ONCE)
            .map(|first| {
                scope.spawn(move || {
                    let own = cases.iter().enumerate().skip(first).step_by(AT_ONCE);
                    own.map(|(index, case)| (index, send(at, &marked(case, index))))
                        .collect::<Vec<_>>()
                })
            })
            .collect();
        workers
            .into_iter()
            .flat_map(|worker| worker.join().unwrap())
            .collect()
    });
    // What is on its way.
    thread::sleep(QUIET * 2);
    let records = records.lock().unwrap();
    let of = |index: usize| {
        let mark = format!("case{index}_").into_bytes();
        let is_of = |bytes: &&Vec<u8>| bytes.windows(mark.len()).any(|part| part == mark);
        let found: Vec<&Vec<u8>> = records.iter().filter(is_of).collect();
        if found.is_empty() {
            return Outcome::Refused(statuses[&index]);
        }
        let mut count = 0;
        for bytes in found {
            let all = readings(bytes);
            match &all[0] {
                _ if all.iter().any(|one| *one != all[0]) => return Outcome::Differs,
                Ok(requests) => count += requests.len(),
                Err(_) => {}
            }
        }
        if count == 0 {
            return Outcome::CutOff;
        }
        Outcome::Forwarded(count)
    };
    (0..cases.len()).map(of).collect()
}

#[test]
#[ignore = "needs HAProxy and nginx; prints a table"]
fn what_others_forward_of_the_same_requests() {
    let cases = corpus::all();
    let records = Arc::new(Mutex::new(Vec::new()));
    let recording = Arc::clone(&records);
    let origin = Origin::raw(move |stream, _, _| record(stream, &recording));
    let directory = tempfile::tempdir().unwrap();
    let ours = Proxy::start(&web("", "", &[&origin]));
    let began = Instant::now();
    let mut columns = vec![(
        "evenkeel-proxy",
        outcomes(ours.address("web"), &cases, &records),
    )];
    let peers = [
        ("HAProxy", haproxy(directory.path(), origin.address)),
        ("nginx", nginx(directory.path(), origin.address)),
    ];
    for (name, peer) in &peers {
        match peer {
            Some(Peer(_, at)) => {
                columns.push((name, outcomes(&at.to_string(), &cases, &records)));
            }
            None => println!("{name} is not installed: no column for it"),
        }
    }
    print_differences(&cases, &columns);
    println!(
        "\n{} requests, {:.0} s",
        cases.len(),
        began.elapsed().as_secs_f64()
    );
    for (name, outcomes) in &columns {
        let count =
            |wanted: fn(&Outcome) -> bool| outcomes.iter().filter(|one| wanted(one)).count();
        println!(
            "{name:<15} refused {:>4}, forwarded {:>4}, forwarded what readings differ on {:>4}",
            count(|one| matches!(one, Outcome::Refused(_) | Outcome::CutOff)),
            count(|one| matches!(one, Outcome::Forwarded(_))),
            count(|one| *one == Outcome::Differs)
        );
    }
    assert!(!columns[0].1.contains(&Outcome::Differs));
}

/// The cases of which one proxy makes something else than the others.
fn print_differences(cases: &[Case], columns: &[(&str, Vec<Outcome>)]) {
    let width = 64;
    let heads: Vec<String> = columns
        .iter()
        .map(|(name, _)| format!("{name:<15}"))
        .collect();
    println!("{:<width$} {}", "where they differ", heads.join(" "));
    for (index, case) in cases.iter().enumerate() {
        let kind = |outcome: &Outcome| match outcome {
            Outcome::Refused(_) | Outcome::CutOff => 0,
            Outcome::Forwarded(_) => 1,
            Outcome::Differs => 2,
        };
        let first = kind(&columns[0].1[index]);
        if columns
            .iter()
            .all(|(_, outcomes)| kind(&outcomes[index]) == first)
        {
            continue;
        }
        let name: String = case.name.chars().take(width).collect();
        let cells: Vec<String> = columns
            .iter()
            .map(|(_, outcomes)| format!("{:<15}", outcomes[index].to_string()))
            .collect();
        println!("{name:<width$} {}", cells.join(" "));
    }
}
