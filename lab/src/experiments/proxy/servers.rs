//! The proxies: how each is started and asked how it is.
//!
//! - [`configurations`]: what is written into their files

mod configurations;

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use self::configurations::{Places, of_haproxy, of_nginx, of_ours};
use crate::error::{Error, Result};
use crate::process::{self, Server, TemporaryDirectory};
use crate::sys;
use crate::trial::{Lab, client};

/// A proxy as it is set.
#[derive(Debug, PartialEq)]
pub(super) struct Proxy {
    pub(super) name: &'static str,
    pub(super) by: By,
    /// Whether it differs from one that comes before only in how it moves bytes.
    pub(super) is_for_bytes: bool,
}

/// Which program, and lines that are added to its configuration.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum By {
    /// `process` is for the table of this name, `listener` for each listener's.
    Ours {
        process: &'static str,
        listener: &'static str,
    },
    /// `global` and `defaults` are for the sections of these names.
    Haproxy {
        global: &'static str,
        defaults: &'static str,
    },
    Nginx,
}

const fn ours(name: &'static str, process: &'static str, listener: &'static str) -> Proxy {
    Proxy {
        name,
        by: By::Ours { process, listener },
        is_for_bytes: false,
    }
}

const fn haproxy(name: &'static str, global: &'static str, defaults: &'static str) -> Proxy {
    Proxy {
        name,
        by: By::Haproxy { global, defaults },
        is_for_bytes: false,
    }
}

const SPLICE: &str = "option splice-request\n  option splice-response";

/// Ours first, and then HAProxy as it comes, which is what verdicts compare it with.
pub(super) static PROXIES: [Proxy; 5] = [
    ours("evenkeel-proxy", "", ""),
    haproxy("haproxy", "", ""),
    Proxy {
        is_for_bytes: true,
        ..haproxy("haproxy, 64 KiB", "tune.bufsize 65536", "")
    },
    Proxy {
        is_for_bytes: true,
        ..haproxy("haproxy, splicing", "", SPLICE)
    },
    Proxy {
        name: "nginx",
        by: By::Nginx,
        is_for_bytes: false,
    },
];

/// The settings that the published tests turned, and what comes nearest to them here: how much is
/// done between two looks for I/O, how many events a look takes, whether the kernel moves bytes.
#[rustfmt::skip]
pub(super) static KNOBS: [Proxy; 10] = [
    ours("evenkeel-proxy, io_check_bound 50us", "io_check_bound = \"50us\"", ""),
    ours("evenkeel-proxy, io_check_bound 500us", "io_check_bound = \"500us\"", ""),
    ours("evenkeel-proxy, io_check_bound 5ms", "io_check_bound = \"5ms\"", ""),
    ours("evenkeel-proxy, io_check_events 8", "io_check_events = 8", ""),
    ours("evenkeel-proxy, io_check_events 2048", "io_check_events = 2048", ""),
    ours("evenkeel-proxy, splice false", "", "splice = false"),
    haproxy("haproxy, tune.runqueue-depth 20", "tune.runqueue-depth 20", ""),
    haproxy("haproxy, tune.runqueue-depth 1000", "tune.runqueue-depth 1000", ""),
    haproxy("haproxy, tune.maxpollevents 20", "tune.maxpollevents 20", ""),
    haproxy("haproxy, tune.maxpollevents 2000", "tune.maxpollevents 2000", ""),
];

/// The servers behind a proxy.
#[derive(Debug, Clone, Copy)]
pub(super) struct Behind {
    pub(super) http: SocketAddr,
    pub(super) bytes: SocketAddr,
}

/// A proxy that listens.
pub(super) struct Running {
    server: Server,
    admin: Admin,
}

/// Where it says how it is.
#[derive(Debug)]
enum Admin {
    Socket(PathBuf),
    /// `GET /status`.
    Page(SocketAddr),
}

impl By {
    pub(super) fn is_ours(self) -> bool {
        matches!(self, By::Ours { .. })
    }

    fn program(self) -> &'static str {
        match self {
            By::Ours { .. } => "evenkeel-proxy",
            By::Haproxy { .. } => "haproxy",
            By::Nginx => "nginx",
        }
    }

    /// Why it cannot take part, as a line.
    pub(super) fn missing(self) -> Option<String> {
        let program = self.program();
        let is_there = self.is_ours() || process::answers(program, "-v");
        let line = || format!("{program}: left out, not installed (lab/setup.sh installs it)");
        (!is_there).then(line)
    }

    /// Whether it passes on bytes: nginx does by a module that is a package of its own.
    pub(super) fn has_tcp(self) -> bool {
        self != By::Nginx || nginx_streams().is_some()
    }

    /// What it is started by, but for its file.
    fn command(self, lab: &Lab, directory: &Path) -> Command {
        match self {
            By::Ours { .. } => {
                let mut command = our_program(lab);
                command.arg("run");
                command
            }
            By::Haproxy { .. } => {
                let mut command = Command::new(self.program());
                command.args(["-db", "-q", "-f"]);
                command
            }
            By::Nginx => {
                let mut command = Command::new(self.program());
                command.arg("-p").arg(directory).arg("-c");
                command
            }
        }
    }
}

