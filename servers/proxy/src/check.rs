//! Finds out which servers are up: a task for each, in the control runtime, so that a proxy which
//! is busy does not take its servers for dead.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use evenkeel::Class;
use evenkeel::runtime::Handle;
use evenkeel::task::AbortHandle;
use evenkeel::time::{sleep, timeout};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tracing::{error, info, warn};

use crate::config::{self, CheckKind, Protocol};
use crate::http::{GrpcFailed, answered, serving};
use crate::pool::{Admin, Change, Pool, Server};
use crate::proxy_protocol;
use crate::socket::{Ends, Socket};
use crate::stream::Stream;

/// The longest first line of an answer, of which the status is needed alone.
const LINE_BYTES_MAX: usize = 1_024;

/// Nobody waits for longer until a server is checked for the first time.
const SPREAD_MAX: Duration = Duration::from_secs(1);

/// The checks of a pool, which end with this.
#[derive(Debug)]
pub struct Checks(Vec<AbortHandle>);

impl Checks {
    /// Begins to check the servers of a pool, if its configuration says how.
    pub fn begin(pool: &Arc<Pool>, control: &Handle) -> Self {
        let mut tasks = Vec::new();
        if let Some(check) = &pool.config.check {
            let servers = pool.servers().iter().enumerate();
            // One whose name is not found is down, and another pool comes when it is.
            let known = servers.filter(|(_, server)| server.config.address.is_known());
            for (index, _) in known {
                let watch = watch(Arc::clone(pool), check.clone(), index);
                tasks.push(control.spawn_in(Class::NORMAL, watch).abort_handle());
            }
        }
        Self(tasks)
    }

    /// How many servers are checked.
    pub fn count(&self) -> usize {
        self.0.len()
    }
}

impl Drop for Checks {
    fn drop(&mut self) {
        self.0.iter().for_each(AbortHandle::abort);
    }
}

/// Why a server is not up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Failed {
    /// It cannot be reached.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// It takes too long.
    #[error("no answer within {0:?}, check.timeout")]
    Slow(Duration),
    /// It answers with something else than an answer.
    #[error("the answer does not begin as one of HTTP")]
    NoAnswer,
    /// The health service of gRPC does not say that it serves.
    #[error(transparent)]
    Grpc(#[from] GrpcFailed),
    /// It answers with another status.
    #[error("the status is {0}, which check.expect does not have")]
    Status(u16),
}

/// Checks a server once.
///
/// # Errors
///
/// [`Failed`]: it is not up.
pub async fn once(
    check: &config::Check,
    protocol: Protocol,
    server: &Server,
) -> Result<(), Failed> {
    let attempt = timeout(check.timeout, attempt(check, protocol, server));
    attempt.await.unwrap_or(Err(Failed::Slow(check.timeout)))
}

async fn watch(pool: Arc<Pool>, check: config::Check, index: usize) {
    let server = Arc::clone(&pool.servers()[index]);
    let name = format!("{}/{}", pool.name, server.config.name);
    sleep(spread(&name, check.interval)).await;
    loop {
        if pool.members()[index].admin != Admin::Maintenance {
            let result = once(&check, pool.config.protocol, &server).await;
            if result.is_err() {
                server.counters.checks_failed.one();
            }
            let change = pool.checked(index, result.is_ok());
            match (change, result) {
                (Change::Up, _) => info!(server = name, "server {name} is up"),
                (Change::Down, Err(why)) => {
                    warn!(server = name, %why, "server {name} is down: {why}");
                    if pool.members().iter().all(|member| !member.up) {
                        let pool = &pool.name;
                        error!(pool, "pool {pool} has no server that is up");
                    }
                }
                _ => {}
            }
        }
        sleep(check.interval).await;
    }
}

/// When the first check is made: those of all pools not at the same moment, as one worker makes
/// them.
fn spread(name: &str, interval: Duration) -> Duration {
    const PARTS: u32 = 1_000;
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    let part = u32::try_from(hasher.finish() % u64::from(PARTS)).unwrap_or_default();
    interval.min(SPREAD_MAX) / PARTS * part
}

async fn attempt(check: &config::Check, protocol: Protocol, server: &Server) -> Result<(), Failed> {
    let socket = Socket::connect(&server.config.address).await?;
    let mut begin = Vec::new();
    if let Some(version) = server.config.send_proxy {
        proxy_protocol::write(version, &Ends::default(), &mut begin);
    }
    let stream = match &server.tls {
        None => Stream::Plain(socket),
        Some(tls) => {
            (&socket).write_all(&begin).await?;
            begin.clear();
            Stream::Tls(Box::new(tls.check(socket).await?))
        }
    };
    let address = server.config.shown();
    let host = match &check.host {
        Some(host) => host,
        None if address.starts_with("unix:") => "localhost",
        None => &address,
    };
    let is_one = check.kind == CheckKind::Http && protocol == Protocol::One;
    if is_one {
        let request = format!(
            "{} {} HTTP/1.1\r\nhost: {host}\r\nuser-agent: evenkeel-proxy\r\n\
             connection: close\r\n\r\n",
            check.method, check.path
        );
        begin.extend_from_slice(request.as_bytes());
    }
    (&stream).write_all(&begin).await?;
    (&stream).flush().await?;
    let result = match check.kind {
        CheckKind::Tcp => Ok(()),
        CheckKind::Http if is_one => expected(check, status(&stream).await?),
        CheckKind::Http => expected(
            check,
            answered(&stream, &check.method, host, &check.path).await?,
        ),
        CheckKind::Grpc => {
            let service = check.service.as_deref().unwrap_or_default();
            Ok(serving(&stream, host, service).await??)
        }
    };
    stream.finish_now();
    result
}

fn expected(check: &config::Check, status: u16) -> Result<(), Failed> {
    let is_expected = if check.expect.is_empty() {
        (200..400).contains(&status)
    } else {
        check.expect.contains(&status)
    };
    if is_expected {
        Ok(())
    } else {
        Err(Failed::Status(status))
    }
}

/// The status in the first line of an answer.
async fn status(mut stream: &Stream) -> Result<u16, Failed> {
    let mut line = Vec::with_capacity(LINE_BYTES_MAX);
    while memchr::memchr(b'\n', &line).is_none() && line.len() < LINE_BYTES_MAX {
        if stream.read_buf(&mut line).await? == 0 {
            break;
        }
    }
    let end = memchr::memchr(b'\n', &line).ok_or(Failed::NoAnswer)?;
    let text = std::str::from_utf8(&line[..end]).map_err(|_| Failed::NoAnswer)?;
    let rest = text.strip_prefix("HTTP/1.").ok_or(Failed::NoAnswer)?;
    let status = rest.split_ascii_whitespace().nth(1);
    status
        .and_then(|status| status.parse().ok())
        .ok_or(Failed::NoAnswer)
}
