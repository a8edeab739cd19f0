//! The new process's side: what it takes over.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream as StdStream;
use std::path::Path;
use std::time::Duration;

use evenkeel::net::UnixStream;
use evenkeel::net::handover::{self, Passed};
use evenkeel::time::timeout;
use tokio::io::AsyncReadExt;

use super::wire::{self, Estate, New, Old, VERSION};
use super::{Known, Left, Passing, PidLeft};
use crate::pool::Standing;
use crate::server::Place;
use crate::socket::Address;

/// The variable in the environment that says: the standard input is a socket to the process from
/// which this one takes over.
pub const SUCCESSOR: &str = "EVENKEEL_PROXY_SUCCESSOR";

/// How long the old process may take to answer. It ends this one earlier, if it lives.
const ANSWER_MAX: Duration = Duration::from_secs(60);

/// The process before this one.
#[derive(Debug)]
pub struct Predecessor(StdStream);

/// What came of it. Sockets that nobody takes are closed with this.
#[derive(Debug)]
pub struct Inherited {
    stream: UnixStream,
    listeners: BTreeMap<Place, Vec<Passed>>,
    admin: Option<(String, Passed)>,
    /// What operators have said of listeners.
    said: Vec<(Place, Passing)>,
    pools: BTreeMap<String, BTreeMap<String, Known>>,
    /// How many earlier processes may be finishing their connections.
    pub ancestors: u32,
    /// The file with the id of the old process.
    pub pid_file: Option<PidLeft>,
}

impl Predecessor {
    /// The one that has started this process, if one has.
    ///
    /// # Errors
    ///
    /// The environment says so, and the standard input is no socket.
    pub fn of_environment() -> io::Result<Option<Self>> {
        if std::env::var_os(SUCCESSOR).is_none() {
            return Ok(None);
        }
        let wrong = |error| {
            let said = format!(
                "{SUCCESSOR} is set, and the standard input is no socket of an earlier process: \
                 unset it ({error})"
            );
            io::Error::new(io::ErrorKind::InvalidInput, said)
        };
        let input = io::stdin().as_fd().try_clone_to_owned().map_err(wrong)?;
        let stream = StdStream::from(input);
        stream.peer_addr().map_err(wrong)?;
        // Or it would stay open, and the other process not see that this one has closed its end.
        nix::unistd::dup2_stdin(File::open("/dev/null")?)?;
        Ok(Some(Self(stream)))
    }

    /// A second handle, to say that this process cannot begin.
    ///
    /// # Errors
    ///
    /// Those of the system.
    pub fn try_clone(&self) -> io::Result<Self> {
        self.0.try_clone().map(Self)
    }

    /// Says why this process ends. Whoever has gone does not hear it.
    pub fn failed(&mut self, why: &dyn fmt::Display) {
        if let Ok(message) = wire::message(&New::Failed(why.to_string())) {
            let _ = self.0.write_all(&message);
        }
    }

    /// Takes over what there is.
    ///
    /// # Errors
    ///
    /// It does not come, or is of another version.
    pub async fn inherit(self) -> io::Result<Inherited> {
        let stream = UnixStream::from_std(self.0)?;
        let estate = async {
            let Old::Estate(estate) = wire::hear(&stream).await? else {
                return Err(wrong("it says to go on before it says what there is"));
            };
            if estate.version != VERSION {
                let said = "it has another version of this protocol: restart instead";
                return Err(wrong(said));
            }
            Ok((estate, handover::receive(&stream).await?))
        };
        let (estate, passed) = timeout(ANSWER_MAX, estate).await??;
        let mut passed = passed.into_iter();
        let mut listeners = BTreeMap::new();
        let mut said = Vec::new();
        for passing in estate.listeners {
            let address = passing.address.parse();
            let place = Place {
                address: address.map_err(|why: String| wrong(&why))?,
                name: passing.name.clone(),
            };
            let sockets: Vec<Passed> = passed.by_ref().take(passing.sockets).collect();
            listeners.insert(place.clone(), sockets);
            said.push((place, passing));
        }
        let admin = estate.admin.zip(passed.next());
        Ok(Inherited {
            stream,
            listeners,
            admin,
            said,
            pools: estate.pools,
            ancestors: estate.ancestors,
            pid_file: estate.pid_file,
        })
    }
}

fn wrong(why: &str) -> io::Error {
    let said = format!("cannot take over from the earlier process: {why}");
    io::Error::new(io::ErrorKind::InvalidData, said)
}

impl Inherited {
    /// The sockets of a listener, if it was there.
    pub fn listener(&mut self, place: &Place) -> Option<Vec<Passed>> {
        let sockets = self.listeners.remove(place)?;
        Some(sockets).filter(|sockets| !sockets.is_empty())
    }

    /// The socket for operators, if it had this path.
    pub fn admin(&mut self, path: &Path) -> Option<Passed> {
        let is_it = |(was, _): &mut (String, Passed)| Path::new(was) == path;
        self.admin.take_if(is_it).map(|(_, passed)| passed)
    }

    /// What operators have said of listeners.
    pub fn said(&self) -> impl Iterator<Item = (&Place, &Passing)> {
        self.said.iter().map(|(place, passing)| (place, passing))
    }

    /// What is known of a server at this address.
    pub fn standing(&self, pool: &str, server: &str, address: &Address) -> Option<Standing> {
        let known = self.pools.get(pool)?.get(server)?;
        (known.address == address.to_string()).then_some(known.standing)
    }

    /// Says that this process could accept, and waits until it may.
    ///
    /// # Errors
    ///
    /// The old process has ended, or ends this one.
    pub async fn prepared(&mut self) -> io::Result<()> {
        let go = async {
            wire::say(&self.stream, &New::Prepared).await?;
            wire::hear(&self.stream).await
        };
        match timeout(ANSWER_MAX, go).await? {
            Ok(Old::Go) => Ok(()),
            Ok(Old::Estate(Estate { .. })) => Err(wrong("it says twice what there is")),
            Err(error) => Err(wrong(&format!("it has gone: {error}"))),
        }
    }

    /// Says that this process accepts. From now on the old one does not. Returns what shows by its
    /// end that the old one has ended.
    ///
    /// # Errors
    ///
    /// It has gone already.
    pub async fn serving(self) -> io::Result<UnixStream> {
        let passing = |(place, sockets): (Place, Vec<Passed>)| Passing {
            address: place.address.to_string(),
            name: place.name,
            sockets: sockets.len(),
            is_off: false,
            connections_max: None,
            tickets: None,
        };
        let left = Left {
            listeners: self.listeners.into_iter().map(passing).collect(),
            admin: self.admin.is_some(),
        };
        wire::say(&self.stream, &New::Serving(left)).await?;
        Ok(self.stream)
    }
}

/// Waits until the old process has ended.
pub async fn ended(mut stream: UnixStream) {
    // It says nothing more.
    while matches!(stream.read(&mut [0; 64]).await, Ok(1..)) {}
}
