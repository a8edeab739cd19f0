//! A private MariaDB and `sysbench`, where both are installed: in a temporary directory, on a port
//! of their own, gone after the experiment.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use super::tools::{UNTOLD, field, unreadable};
use crate::error::{Error, Result};
use crate::load::{HttpSummary, LatencySummary};
use crate::process::{Process, Server, TemporaryDirectory};
use crate::sys;
use crate::trial::{Lab, client};

const SERVER: &str = "mariadbd";
const INSTALL: &str = "mariadb-install-db";
/// Rows of the one table.
const TABLE_SIZE: &str = "--table-size=10000";

/// Which of the programs is missing, as a line.
pub(crate) fn missing() -> Option<String> {
    // One knows no `--version` that succeeds without side effects: they are looked for in the path.
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_missing = |program: &&str| {
        let mut directories = std::env::split_paths(&path);
        !directories.any(|directory| directory.join(program).is_file())
    };
    let programs = [SERVER, INSTALL, "sysbench"].into_iter();
    let lacking = programs.filter(is_missing).collect::<Vec<_>>().join(", ");
    let words = || format!("{lacking} not installed (lab/setup.sh installs it)");
    (!lacking.is_empty()).then(words)
}

/// What `sysbench` asks again and again.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Script {
    /// A row by its key.
    PointSelect,
    /// A transaction of ten such rows and four ranges.
    ReadOnly,
}

impl Script {
    fn word(self) -> &'static str {
        match self {
            Script::PointSelect => "oltp_point_select",
            Script::ReadOnly => "oltp_read_only",
        }
    }
}

/// Starts a database with the table that `sysbench` wants.
pub(crate) fn start(lab: &Lab) -> Result<Server> {
    let directory = TemporaryDirectory::new("mariadb")?;
    let data = directory.path().join("data");
    let address = lab.free_address()?;
    lab.progress("setting up a private MariaDB");
    install(lab, &data)?;
    let process = serve(&directory, &data, address)?;
    let database = Server::told(process, &[("database", address)], directory);
    client::until_listening(SERVER, address, Duration::from_secs(20))?;
    let mut prepare = sysbench(Script::PointSelect, address);
    let mut prepare = lab.tool("sysbench", prepare.arg("prepare"))?;
    prepare.output()?;
    Ok(database)
}

/// A script over `connections` kept-alive connections to `target`, the database or a proxy to it.
pub(crate) fn load(
    lab: &Lab,
    script: Script,
    target: SocketAddr,
    connections: u32,
    length: Duration,
) -> Result<HttpSummary> {
    let mut command = sysbench(script, target);
    // Whole seconds are what it takes.
    let seconds = length.as_secs_f64().ceil().max(1.0);
    let flags = format!("--threads={connections} --time={seconds} --percentile=99 run");
    command.args(flags.split(' '));
    let output = lab.tool("sysbench", &mut command)?.output()?;
    read(&output).ok_or_else(|| unreadable("sysbench"))
}

fn install(lab: &Lab, data: &Path) -> Result<()> {
    const FLAGS: &str = "--no-defaults --auth-root-authentication-method=normal --skip-test-db \
                         --skip-name-resolve";
    let mut command = Command::new(INSTALL);
    // One that this is set to may be the lab's alone.
    command.env_remove("TMPDIR");
    command.args(FLAGS.split_whitespace());
    command.arg(option("datadir", data));
    if let Some(user) = user() {
        command.arg(format!("--user={user}"));
    }
    let mut install = lab.tool(INSTALL, command.stderr(Stdio::null()))?;
    install.output().map(drop)
}

/// The server trusts whoever connects: it listens on the loopback address only, and holds nothing
/// but noise.
fn serve(directory: &TemporaryDirectory, data: &Path, address: SocketAddr) -> Result<Process> {
    // Networking is turned off by skipping the grant tables unless it is asked for.
    const FLAGS: &str = "--bind-address=127.0.0.1 --skip-grant-tables --skip-networking=0 \
                         --skip-log-bin --max-connections=200 \
                         --innodb-buffer-pool-size=64M --innodb-flush-log-at-trx-commit=0";
    let within = |name: &str| directory.path().join(name);
    let log = std::fs::File::create(within("log")).map_err(Error::write(&within("log")))?;
    let mut command = of_user();
    command.env_remove("TMPDIR");
    command.args(FLAGS.split_whitespace());
    command.arg(option("datadir", data));
    command.arg(format!("--port={}", address.port()));
    // It may write nowhere else.
    command.arg(option("socket", &data.join("socket")));
    command.arg(option("pid-file", &data.join("pid")));
    command.stdin(Stdio::null()).stdout(Stdio::null());
    command.stderr(log);
    Process::start(SERVER, &mut command, &[])
}

/// The server as its user. If it changed that by itself, it would no longer be tied to the lab, so
/// that another program does it, and then ties it again.
fn of_user() -> Command {
    let mut command = Command::new(SERVER);
    match user() {
        // It does not run as root unless it is told to.
        Some("root") => drop(command.args(["--no-defaults", "--user=root"])),
        Some(user) => {
            command = Command::new("setpriv");
            command.args(["--init-groups", "--pdeathsig=KILL"]);
            command.args(["--regid", user, "--reuid", user, SERVER, "--no-defaults"]);
        }
        None => drop(command.arg("--no-defaults")),
    }
    command
}

/// As whom it runs where the lab is root's: as its own user, where the package has made one.
fn user() -> Option<&'static str> {
    let known = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let has_own = known.lines().any(|line| line.starts_with("mysql:"));
    let user = if has_own { "mysql" } else { "root" };
    sys::is_root().then_some(user)
}

fn sysbench(script: Script, target: SocketAddr) -> Command {
    let (host, port) = (target.ip(), target.port());
    let flags = format!(
        "{} --db-driver=mysql --mysql-user=root --mysql-db=mysql --tables=1 \
         {TABLE_SIZE} --db-ps-mode=disable --mysql-host={host} --mysql-port={port}",
        script.word()
    );
    let mut command = Command::new("sysbench");
    command.args(flags.split(' '));
    command
}

fn option(name: &str, path: &Path) -> String {
    format!("--{name}={}", path.display())
}

/// What `sysbench` prints, as far as the lab wants it.
fn read(output: &str) -> Option<HttpSummary> {
    let field = |name: &str| field(output, name);
    let requests = field("total number of events:")?;
    let seconds = field("total time:")?;
    Some(HttpSummary {
        requests: requests as u64,
        failed: field("ignored errors:").unwrap_or(0.0) as u64,
        failure: None,
        seconds,
        per_second: requests / seconds.max(f64::EPSILON),
        latency: LatencySummary {
            p99_us: field("99th percentile:")? * 1e3,
            max_us: field("max:")? * 1e3,
            mean_us: field("avg:")? * 1e3,
            ..UNTOLD
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
