//! A DNS server, asked over UDP and TCP (RFC 1035).

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};

use super::Failure;
use super::process::LIMIT;
use super::stage::{Stage, expect, free};

/// So many hosts, each asked for by a query of its own before the first answer is read.
const HOSTS: u8 = 50;
const HEADER: usize = 12;
/// The part of the flags that says what went wrong, and its value for a name that does not exist.
const CODE: u8 = 0xf;
const NO_SUCH_NAME: u8 = 3;

/// hickory-dns: names of a zone that it has from a file.
pub(super) fn dns(stage: &mut Stage) -> Result<(), Failure> {
    let address = free()?;
    let config = stage.folder().join("named.toml");
    // Where it is root it would become somebody else, who may not exist.
    let text = "listen_addrs_ipv4 = [\"127.0.0.1\"]\nuser = \"root\"\ngroup = \"root\"\n\
                [[zones]]\nzone = \"trial.test\"\nzone_type = \"Primary\"\nfile = \"trial.zone\"\n";
    fs::write(&config, text)?;
    fs::write(stage.folder().join("trial.zone"), zone())?;
    let (folder, port) = (
        stage.folder().display().to_string(),
        address.port().to_string(),
    );
    let config = config.display().to_string();
    let words = ["-q", "-c", &config, "-z", &folder, "-p", &port];
    let mut server = stage.start("hickory-dns", &words)?;
    server.listens(address)?;
    expect("addresses over UDP", &over_udp(address)?, &known())?;
    expect("addresses over TCP", &over_tcp(address)?, &known())?;
    stage.terminate(server)
}

fn zone() -> String {
    let mut text = "$TTL 60\n@ IN SOA ns.trial.test. admin.trial.test. 1 3600 600 86400 60\n  \
                    IN NS ns\nns IN A 127.0.0.1\n"
        .to_owned();
    for (host, address) in known() {
        if let Some(address) = address {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "host-{host} IN A {address}");
        }
    }
    text
}

/// The address of each host. The last one does not exist.
fn known() -> BTreeMap<u8, Option<Ipv4Addr>> {
    let hosts = (0..HOSTS).map(|host| (host, Some(Ipv4Addr::new(192, 0, 2, host))));
    hosts.chain([(HOSTS, None)]).collect()
}

fn over_udp(address: SocketAddr) -> Result<BTreeMap<u8, Option<Ipv4Addr>>, Failure> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    socket.set_read_timeout(Some(LIMIT))?;
    socket.connect(address)?;
    for host in known().keys() {
        socket.send(&query(*host))?;
    }
    let mut message = [0; 512];
    let answers = known().into_keys().map(|_| {
        let length = socket.recv(&mut message)?;
        answer(&message[..length])
    });
    answers.collect()
}

fn over_tcp(address: SocketAddr) -> Result<BTreeMap<u8, Option<Ipv4Addr>>, Failure> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(LIMIT))?;
    for host in known().keys() {
        let query = query(*host);
        let length = u16::try_from(query.len()).unwrap_or(u16::MAX);
        stream.write_all(&[&length.to_be_bytes()[..], &query].concat())?;
    }
    let answers = known().into_keys().map(|_| {
        let mut length = [0; 2];
        stream.read_exact(&mut length)?;
        let mut message = vec![0; u16::from_be_bytes(length).into()];
        stream.read_exact(&mut message)?;
        answer(&message)
    });
    answers.collect()
}

/// A question for the address of a host, whose number is the message's.
fn query(host: u8) -> Vec<u8> {
    let mut message = vec![0, host, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in [&format!("host-{host}"), "trial", "test", ""] {
        message.push(u8::try_from(label.len()).unwrap_or(u8::MAX));
        message.extend(label.as_bytes());
    }
    // For an address, of the Internet.
    message.extend([0, 1, 0, 1]);
    message
}

/// Which host a message is about, and its address, unless there is none. The address is what an
/// answer ends with.
fn answer(message: &[u8]) -> Result<(u8, Option<Ipv4Addr>), Failure> {
    let wrong = || Failure::Wrong(format!("{message:?}; expected an answer"));
    let (header, rest) = message.split_at_checked(HEADER).ok_or_else(wrong)?;
    let address = match header[3] & CODE {
        0 => Some(Ipv4Addr::from(*rest.last_chunk::<4>().ok_or_else(wrong)?)),
        NO_SUCH_NAME => None,
        _ => return Err(wrong()),
    };
    Ok((header[1], address))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read() {
        let mut message = query(7);
        message.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, 7]);
        let read = |message: &[u8]| answer(message).ok();
        let address = Ipv4Addr::new(192, 0, 2, 7);
        assert_eq!(read(&message), Some((7, Some(address))));
        message[3] = 0x83;
        assert_eq!(read(&message), Some((7, None)));
        message[3] = 2;
        assert_eq!(read(&message), None);
        assert_eq!(read(&message[..5]), None);
    }
}
