//! `load calls`: an open loop of calls, each over a connection of its own, as somebody who asks how
//! a server is would make them. `load mixed`: one call in four makes the server compute for long,
//! and the others are answered at once; what counts is how long those take.

use std::cell::{Cell, RefCell};
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Instant;

use http_body_util::{BodyExt, Empty};
use hyper::body::Bytes;
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde::{Deserialize, Serialize};
use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::spawn_local;

use super::args::{CallsArgs, MixedArgs, OpenLoop, Over};
use super::book::{Book, EchoSummary};
use super::exchange::{exchange, request};
use super::net::{self, at_pace};
use crate::error::{Error, Result};
use crate::sys;

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct MixedSummary {
    /// `GET /`, answered at once.
    pub(crate) innocents: EchoSummary,
    /// `POST /`, answered after some computing.
    pub(crate) hogs: EchoSummary,
}

/// Calls of a kind that may be under way at once; what is due beyond them counts as unanswered.
const UNDER_WAY_MAX: usize = 4_000;

struct Kind {
    book: RefCell<Book>,
    under_way: Cell<usize>,
    way: Way,
}

enum Way {
    /// Over a connection of its own.
    Fresh(SocketAddr, Vec<u8>),
    /// Over the one of those that are kept that has been without a call for longest.
    Kept(Rc<Pool>, Vec<u8>),
    /// As a stream of a connection; the client is hyper's.
    H2(SendRequest<Empty<Bytes>>, Method, SocketAddr),
}

/// Connections that are kept, while they are without a call.
struct Pool {
    idle: Mutex<UnboundedReceiver<TcpStream>>,
    back: UnboundedSender<TcpStream>,
}

pub(crate) fn calls(args: &CallsArgs) -> Result<EchoSummary> {
    let method = if args.post { Method::POST } else { Method::GET };
    let way = Way::Fresh(args.target, head(&method, &args.path, args.target, false));
    let [found] = run(args.rate, args.time, [|_| true], async || Ok([way]))?;
    Ok(found)
}

pub(crate) fn mixed(args: &MixedArgs) -> Result<MixedSummary> {
    let hogs_at = args.hogs_at.unwrap_or(args.target);
    if args.over == Over::Shared && hogs_at != args.target {
        return Err(Error::new(
            "`--over shared` makes calls of both kinds over each connection: leave --hogs-at out, \
             or give one of `--over fresh`, `kept`, `h2`",
        ));
    }
    let parts: [fn(u64) -> bool; 2] = [|call| !is_hog(call), is_hog];
    let ways = async || ways(args, [args.target, hogs_at]).await;
    let [innocents, hogs] = run(args.rate, args.time, parts, ways)?;
    Ok(MixedSummary { innocents, hogs })
}

/// One call in four. Its place among the four moves from one four to the next, so that hogs meet
/// each other, and leave room, in turn.
fn is_hog(index: u64) -> bool {
    (index + index / 4).is_multiple_of(4)
}

/// How innocents and hogs get to their targets. Where connections are kept, all are for all calls,
/// or a quarter of them is for hogs.
async fn ways(args: &MixedArgs, targets: [SocketAddr; 2]) -> Result<[Way; 2]> {
    let [target, hogs_at] = targets;
    let heads = |keep| {
        let get = head(&Method::GET, "/", target, keep);
        (get, head(&Method::POST, "/", hogs_at, keep))
    };
    Ok(match args.over {
        Over::Fresh => {
            let (get, post) = heads(false);
            [Way::Fresh(target, get), Way::Fresh(hogs_at, post)]
        }
        Over::Kept => {
            let ((get, post), hogs) = (heads(true), (args.connections / 4).max(1));
            let innocents = args.connections.saturating_sub(hogs).max(1);
            let pool = Pool::fill(target, innocents).await?;
            [
                Way::Kept(pool, get),
                Way::Kept(Pool::fill(hogs_at, hogs).await?, post),
            ]
        }
        Over::Shared => {
            let ((get, post), pool) = (heads(true), Pool::fill(target, args.connections).await?);
            [Way::Kept(Rc::clone(&pool), get), Way::Kept(pool, post)]
        }
        Over::H2 => {
            let sender = connect_h2(target).await?;
            let other = match target == hogs_at {
                true => sender.clone(),
                false => connect_h2(hogs_at).await?,
            };
            let get = Way::H2(sender, Method::GET, target);
            [get, Way::H2(other, Method::POST, hogs_at)]
        }
    })
}

