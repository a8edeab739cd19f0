//! How long an answer takes beside what others have the proxy compute: handshakes of strangers, and
//! answers of another route that are compressed.

use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use evenkeel_measure::latency::Latencies;
use evenkeel_measure::rounds::alternate;
use rustls::client::Resumption;
use rustls::crypto::ring;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore};

use super::clients::{Kept, connect};
use super::proxies::{Kind, Machine, NAME, Proxy};
use super::rows::Rows;
use super::{Plan, Result, priority};

/// How many clients ask, and how long each waits before it asks again.
const CLIENTS: usize = 2;
const PAUSE: Duration = Duration::from_millis(1);

/// How many make handshakes, and how many a second each of them.
const STRANGERS: usize = 2;
const HANDSHAKES: u32 = 500;

/// What else there is to do.
#[derive(Clone, Copy)]
enum Beside {
    Nothing,
    Handshakes,
    /// A megabyte of text again and again, which ours takes some 10 ms to compress.
    Computations,
}

impl Beside {
    /// How many do it.
    fn number(self) -> usize {
        match self {
            Self::Nothing => 0,
            Self::Handshakes => STRANGERS,
            Self::Computations => 1,
        }
    }
}

pub(crate) fn answers(plan: &Plan<'_>) -> Result<Rows> {
    let title = "the 99th percentile of an answer's time beside what others ask for, and without \
                 that, in us: less is better; the ratio is the first to the second";
    let mut rows = Rows::of(title, ["beside it", "without"], 0);
    let loads = [
        ("1000 handshakes/s", Beside::Handshakes, "<= 1.30"),
        ("10 ms of computing", Beside::Computations, "<= 1.20"),
    ];
    for (name, beside, target) in loads {
        if !plan.wants(name) {
            continue;
        }
        for kind in [Kind::Ours, Kind::Copying] {
            let proxy = plan.machine.start(kind)?;
            let length = plan.rounds.sample(Duration::from_millis(1_600));
            let both = [beside, Beside::Nothing];
            let figures = alternate(plan.rounds.rounds(), &both, |&beside| {
                measured(plan.machine, kind, &proxy, beside, length)
            })?;
            let targets = if kind == Kind::Ours {
                &[target][..]
            } else {
                &[]
            };
            rows.add(&format!("{name}, {}", kind.name()), targets, &figures);
        }
    }
    Ok(rows)
}

fn measured(
    machine: &Machine,
    kind: Kind,
    proxy: &Proxy,
    beside: Beside,
    length: Duration,
) -> Result<f64> {
    let is_over = AtomicBool::new(false);
    let done = AtomicUsize::new(0);
    let config = strangers(machine)?;
    // Relaxed: a flag that may be seen late, and a number that is read when all have ended.
    let goes_on = || !is_over.load(Ordering::Relaxed);
    let other = || -> Result<()> {
        priority::last();
        let began = Instant::now();
        for number in 1.. {
            if !goes_on() {
                break;
            }
            match beside {
                Beside::Nothing => break,
                Beside::Handshakes => {
                    handshake(proxy, &config)?;
                    let next = began + Duration::from_secs(1) * number / HANDSHAKES;
                    thread::sleep(next.saturating_duration_since(Instant::now()));
                }
                Beside::Computations => compressed(proxy)?,
            }
            done.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    };
    let latencies = thread::scope(|scope| -> Result<Latencies> {
        let others = (0..beside.number()).map(|_| scope.spawn(other));
        let others: Vec<_> = others.collect();
        let clients = (0..CLIENTS).map(|_| scope.spawn(|| asked(proxy, length)));
        let clients: Vec<_> = clients.collect();
        let mut all = Latencies::new();
        let mut ended = Ok(());
        for client in clients {
            match client.join() {
                Ok(Ok(latencies)) => all.absorb(&latencies),
                Ok(Err(error)) => ended = Err(error),
                Err(_) => ended = Err("a client has panicked".into()),
            }
        }
        is_over.store(true, Ordering::Relaxed);
        for other in others {
            other.join().map_err(|_| "a client has panicked")??;
        }
        ended.map(|()| all)
    })?;
    let wanted = f64::from(HANDSHAKES) * STRANGERS as f64 * length.as_secs_f64();
    let done = done.into_inner() as f64;
    if matches!(beside, Beside::Handshakes) && done < 0.9 * wanted {
        let name = kind.name();
        eprintln!("{name}: only {done} handshakes of {wanted} were made");
    }
    Ok(latencies.percentile(99).as_secs_f64() * 1e6)
}

/// Asks again and again over a connection that is kept.
fn asked(proxy: &Proxy, length: Duration) -> Result<Latencies> {
    priority::first();
    let mut latencies = Latencies::new();
    let mut buffer = vec![0; 4_096];
    let mut kept = Kept::connect(proxy.prompt)?;
    let began = Instant::now();
    while began.elapsed() < length {
        let asked = Instant::now();
        kept.ask(false, &mut buffer)?;
        latencies.record(asked.elapsed());
        thread::sleep(PAUSE);
    }
    Ok(latencies)
}

/// How strangers make a whole handshake each time.
fn strangers(machine: &Machine) -> Result<Arc<ClientConfig>> {
    let mut roots = RootCertStore::empty();
    roots.add(machine.certificate.clone())?;
    let provider = Arc::new(ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider);
    let config = config.with_safe_default_protocol_versions()?;
    let mut config = config.with_root_certificates(roots).with_no_client_auth();
    config.resumption = Resumption::disabled();
    Ok(Arc::new(config))
}

fn handshake(proxy: &Proxy, config: &Arc<ClientConfig>) -> Result<()> {
    let mut stream = connect(proxy.tls)?;
    let name = ServerName::try_from(NAME)?;
    let mut session = ClientConnection::new(Arc::clone(config), name)?;
    while session.is_handshaking() || session.wants_write() {
        session.complete_io(&mut stream)?;
    }
    Ok(())
}

/// Fetches text that the proxy compresses.
fn compressed(proxy: &Proxy) -> Result<()> {
    let mut stream = connect(proxy.computed)?;
    let request: &[u8] =
        b"GET /text HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\nConnection: close\r\n\r\n";
    stream.write_all(request)?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    let head = String::from_utf8_lossy(&answer[..answer.len().min(512)]).to_ascii_lowercase();
    if !head.contains("content-encoding: gzip") {
        return Err(format!("an answer is not compressed: {head}").into());
    }
    Ok(())
}
