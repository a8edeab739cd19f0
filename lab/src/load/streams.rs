//! Calls over HTTP/2, each a stream of the one connection to its target. The client is hyper's, on
//! one thread of Tokio: what it adds, it adds to every server alike.

use std::io::Read;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use http_body_util::{BodyExt, Empty};
use hyper::body::Bytes;
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};

use super::book::Book;
use super::mixed::Side;
use crate::error::{Error, Result};
use crate::sys;

/// Calls of a kind that may be under way at once; what is due beyond them counts as unanswered.
const UNDER_WAY_MAX: usize = 4_000;

type Sender = SendRequest<Empty<Bytes>>;

/// One kind of calls, its connection and its accounts.
#[derive(Clone)]
struct Caller {
    accounts: Arc<Mutex<Accounts>>,
    sender: Sender,
    method: Method,
    target: SocketAddr,
}

struct Accounts {
    book: Book,
    under_way: usize,
}

/// Calls until all is answered or `end` has come; says how long that took. Where both kinds have
/// one target, they share a connection.
pub(super) fn run(
    sides: [Side; 2],
    tick: Duration,
    end: Duration,
) -> Result<(Duration, [Book; 2])> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()
        .map_err(Error::system("the load generator's runtime did not start"))?;
    let [first, second] = sides;
    let (elapsed, callers) = runtime.block_on(async {
        let sender = connect(first.target).await?;
        let other = match first.target == second.target {
            true => sender.clone(),
            false => connect(second.target).await?,
        };
        let callers = [Caller::new(first, sender), Caller::new(second, other)];
        let timed = call_all(&callers, tick, end).await;
        let elapsed = timed.map_err(Error::system("the calls' timer failed"))?;
        Ok::<_, Error>((elapsed, callers))
    })?;
    // What is still under way ends with it, and gives the accounts back.
    drop(runtime);
    let books = callers.map(|caller| {
        let accounts = Arc::into_inner(caller.accounts).map(Mutex::into_inner);
        let accounts = accounts.expect("a runtime that was dropped keeps no task");
        accounts.unwrap_or_else(PoisonError::into_inner).book
    });
    Ok((elapsed, books))
}

async fn connect(target: SocketAddr) -> Result<Sender> {
    let refused = Error::connect(target);
    let stream = tokio::net::TcpStream::connect(target).await;
    let stream = stream.map_err(&refused)?;
    stream.set_nodelay(true).map_err(&refused)?;
    let shaken = handshake(TokioExecutor::new(), TokioIo::new(stream)).await;
    let (sender, connection) = shaken.map_err(|error| refused(std::io::Error::other(error)))?;
    // Its calls say how it ends.
    tokio::spawn(async { drop(connection.await) });
    Ok(sender)
}

async fn call_all(
    callers: &[Caller; 2],
    tick: Duration,
    end: Duration,
) -> std::io::Result<Duration> {
    // Before the timer starts: a tick that came just before its call was due would make it a whole
    // tick late.
    let start = Instant::now();
    let timer = sys::awaited_timer(tick)?;
    loop {
        for caller in callers {
            caller.call_due(start);
        }
        let elapsed = start.elapsed();
        if elapsed >= end || callers.iter().all(Caller::is_over) {
            return Ok(elapsed);
        }
        let mut ready = timer.readable().await?;
        // Its count, without which it would not be heard of again.
        let _ = timer.get_ref().read(&mut [0; 8]);
        ready.clear_ready();
    }
}

impl Caller {
    fn new(side: Side, sender: Sender) -> Self {
        let accounts = Accounts {
            book: side.book,
            under_way: 0,
        };
        Caller {
            accounts: Arc::new(Mutex::new(accounts)),
            sender,
            method: side.method,
            target: side.target,
        }
    }

    fn accounts(&self) -> MutexGuard<'_, Accounts> {
        // Nothing panics between two changes that belong together.
        self.accounts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_over(&self) -> bool {
        let accounts = self.accounts();
        accounts.book.all_begun() && accounts.under_way == 0
    }

    fn call_due(&self, start: Instant) {
        loop {
            let mut accounts = self.accounts();
            let Some(call) = accounts.book.begin(start.elapsed()) else {
                return;
            };
            if accounts.under_way < UNDER_WAY_MAX {
                accounts.under_way += 1;
                tokio::spawn(self.clone().call(call, start));
            }
        }
    }

    async fn call(mut self, call: u64, start: Instant) {
        let answered = self.ask().await;
        let mut accounts = self.accounts();
        accounts.under_way -= 1;
        match answered {
            Some(()) => _ = accounts.book.answered(call, start.elapsed()),
            None => accounts.book.lost(),
        }
    }

    /// `None` if the call broke, or was answered with anything but 200.
    async fn ask(&mut self) -> Option<()> {
        let request = Request::builder()
            .method(self.method.clone())
            .uri(format!("http://{}/", self.target))
            .body(Empty::new())
            .ok()?;
        let answer = self.sender.send_request(request).await.ok()?;
        let is_good = answer.status() == StatusCode::OK;
        answer.into_body().collect().await.ok()?;
        is_good.then_some(())
    }
}
