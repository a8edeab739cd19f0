//! What proxies and tunnels lead to: an HTTP server, and a SOCKS server, on threads of ours.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread;

use super::process::LIMIT;

/// So many bytes, of which each says where it is.
pub(super) fn payload(length: usize) -> Vec<u8> {
    (0..=250).cycle().take(length).collect()
}

/// Serves `/<length>`: so many bytes.
pub(super) fn http() -> io::Result<SocketAddr> {
    serve(|mut stream| {
        let mut reader = BufReader::new(stream.try_clone()?);
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let target = line.split(' ').nth(1).unwrap_or_default();
        let length = target.rsplit('/').next().unwrap_or_default().parse();
        while reader.read_line(&mut line)? > 2 {}
        let Ok(length) = length else {
            return stream.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n");
        };
        write!(
            stream,
            "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n"
        )?;
        stream.write_all(&payload(length))
    })
}

/// Serves SOCKS 5 (RFC 1928) for whoever wants to connect, without asking who that is.
pub(super) fn socks() -> io::Result<SocketAddr> {
    serve(|mut stream| {
        let mut greeting = [0; 2];
        stream.read_exact(&mut greeting)?;
        stream.read_exact(&mut vec![0; greeting[1].into()])?;
        stream.write_all(&[5, 0])?;
        let target = TcpStream::connect(read_target(&mut stream)?)?;
        stream.write_all(&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0])?;
        let (from, to) = (stream.try_clone()?, target.try_clone()?);
        let back = thread::spawn(move || copy(target, stream));
        copy(from, to);
        let _ = back.join();
        Ok(())
    })
}

/// The address that a request is about.
fn read_target(stream: &mut TcpStream) -> io::Result<SocketAddr> {
    let mut head = [0; 4];
    stream.read_exact(&mut head)?;
    let host = match head {
        [5, 1, 0, 1] => {
            let mut address = [0; 4];
            stream.read_exact(&mut address)?;
            Ipv4Addr::from(address).to_string()
        }
        [5, 1, 0, 3] => {
            let mut length = [0; 1];
            stream.read_exact(&mut length)?;
            let mut name = vec![0; length[0].into()];
            stream.read_exact(&mut name)?;
            String::from_utf8_lossy(&name).into_owned()
        }
        _ => return Err(io::Error::other("no request to connect by IPv4 or name")),
    };
    let mut port = [0; 2];
    stream.read_exact(&mut port)?;
    let address = host.parse::<Ipv4Addr>().map_err(io::Error::other)?;
    Ok((address, u16::from_be_bytes(port)).into())
}

/// Copies until the end, and says there that it is the end.
fn copy(mut from: TcpStream, mut to: TcpStream) {
    // Either side may have gone; then the other one learns of it here.
    let _ = io::copy(&mut from, &mut to);
    let _ = to.shutdown(Shutdown::Write);
}

/// Listens until this process ends, a thread for each connection.
fn serve(handle: fn(TcpStream) -> io::Result<()>) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = listener.local_addr()?;
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || {
                stream.set_read_timeout(Some(LIMIT))?;
                // Whoever asked sees that the answer has not come.
                handle(stream)
            });
        }
    });
    Ok(address)
}
