//! Memory over many short sessions, of viewers and of programs.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::Duration;

use evenkeel_measure::cameras::viewers::ask;

use super::Result;
use super::processes::memory_mib;
use super::rows::Rows;
use super::servers::{LIMIT, Server};

/// Clients at a time.
const CLIENTS: u32 = 4;
/// The part after which memory is looked at first: what one session needs is there then.
const FIRST: u32 = 10;
/// After so long a process gives back what the names of hogs took, such as of those polls in which
/// all cameras connect.
const SETTLED: Duration = Duration::from_secs(12);

/// Makes so many sessions, and looks at memory before and after.
pub(crate) fn memory(server: &Server, sessions: u32, rows: &mut Rows) -> Result<()> {
    let http = server.http;
    many(server.rtsp, http, sessions / FIRST)?;
    thread::sleep(SETTLED);
    let before = memory_mib(server.pid())?;
    many(server.rtsp, http, sessions - sessions / FIRST)?;
    thread::sleep(SETTLED);
    let after = memory_mib(server.pid())?;
    rows.figure("memory before most of the sessions", "MiB", before);
    let name = format!("memory that {sessions} short sessions added");
    rows.at_most(&name, "MiB", after - before, 8.0);
    Ok(())
}

fn many(rtsp: SocketAddr, http: SocketAddr, sessions: u32) -> Result<()> {
    let clients: Vec<_> = (0..CLIENTS)
        .map(|client| {
            thread::spawn(move || {
                for session in (client..sessions).step_by(CLIENTS as usize) {
                    one(rtsp, http, session)?;
                }
                Result::Ok(())
            })
        })
        .collect();
    for client in clients {
        client.join().map_err(|_| "a client panicked")??;
    }
    Ok(())
}

/// Half of them by RTSP, half by HTTP.
fn one(rtsp: SocketAddr, http: SocketAddr, session: u32) -> Result<()> {
    // Clients have every fourth number.
    let is_viewer = (session / CLIENTS).is_multiple_of(2);
    let mut stream = TcpStream::connect(if is_viewer { rtsp } else { http })?;
    stream.set_read_timeout(Some(LIMIT))?;
    if is_viewer {
        let url = format!("rtsp://{rtsp}/cam{}", session % 10);
        let answer = ask(&mut stream, "DESCRIBE", &url, "")?;
        if !answer.starts_with("RTSP/1.0 200") {
            return Err(format!("DESCRIBE is answered with {answer}").into());
        }
        return Ok(());
    }
    let request = "GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    stream.write_all(request.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    if !answer.starts_with("HTTP/1.1 200") {
        return Err(format!("a request is answered with {answer}").into());
    }
    Ok(())
}
