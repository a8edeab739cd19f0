//! The kernel's own limit: no runtime, a thread for each connection, beside threads that spin.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use super::args::ServeArgs;
use super::hogs::never_yield;
use super::services::Announcement;
use crate::error::{Error, Result};

/// Serves --echo beside --hogs; a spinning thread needs no yield, so --hog-poll-us makes no
/// difference here.
pub(crate) fn start(args: &ServeArgs) -> Result<Announcement> {
    let unsupported = [
        ("--sink", args.sink.is_some()),
        ("--http", args.http.is_some()),
        ("--api", args.api.is_some()),
        ("--proxy", args.proxy.is_some()),
        ("--busy-wait", args.busy_wait.is_some()),
        ("--stats-every", args.stats_every.is_some()),
    ];
    if let Some((flag, _)) = unsupported.into_iter().find(|(_, asked)| *asked) {
        return Err(Error::OsThreadOnlyEchoes { flag });
    }
    let mut announcement = Announcement::default();
    if let Some(address) = args.echo {
        announcement.push(("echo", listen(address)?));
    }
    for _ in 0..args.hogs {
        std::thread::spawn(never_yield);
    }
    Ok(announcement)
}

fn listen(address: SocketAddr) -> Result<SocketAddr> {
    let refused = |source| Error::Listen {
        service: "echo",
        address,
        source,
    };
    let listener = TcpListener::bind(address).map_err(refused)?;
    let bound = listener.local_addr().map_err(refused)?;
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            match stream {
                Ok(stream) => drop(std::thread::spawn(move || echo(stream))),
                Err(error) => {
                    eprintln!("echo: cannot accept a connection: {error}");
                    std::thread::sleep(Duration::from_millis(10));
                }
            }
        }
    });
    Ok(bound)
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
