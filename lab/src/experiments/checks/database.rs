//! A private MariaDB and `sysbench`, where both are installed: in a temporary directory, on a port
//! of their own, gone after the experiment.

use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::load::{HttpSummary, LatencySummary};
use crate::process::{Process, TemporaryDirectory};
use crate::trial::lab::Lab;

const SERVER: &str = "mariadbd";
/// Rows of the one table.
const TABLE_SIZE: &str = "--table-size=10000";

/// A database that runs. The process is declared first: it ends before its directory goes.
pub(crate) struct Database {
    _process: Process,
    _directory: TemporaryDirectory,
    pub(crate) address: SocketAddr,
}

/// Which of the two is missing, as a line.
pub(crate) fn missing() -> Option<String> {
    let present = |program: &str| {
        Command::new(program)
            .arg("--version")
            .output()
            .is_ok_and(|output| output.status.success())
    };
    let lacking: Vec<&str> = [SERVER, "mariadb-install-db", "sysbench"]
        .into_iter()
        .filter(|&p| !has(p, present))
        .collect();
    (!lacking.is_empty()).then(|| {
        format!(
            "{} not installed (lab/setup.sh installs it): a request/response pair is used",
            lacking.join(", ")
        )
    })
}

/// `mariadb-install-db` knows no `--version` that succeeds without side effects: it is looked for
/// in the path.
fn has(program: &str, answers: impl Fn(&str) -> bool) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).any(|directory| directory.join(program).is_file());
    found && (program == "mariadb-install-db" || answers(program))
}

impl Database {
    /// Starts a database with the table that `sysbench` wants.
    pub(crate) fn start(lab: &Lab) -> Result<Self> {
        let directory = TemporaryDirectory::new("mariadb")?;
        let data = directory.path().join("data");
        let address = lab.free_address()?;
        lab.progress("checks: setting up a private MariaDB");
        install(lab, &data)?;
        let process = serve(&directory, &data, address)?;
        let database = Database {
            _process: process,
            _directory: directory,
            address,
        };
        database.wait()?;
        database.prepare(lab)?;
        Ok(database)
    }

    /// Point selects over `connections` kept-alive connections to `target`, the database or a proxy
    /// to it.
    pub(crate) fn select(
        &self,
        lab: &Lab,
        target: SocketAddr,
        connections: u32,
        length: Duration,
    ) -> Result<HttpSummary> {
        let mut command = sysbench(target);
        command.arg(format!("--threads={connections}"));
        // Whole seconds are what it takes.
        command.arg(format!("--time={}", length.as_secs_f64().ceil().max(1.0)));
        command.args(["--percentile=99", "run"]);
        let output = lab.tool("sysbench", &mut command)?.output()?;
        read(&output).ok_or_else(|| Error::Unreadable {
            program: "sysbench".to_owned(),
            reason: "its report lacks a line that the lab looks for".to_owned(),
        })
    }

    fn wait(&self) -> Result<()> {
        const PATIENCE: Duration = Duration::from_secs(20);
        let deadline = Instant::now() + PATIENCE;
        loop {
            match TcpStream::connect_timeout(&self.address, Duration::from_secs(1)) {
                Ok(_) => return Ok(()),
                Err(_) if Instant::now() < deadline => {
                    std::thread::sleep(Duration::from_millis(50))
                }
                Err(_) => {
                    return Err(Error::NotReady {
                        program: SERVER.to_owned(),
                        seconds: PATIENCE.as_secs(),
                    });
                }
            }
        }
    }

    fn prepare(&self, lab: &Lab) -> Result<()> {
        lab.tool("sysbench", sysbench(self.address).arg("prepare"))?
            .output()
            .map(drop)
    }
}