/// The program evenkeel-proxy, without what it is to do.
fn our_program(lab: &Lab) -> Command {
    if let Some(program) = &lab.proxy {
        return Command::new(program);
    }
    let mut command = lab.lineup.lab();
    command.arg("evenkeel-proxy");
    command
}

/// The program that was asked for instead of the one in the lab, as a line.
pub(super) fn told(lab: &Lab) -> Result<Option<String>> {
    let Some(program) = &lab.proxy else {
        return Ok(None);
    };
    let program = program.display().to_string();
    if process::answers(&program, "--version") {
        return Ok(Some(format!("evenkeel-proxy: the program {program}")));
    }
    let what = "does not run, or is no evenkeel-proxy: `cargo xtask trained` builds one";
    Err(Error::new(format!("{program} {what}")))
}

/// The module of nginx that passes on bytes, where a package has put it.
fn nginx_streams() -> Option<&'static str> {
    const PLACES: [&str; 3] = [
        "/usr/lib/nginx/modules/ngx_stream_module.so",
        "/usr/lib64/nginx/modules/ngx_stream_module.so",
        "/usr/share/nginx/modules/ngx_stream_module.so",
    ];
    PLACES.into_iter().find(|place| Path::new(place).is_file())
}

/// Starts a proxy with so many threads, and waits until it listens.
pub(super) fn start(lab: &Lab, by: By, threads: usize, behind: &Behind) -> Result<Running> {
    let program = by.program();
    let directory = TemporaryDirectory::new(program)?;
    let places = Places {
        http: lab.free_address()?,
        tcp: lab.free_address()?,
        h2: lab.free_address()?,
        page: lab.free_address()?,
        admin: directory.path().join("admin"),
    };
    let text = match by {
        By::Ours { process, listener } => of_ours(&places, threads, behind, process, listener),
        By::Haproxy { global, defaults } => of_haproxy(&places, threads, behind, global, defaults),
        By::Nginx => of_nginx(&places, threads, behind, nginx_streams()),
    };
    let file = directory.path().join("configuration");
    std::fs::write(&file, text).map_err(Error::write(&file))?;
    let mut command = by.command(lab, directory.path());
    // What each complains of is on standard error; HAProxy logs to standard output.
    command.arg(&file).stdout(Stdio::null());
    let process = lab.server_tool(program, &mut command)?;
    let Places {
        http,
        tcp,
        h2,
        page,
        admin,
    } = places;
    let (h2, admin) = match by {
        By::Nginx => (h2, Admin::Page(page)),
        _ => (http, Admin::Socket(admin)),
    };
    let addresses = [("http", http), ("tcp", tcp), ("h2", h2)];
    let server = Server::told(process, &addresses, directory);
    let last = if by.has_tcp() { tcp } else { http };
    client::until_listening(program, last, Duration::from_secs(10))?;
    Ok(Running { server, admin })
}

impl Running {
    pub(super) fn address(&self, service: &'static str) -> Result<SocketAddr> {
        self.server.address(service)
    }

    /// The processor time that it has used so far, in microseconds, with the processes that it has
    /// started.
    pub(super) fn cpu_us(&self) -> f64 {
        let pid = self.server.process.pid();
        let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
        let children = children.unwrap_or_default();
        let children = children
            .split_whitespace()
            .filter_map(|pid| pid.parse().ok());
        let all = [pid].into_iter().chain(children);
        let times = all.map(|pid| sys::process_cpu_time(pid).unwrap_or_default());
        times.sum::<Duration>().as_secs_f64() * 1e6
    }

    /// Asks it how it is.
    ///
    /// # Errors
    ///
    /// There is no answer, or none that says it.
    pub(super) fn ask(&self) -> io::Result<()> {
        const PATIENCE: Duration = Duration::from_secs(5);
        let mut answer = String::new();
        let said = match &self.admin {
            Admin::Socket(path) => {
                let mut stream = UnixStream::connect(path)?;
                stream.set_read_timeout(Some(PATIENCE))?;
                stream.write_all(b"show info\n")?;
                stream.read_to_string(&mut answer)?;
                "CurrConns"
            }
            Admin::Page(address) => {
                let mut stream = TcpStream::connect_timeout(address, PATIENCE)?;
                stream.set_read_timeout(Some(PATIENCE))?;
                stream.write_all(b"GET /status HTTP/1.0\r\n\r\n")?;
                stream.read_to_string(&mut answer)?;
                "Active connections"
            }
        };
        match answer.contains(said) {
            true => Ok(()),
            false => Err(io::Error::new(io::ErrorKind::InvalidData, answer)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_how_proxies_are_set() {
        for proxy in &KNOBS {
            let (By::Ours {
                process: one,
                listener: other,
            }
            | By::Haproxy {
                global: one,
                defaults: other,
            }) = proxy.by
            else {
                panic!("{proxy:?} has no knob");
            };
            let words = [one, other].concat().replace([' ', '=', '"'], "");
            let name = proxy.name.replace(' ', "");
            assert!(name.ends_with(&words), "{proxy:?}");
        }
    }
}
