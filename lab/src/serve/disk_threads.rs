//! Disk work without a runtime: a thread for each writer, each open that hangs, and each call that
//! asks for the file's state.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use super::args::DiskArgs;
use super::disk::Disk;

/// Lets the writers and the opens loose. Syncs take turns, as a file system makes them: beside
/// threads that all sync at once a ping takes longer.
pub(crate) fn start(args: &DiskArgs, disk: &Arc<Disk>) {
    let turn = Arc::new(Mutex::new(()));
    for (writer, path) in args.writers() {
        let (disk, turn, len) = (Arc::clone(disk), Arc::clone(&turn), args.fsync_bytes);
        thread::spawn(move || disk.ended(writer, write(&path, len, &turn, &disk)));
    }
    for path in args.hangs() {
        let disk = Arc::clone(disk);
        thread::spawn(move || {
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
pub(crate) fn answer(mut stream: TcpStream, disk: &Disk) -> io::Result<()> {
    const HEAD_LEN_MAX: usize = 4 * 1024;
    let (mut head, mut buffer) = (Vec::new(), [0; 1024]);
    while !head.ends_with(b"\r\n\r\n") {
        let len = stream.read(&mut buffer)?;
        if len == 0 || head.len() + len > HEAD_LEN_MAX {
            return Ok(());
        }
        head.extend_from_slice(&buffer[..len]);
    }
    let (status, body) = match head.starts_with(b"GET /stat ") {
        true => ("200 OK", serde_json::to_string(&disk.stat_here()?)?),
        false => ("404 Not Found", String::new()),
    };
    let len = body.len();
    let head = format!("HTTP/1.1 {status}\r\nContent-Length: {len}\r\nConnection: close\r\n\r\n");
    stream.write_all((head + &body).as_bytes())
}