fn head(method: &Method, path: &str, target: SocketAddr, keep: bool) -> Vec<u8> {
    request(method.as_str(), path, target, keep, "Content-Length: 0\r\n")
}

async fn connect_h2(target: SocketAddr) -> Result<SendRequest<Empty<Bytes>>> {
    let refused = Error::connect(target);
    let stream = net::open(target, None).await.map_err(&refused)?;
    let shaken = handshake(TokioExecutor::new(), TokioIo::new(stream)).await;
    let (sender, connection) = shaken.map_err(|error| refused(io::Error::other(error)))?;
    // Its calls say how it ends.
    spawn_local(connection);
    Ok(sender)
}

impl Pool {
    async fn fill(target: SocketAddr, connections: u32) -> Result<Rc<Self>> {
        let (back, idle) = unbounded_channel();
        for stream in net::connect(target, connections).await? {
            // It is the receiver that it goes back to.
            let _ = back.send(stream);
        }
        let idle = Mutex::new(idle);
        Ok(Rc::new(Pool { idle, back }))
    }
}

/// Makes all calls of a schedule, each kind its own part of them.
fn run<const N: usize>(
    rate: u32,
    time: OpenLoop,
    parts: [fn(u64) -> bool; N],
    ways: impl AsyncFnOnce() -> Result<[Way; N]>,
) -> Result<[EchoSummary; N]> {
    // Where load shares processors, a prober that waits for its turn would measure itself: a
    // fair scheduler makes one that ran just now wait for a tick, however little it wants.
    sys::ask_to_go_first();
    let pace = time.pace(rate);
    net::run(async {
        let mut ways = ways().await?.into_iter();
        let kinds = parts.map(|part| {
            Rc::new(Kind {
                book: RefCell::new(time.book(pace, part)),
                under_way: Cell::new(0),
                way: ways.next().expect("there are as many"),
            })
        });
        let start = Instant::now();
        let elapsed = at_pace(start, pace, time.end(), || {
            kinds.iter().for_each(|kind| kind.begin_due(start));
            kinds.iter().all(|kind| kind.is_over())
        });
        let elapsed = elapsed.await?;
        Ok(kinds.map(|kind| kind.book.borrow_mut().close(elapsed).0))
    })
}

impl Kind {
    fn begin_due(self: &Rc<Self>, start: Instant) {
        while let Some(call) = self.book.borrow_mut().begin(start.elapsed()) {
            if self.under_way.get() < UNDER_WAY_MAX {
                self.under_way.update(|calls| calls + 1);
                spawn_local(Rc::clone(self).call(call, start));
            }
        }
    }

    fn is_over(&self) -> bool {
        self.under_way.get() == 0 && self.book.borrow().all_begun()
    }

    async fn call(self: Rc<Self>, call: u64, start: Instant) {
        let answered = self.way.ask().await;
        self.under_way.update(|calls| calls - 1);
        let mut book = self.book.borrow_mut();
        match answered {
            Some(()) => _ = book.answered(call, start.elapsed()),
            None => book.lost += 1,
        }
    }
}

impl Way {
    /// `None` if the call broke, or was answered with anything but 200.
    async fn ask(&self) -> Option<()> {
        match self {
            Way::Fresh(target, request) => {
                let mut stream = net::open(*target, None).await.ok()?;
                exchange(&mut stream, request, |_| ()).await.ok()
            }
            Way::Kept(pool, request) => {
                let mut stream = pool.idle.lock().await.recv().await?;
                exchange(&mut stream, request, |_| ()).await.ok()?;
                pool.back.send(stream).ok()
            }
            Way::H2(sender, method, target) => {
                let request = Request::builder()
                    .method(method.clone())
                    .uri(format!("http://{target}/"))
                    .body(Empty::new())
                    .ok()?;
                let answer = sender.clone().send_request(request).await.ok()?;
                let is_good = answer.status() == StatusCode::OK;
                answer.into_body().collect().await.ok()?;
                is_good.then_some(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_call_in_four_hogs_at_changing_places() {
        let hogs: Vec<u64> = (0..32).filter(|&index| is_hog(index)).collect();
        assert_eq!(hogs, [0, 7, 10, 13, 16, 23, 26, 29]);
    }
}
