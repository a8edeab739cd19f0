//! What the two processes say to each other: messages in JSON, each behind its length in four
//! bytes, little-endian. The sockets follow the estate by `evenkeel::net::handover`.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

use evenkeel::net::UnixStream;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::pool::Standing;
use crate::tls::TicketKeys;

/// The version of all of this. Another one is refused: the new process says so, and ends.
pub const VERSION: u32 = 1;

/// The longest message. An estate has a line for each server.
const BYTES_MAX: usize = 16 << 20;

/// What the old process says.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Old {
    /// What there is.
    Estate(Estate),
    /// The new one may accept.
    Go,
}

/// What the new process says.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum New {
    /// It could accept.
    Prepared,
    /// It does, and this is what it did not take.
    Serving(Left),
    /// It ends, for this reason.
    Failed(String),
}

/// What passes on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Estate {
    /// The version of what is said.
    pub version: u32,
    /// How many earlier processes may be finishing their connections, with the one that says this.
    pub ancestors: u32,
    /// The listeners; their sockets come in this order, numbered from 0 on.
    pub listeners: Vec<Passing>,
    /// The socket for operators, which comes last, if there is one: its path.
    pub admin: Option<String>,
    /// What checks and operators said of servers, by pool and name.
    pub pools: BTreeMap<String, BTreeMap<String, Known>>,
    /// The file with the id of this process, which the other one removes if its own is elsewhere.
    #[serde(default)]
    pub pid_file: Option<PidLeft>,
}

/// A file with the id of a process that another one follows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PidLeft {
    /// Its path.
    pub path: PathBuf,
    /// What it has.
    pub id: u32,
}

/// A listener that passes on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Passing {
    /// Its address, as configured.
    pub address: String,
    /// Its name, if the system has chosen its port.
    pub name: Option<String>,
    /// How many sockets it has.
    pub sockets: usize,
    /// Operators have switched it off.
    pub is_off: bool,
    /// The limit of its connections that operators have set.
    pub connections_max: Option<usize>,
    /// The keys of its tickets.
    #[serde(default)]
    pub tickets: Option<TicketKeys>,
}

/// What the new process did not take: its configuration does not have it any more.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Left {
    /// Listeners.
    pub listeners: Vec<Passing>,
    /// The socket for operators.
    pub admin: bool,
}

/// What is known of a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Known {
    /// Its address, as configured: another one is another server.
    pub address: String,
    /// What checks and operators say.
    pub standing: Standing,
}

/// A message as it is sent.
pub(super) fn message(said: &impl Serialize) -> io::Result<Vec<u8>> {
    let body = serde_json::to_vec(said)?;
    let length = u32::try_from(body.len()).unwrap_or(u32::MAX);
    if body.len() > BYTES_MAX {
        return Err(too_long(length));
    }
    Ok([&length.to_le_bytes()[..], &body].concat())
}

/// Says something.
pub(super) async fn say(mut stream: &UnixStream, said: &impl Serialize) -> io::Result<()> {
    stream.write_all(&message(said)?).await
}

/// Hears what is said. Reads no byte more.
pub(super) async fn hear<T: DeserializeOwned>(mut stream: &UnixStream) -> io::Result<T> {
    let mut length = [0; 4];
    stream.read_exact(&mut length).await?;
    let length = u32::from_le_bytes(length);
    if length as usize > BYTES_MAX {
        return Err(too_long(length));
    }
    let mut body = vec![0; length as usize];
    stream.read_exact(&mut body).await?;
    Ok(serde_json::from_slice(&body)?)
}

fn too_long(length: u32) -> io::Error {
    let said = format!("a message of {length} bytes is longer than {BYTES_MAX}");
    io::Error::new(io::ErrorKind::InvalidData, said)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(test: impl AsyncFnOnce(UnixStream, UnixStream)) {
        let runtime = evenkeel::runtime::Runtime::new().unwrap();
        runtime.block_on(async {
            let (one, two) = UnixStream::pair().unwrap();
            test(one, two).await;
        });
    }

    #[test]
    fn what_is_said_is_heard_and_not_a_byte_more() {
        pair(async |one, mut two| {
            let estate = Estate {
                version: VERSION,
                admin: Some("/run/a".to_owned()),
                listeners: vec![Passing {
                    address: "127.0.0.1:0".to_owned(),
                    name: Some("web".to_owned()),
                    sockets: 2,
                    is_off: false,
                    connections_max: Some(7),
                    tickets: None,
                }],
                ..Estate::default()
            };
            say(&one, &Old::Estate(estate.clone())).await.unwrap();
            say(&one, &Old::Go).await.unwrap();
            drop(one);
            match hear(&two).await.unwrap() {
                Old::Estate(heard) => assert_eq!(heard, estate),
                Old::Go => panic!("the estate comes first"),
            }
            assert!(matches!(hear(&two).await, Ok(Old::Go)));
            assert_eq!(two.read(&mut [0]).await.unwrap(), 0);
        });
    }

    #[test]
    fn what_is_no_message_is_an_error() {
        for bytes in [
            &b"\xFF\xFF\xFF\xFF"[..],
            b"\x02\0\0\0{}",
            b"\x09\0\0\0\"Going\"",
            b"\x02\0\0\0",
            b"\x02",
        ] {
            pair(async |mut one, two| {
                one.write_all(bytes).await.unwrap();
                drop(one);
                hear::<New>(&two).await.unwrap_err();
            });
        }
    }
}
