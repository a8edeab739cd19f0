//! The kernel's own limit: no runtime, a thread for each connection, beside threads that spin or
//! write to a disk.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::FileExt;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use super::args::{Burn, DiskArgs, ServeArgs};
use super::disk::Disk;
use super::hogs::{Schedule, never_yield};
use super::meter;
use super::services::forever;
use super::work::Done;
use crate::error::{Error, Result};

/// Serves --echo, and of --api `GET /stat`, beside --hogs, --burn, --fsync and --hang, each in a
/// thread; a spinning thread needs no yield, so --hog-poll-us makes no difference here.
pub(crate) fn start(args: &ServeArgs, done: &Done) -> Result<()> {
    let is_unknown = |flag: &String| !["--echo", "--api", "--hogs", "--burn"].contains(&&**flag);
    let settings = [
        ("--busy-wait", args.settings.busy_wait.is_some()),
        ("--stats-every", args.stats_every.is_some()),
        ("--shares", args.settings.shares.is_some()),
        ("--handoff-us", args.settings.handoff_us.is_some()),
    ];
    let asked = args.asked().chain(settings).filter(|(_, asked)| *asked);
    let classes = args.classes().map(|(what, _)| format!("--{what}-class"));
    let mut given = asked.map(|(flag, _)| flag.to_owned()).chain(classes);
    if let Some(flag) = given.find(is_unknown) {
        return Err(Error::new(format!(
            "`serve os-thread` has no {flag}: a lone thread only echoes (--echo) and answers \
             `GET /stat` (--api) beside --hogs, --burn, --fsync and --hang"
        )));
    }
    if let Some(address) = args.echo {
        listen("echo", address, echo)?;
    }
    let disk = forever(Disk::new(&args.disk));
    if let Some(address) = args.api {
        // A call that breaks off is its caller's loss.
        let answer = |stream| drop(answer(stream, disk));
        listen("api", address, answer)?;
    }
    start_disk(&args.disk, disk);
    for _ in 0..args.hogs {
        let done = done.clone();
        std::thread::spawn(move || never_yield(&done));
    }
    if let Some(burn) = args.burn {
        let done = done.clone();
        std::thread::spawn(move || keep_burning(burn, &done));
    }
    Ok(())
}

/// A fresh thread for each, as [`burn`](super::hogs::burn) has a fresh task.
fn keep_burning(burn: Burn, done: &Done) {
    let mut schedule = Schedule::new(Instant::now(), burn.per_second);
    loop {
        for _ in 0..schedule.due(Instant::now()) {
            let Some(place) = schedule.place() else {
                continue;
            };
            let done = done.clone();
            let thread = std::thread::Builder::new().spawn(move || {
                done.compute(burn.us);
                drop(place);
            });
            // A system that has no thread left sheds load as one that has no place left does.
            drop(thread);
        }
        std::thread::sleep(schedule.until_next(Instant::now()));
    }
}

/// Serves every connection from a thread of its own.
fn listen(
    service: &'static str,
    address: SocketAddr,
    serve: impl Fn(TcpStream) + Clone + Send + 'static,
) -> Result<()> {
    let spawn = move |stream| {
        let serve = serve.clone();
        drop(std::thread::spawn(move || serve(stream)));
    };
    meter::listen(service, address, spawn).map(drop)
}

fn echo(mut stream: TcpStream) {
    let mut buffer = [0; 4 * 1024];
    // As in the echo service: a refused option or a broken connection needs no word.
    let _ = stream.set_nodelay(true);
    while let Ok(len @ 1..) = stream.read(&mut buffer) {
        if stream.write_all(&buffer[..len]).is_err() {
            return;
        }
    }
}

/// Lets the writers and the opens loose. Syncs take turns, as a file system makes them: beside
/// threads that all sync at once a ping takes longer.
fn start_disk(args: &DiskArgs, disk: &'static Disk) {
    static TURN: Mutex<()> = Mutex::new(());
    for (writer, path) in args.writers() {
        let len = args.fsync_bytes;
        std::thread::spawn(move || disk.ended(writer, write(&path, len, &TURN, disk)));
    }
    for path in args.hangs() {
        std::thread::spawn(move || {
            disk.hanging.add(1);
            // Whether it came or was refused: it does not hang any more.
            drop(std::fs::File::open(path));
            disk.hanging.less(1);
        });
    }
}

fn write(path: &std::path::Path, len: usize, turn: &Mutex<()>, disk: &Disk) -> io::Result<()> {
    let file = std::fs::File::create(path)?;
    let bytes = vec![b'x'; len];
    loop {
        file.write_all_at(&bytes, 0)?;
        let _turn = turn.lock().unwrap_or_else(PoisonError::into_inner);
        let begun = Instant::now();
        file.sync_all()?;
        disk.synced(begun.elapsed());
    }
}

/// Answers one call.
fn answer(mut stream: TcpStream, disk: &Disk) -> io::Result<()> {
    const HEAD_LEN_MAX: u64 = 4 * 1024;
    let mut head = BufReader::new((&stream).take(HEAD_LEN_MAX)).lines();
    let request = head.next().transpose()?.unwrap_or_default();
    while head
        .next()
        .transpose()?
        .is_some_and(|line| !line.is_empty())
    {}
    let (status, body) = match request.starts_with("GET /stat ") {
        true => ("200 OK", serde_json::to_string(&disk.stat_here()?)?),
        false => ("404 Not Found", String::new()),
    };
    let len = body.len();
    let head = format!("HTTP/1.1 {status}\r\nContent-Length: {len}\r\nConnection: close\r\n\r\n");
    stream.write_all((head + &body).as_bytes())
}
