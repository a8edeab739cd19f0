//! The proxies: how they are started, and what their processes have used.

use std::fs::{self, File, Permissions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::time::{clock_getcpuclockid, clock_gettime};
use nix::unistd::Pid;
use rustls::pki_types::CertificateDer;

use super::clients::{LIMIT, Reached};
use super::crowd::Crowd;
use super::origins::Origins;
use super::{Arguments, Result, priority};

/// Which proxy, and how it is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// evenkeel-proxy.
    Ours,
    /// HAProxy as it comes, which copies through buffers of 16 KiB.
    Copying,
    /// It may splice.
    Splicing,
    /// It copies through buffers of 64 KiB.
    Large,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Ours => "evenkeel-proxy",
            Self::Copying => "HAProxy",
            Self::Splicing => "splicing",
            Self::Large => "64 KiB",
        }
    }
}

/// The same limits and times as ours. A log of the standard output is how it writes to a file.
const HAPROXY: &str = "\
global
  nbthread 1
  maxconn 9000
  maxpipes 400
  log stdout format raw local0 info
defaults
  log global
  timeout connect 5s
  timeout client 60s
  timeout server 60s
  timeout http-request 10s
  timeout http-keep-alive 60s
  http-reuse always
";

/// The same of ours: handshakes and computations have classes of their own.
const OURS: &str = "\
[class.handshakes]
share = 10
[class.computed]
share = 10
";

const SPLICE: &str = "  option splice-auto\n  option splice-request\n  option splice-response\n";

/// Whose the certificate is.
pub(crate) const NAME: &str = "localhost";

/// The file of the certificate and its key.
const CERTIFICATE: &str = "both.pem";

/// Where the proxies run.
pub(crate) struct Machine {
    program: PathBuf,
    haproxy: String,
    /// Whether workers of ours are ordinary threads. Otherwise they are as it comes.
    ordinary: bool,
    directory: tempfile::TempDir,
    pub(crate) origins: Origins,
    /// Threads that go before all others, so that a probe sees no delay of theirs.
    prompt: Origins,
    pub(crate) crowd: Crowd,
    /// Of listeners with TLS, whose file has the key, too.
    pub(crate) certificate: CertificateDer<'static>,
}