fn install(lab: &Lab, data: &Path) -> Result<()> {
    let mut command = Command::new("mariadb-install-db");
    command.args([
        "--no-defaults",
        "--auth-root-authentication-method=normal",
        "--skip-test-db",
    ]);
    command
        .arg("--skip-name-resolve")
        .arg(user_option())
        .arg(option("datadir", data));
    command.stderr(Stdio::null());
    lab.tool("mariadb-install-db", &mut command)?
        .output()
        .map(drop)
}

/// The server trusts whoever connects: it listens on the loopback address only, and holds nothing
/// but noise.
fn serve(directory: &TemporaryDirectory, data: &Path, address: SocketAddr) -> Result<Process> {
    let socket = directory.path().join("socket");
    let mut command = Command::new(SERVER);
    command
        .arg("--no-defaults")
        .arg(user_option())
        .arg(option("datadir", data));
    command
        .arg(option("socket", &socket))
        .arg(option("pid-file", &directory.path().join("pid")));
    command
        .arg("--bind-address=127.0.0.1")
        .arg(format!("--port={}", address.port()));
    command.args([
        "--skip-grant-tables",
        "--skip-log-bin",
        "--max-connections=200",
    ]);
    command.args([
        "--innodb-buffer-pool-size=64M",
        "--innodb-flush-log-at-trx-commit=0",
    ]);
    // Turned off by skipping the grant tables unless it is asked for.
    command.arg("--skip-networking=0");
    let log = directory.path().join("log");
    let log = std::fs::File::create(&log).map_err(Error::write(&log))?;
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log);
    Process::start(SERVER, &mut command, &[])
}

fn sysbench(target: SocketAddr) -> Command {
    let mut command = Command::new("sysbench");
    command.args([
        "oltp_point_select",
        "--db-driver=mysql",
        "--mysql-user=root",
        "--mysql-db=mysql",
    ]);
    command
        .arg(format!("--mysql-host={}", target.ip()))
        .arg(format!("--mysql-port={}", target.port()));
    command.args(["--tables=1", TABLE_SIZE, "--db-ps-mode=disable"]);
    command
}

fn option(name: &str, path: &Path) -> std::ffi::OsString {
    let mut option = std::ffi::OsString::from(format!("--{name}="));
    option.push(path);
    option
}

/// MariaDB refuses to run as root unless it is told to.
fn user_option() -> String {
    format!(
        "--user={}",
        std::env::var("USER").unwrap_or_else(|_| "root".to_owned())
    )
}

/// What `sysbench` prints, as far as the lab wants it.
fn read(output: &str) -> Option<HttpSummary> {
    let field = |name: &str| {
        let line = output
            .lines()
            .find_map(|line| line.trim_start().strip_prefix(name))?;
        line.split_whitespace()
            .next()?
            .trim_end_matches('s')
            .parse::<f64>()
            .ok()
    };
    let requests = field("total number of events:")?;
    let seconds = field("total time:")?;
    Some(HttpSummary {
        requests: requests as u64,
        failed: field("ignored errors:").unwrap_or(0.0) as u64,
        failure: None,
        seconds,
        per_second: requests / seconds.max(f64::EPSILON),
        latency: LatencySummary {
            p50_us: f64::NAN,
            p90_us: f64::NAN,
            p99_us: field("99th percentile:")? * 1e3,
            p999_us: f64::NAN,
            max_us: field("max:")? * 1e3,
            mean_us: field("avg:")? * 1e3,
            curve: Vec::new(),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_of_sysbench_is_read() {
        let report = "\
SQL statistics:
    ignored errors:                      1      (0.00 per sec.)
General statistics:
    total time:                          2.0005s
    total number of events:              40010

Latency (ms):
         min:                                    0.08
         avg:                                    1.00
         max:                                   20.31
         99th percentile:                        3.49
";
        let summary = read(report).expect("every line is there");
        assert_eq!((summary.requests, summary.failed), (40_010, 1));
        assert!((summary.per_second - 20_000.0).abs() < 1.0);
        assert!((summary.latency.p99_us - 3_490.0).abs() < 0.01);
        assert_eq!(read("FATAL: unable to connect"), None);
    }
}