impl Machine {
    pub(crate) fn new(arguments: &Arguments) -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let key = rcgen::KeyPair::generate()?;
        let params = rcgen::CertificateParams::new(vec![NAME.to_owned()])?;
        let certificate = params.self_signed(&key)?;
        let both = certificate.pem() + &key.serialize_pem();
        let path = directory.path().join(CERTIFICATE);
        fs::write(&path, both)?;
        // Ours takes no key that others can read.
        fs::set_permissions(&path, Permissions::from_mode(0o600))?;
        Ok(Self {
            program: arguments.program.clone(),
            haproxy: arguments.haproxy.clone(),
            ordinary: arguments.ordinary,
            directory,
            origins: Origins::start()?,
            prompt: prompt()?,
            crowd: Crowd::start()?,
            certificate: certificate.der().clone(),
        })
    }

    /// Starts a proxy.
    pub(crate) fn start(&self, kind: Kind) -> Result<Proxy> {
        static STARTED: AtomicU32 = AtomicU32::new(0);
        // Relaxed: it only has to be another number each time.
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let file = |end: &str| self.directory.path().join(format!("{number}.{end}"));
        let files = Files {
            config: file("config"),
            admin: file("socket"),
            log: file("log"),
        };
        match kind {
            Kind::Ours => self.ours(files),
            _ => self.theirs(kind, files),
        }
    }

    /// What ours is told.
    fn settings(&self, files: &Files) -> String {
        let certificate = self.directory.path().join(CERTIFICATE);
        let listener = |name: &str, mode: &str| {
            let more = match name {
                "tls" => {
                    let path = certificate.display();
                    format!(
                        "tls.class = \"handshakes\"\ntls.certificate = [{{ file = \"{path}\" }}]\n"
                    )
                }
                "computed" => "class = \"computed\"\ncompress = true\n".to_owned(),
                _ => String::new(),
            };
            format!(
                "[listener.{name}]\nbind = \"127.0.0.1:0\"\nmode = \"{mode}\"\npool = \"{name}\"\n\
                 connections_per_client_max = 9000\nlog = \"all\"\n{more}"
            )
        };
        let server = |name: &str, address: SocketAddr| {
            format!("[[pool.{name}.server]]\nname = \"s\"\naddress = \"{address}\"\n")
        };
        let mut text = format!(
            "[process]\nworkers = 1\n{}connections_max = 9000\n\
             admin_socket = \"{}\"\n[log.all]\nto = \"file:{}\"\n{OURS}",
            if self.ordinary {
                "real_time = false\n"
            } else {
                ""
            },
            files.admin.display(),
            files.log.display()
        );
        for (name, mode, address) in self.sections() {
            text += &listener(name, mode);
            text += &server(name, address);
        }
        text
    }

    fn ours(&self, files: Files) -> Result<Proxy> {
        fs::write(&files.config, self.settings(&files))?;
        let program = self.program.display();
        let mut child = Command::new(&self.program)
            .arg("run")
            .arg(&files.config)
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("cannot start {program}: {error}"))?;
        let output = child.stdout.take().ok_or("it has no output")?;
        let mut bound = [None; LISTENERS];
        for line in BufReader::new(output).lines() {
            let line = line?;
            for ((name, ..), bound) in self.sections().iter().zip(&mut bound) {
                let address = line.strip_prefix(&format!("listening on {name} "));
                *bound = bound.or_else(|| address?.parse().ok());
            }
            if line == "ready" {
                break;
            }
        }
        let [
            Some(http),
            Some(tcp),
            Some(silent),
            Some(tls),
            Some(computed),
            Some(crowded),
            Some(prompt),
        ] = bound
        else {
            return Err("the proxy does not begin".into());
        };
        let bound = [http, tcp, silent, tls, computed, crowded, prompt];
        Ok(Proxy::new(child, files, bound))
    }

    fn theirs(&self, kind: Kind, files: Files) -> Result<Proxy> {
        // It has no way to say which port it was given.
        let free = || TcpListener::bind("127.0.0.1:0")?.local_addr();
        let bound = [(); LISTENERS].map(|()| free());
        let bound: Vec<SocketAddr> = bound.into_iter().collect::<io::Result<_>>()?;
        let bound: [_; LISTENERS] = bound.try_into().map_err(|_| "an address for each")?;
        let mut text = HAPROXY.replace(
            "defaults\n",
            &format!("  stats socket {}\ndefaults\n", files.admin.display()),
        );
        let certificate = self.directory.path().join(CERTIFICATE);
        match kind {
            Kind::Splicing => text += SPLICE,
            Kind::Large => text = text.replace("  maxconn", "  tune.bufsize 65536\n  maxconn"),
            Kind::Ours | Kind::Copying => {}
        }
        for ((name, mode, server), bind) in self.sections().iter().zip(bound) {
            let (of_bind, more) = match *name {
                "tls" => (format!("ssl crt {}", certificate.display()), ""),
                "computed" => (
                    String::new(),
                    "  compression algo gzip\n  compression type text/plain\n",
                ),
                _ => (String::new(), ""),
            };
            text += &format!(
                "listen {name}\n  mode {mode}\n  option {mode}log\n  maxconn 9000\n  \
                 bind {bind} {of_bind}\n  server s {server}\n{more}"
            );
        }
        fs::write(&files.config, text)?;
        let program = &self.haproxy;
        let child = Command::new(program)
            .arg("-db")
            .arg("-f")
            .arg(&files.config)
            .stdout(File::create(&files.log)?)
            .spawn();
        let child = child.map_err(|error| {
            format!("cannot start {program}: {error}; install HAProxy, or name it by --haproxy")
        })?;
        let proxy = Proxy::new(child, files, bound);
        let began = Instant::now();
        while TcpStream::connect(proxy.http).is_err() {
            if began.elapsed() > LIMIT {
                return Err("HAProxy does not begin".into());
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(proxy)
    }

    /// The listeners: name, mode and server.
    fn sections(&self) -> [(&'static str, &'static str, SocketAddr); LISTENERS] {
        [
            ("http", "http", self.origins.http),
            ("tcp", "tcp", self.origins.bytes),
            ("silent", "tcp", self.origins.silent),
            ("tls", "http", self.origins.http),
            ("computed", "http", self.origins.http),
            ("crowded", "http", self.crowd.origin),
            ("prompt", "http", self.prompt.http),
        ]
    }
}

/// Servers whose threads inherit the priority of the one that starts them.
fn prompt() -> Result<Origins> {
    let started = thread::spawn(|| {
        priority::first();
        Origins::start()
    });
    started.join().map_err(|_| "a thread has panicked")?
}

/// How many listeners a proxy has.
const LISTENERS: usize = 7;

/// The files of a proxy.
struct Files {
    config: PathBuf,
    admin: PathBuf,
    log: PathBuf,
}

/// A proxy at work, which ends with this.
pub(crate) struct Proxy {
    child: Child,
    files: Files,
    /// Forwards to the origin of HTTP.
    pub(crate) http: SocketAddr,
    /// To the one of bytes.
    pub(crate) tcp: SocketAddr,
    /// To the silent one.
    pub(crate) silent: SocketAddr,
    /// To the origin of HTTP, and speaks TLS.
    pub(crate) tls: SocketAddr,
    /// The same, and compresses text.
    pub(crate) computed: SocketAddr,
    /// To the one of thousands of clients.
    pub(crate) crowded: SocketAddr,
    /// To the one that goes before all others.
    pub(crate) prompt: SocketAddr,
}

impl Proxy {
    fn new(child: Child, files: Files, bound: [SocketAddr; LISTENERS]) -> Self {
        let [http, tcp, silent, tls, computed, crowded, prompt] = bound;
        Self {
            child,
            files,
            http,
            tcp,
            silent,
            tls,
            computed,
            crowded,
            prompt,
        }
    }

    /// How long its log is.
    pub(crate) fn log_bytes(&self) -> Result<u64> {
        Ok(fs::metadata(&self.files.log)?.len())
    }

    /// What it has used so far of the processors, in microseconds.
    pub(crate) fn processor_us(&self) -> Result<f64> {
        processor_us(&self.child)
    }

    /// The memory that it has of its own, in bytes: pages of the program's file are none of a
    /// connection's.
    pub(crate) fn own_bytes(&self) -> Result<f64> {
        let text = fs::read_to_string(format!("/proc/{}/smaps_rollup", self.child.id()))?;
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix("Anonymous:"));
        let kib = line.ok_or("the system does not say what memory a process has of its own")?;
        let kib: f64 = kib.trim().trim_end_matches(" kB").parse()?;
        Ok(kib * 1_024.0)
    }

    /// Ends it as an operator does.
    pub(crate) fn end_in_order(mut self) -> Result<()> {
        let process = Pid::from_raw(i32::try_from(self.child.id())?);
        kill(process, Signal::SIGTERM)?;
        let began = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait()? {
                return match status.success() {
                    true => Ok(()),
                    false => Err(format!("the proxy ended with {status}").into()),
                };
            }
            if began.elapsed() > LIMIT {
                return Err("the proxy does not end".into());
            }
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// How long an answer to the operator takes.
    pub(crate) fn ask_admin(&self) -> Result<Duration> {
        let began = Instant::now();
        let mut stream = UnixStream::connect(&self.files.admin)?;
        stream.set_read_timeout(Some(LIMIT))?;
        stream.write_all(b"show info\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let took = began.elapsed();
        if !answer.contains("CurrConns") {
            return Err(format!("no answer to the operator: {answer:?}").into());
        }
        Ok(took)
    }
}

impl Reached for Proxy {
    fn http(&self) -> SocketAddr {
        self.http
    }

    fn tcp(&self) -> SocketAddr {
        self.tcp
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a process has used so far of the processors, in microseconds, with threads that have ended.
pub(crate) fn processor_us(child: &Child) -> Result<f64> {
    let process = i32::try_from(child.id())?;
    let used = clock_gettime(clock_getcpuclockid(Pid::from_raw(process))?)?;
    Ok(Duration::from(used).as_secs_f64() * 1e6)
}

pub(crate) fn version(program: &str) -> Result<String> {
    let output = Command::new(program).arg("-v").output().map_err(|error| {
        format!("cannot start {program}: {error}; install HAProxy, or name it by --haproxy")
    })?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok(text.lines().next().unwrap_or_default().to_owned())
}
