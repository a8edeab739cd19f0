//! Services under load, with Evenkeel and with Tokio beneath, in turn.

mod verdicts;

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use evenkeel_measure::comparison::Comparison;
use evenkeel_measure::options::{JsonOption, RoundOptions};
use evenkeel_measure::results::Results;
use evenkeel_measure::rounds::alternate_aloud;
use evenkeel_measure::statistics::Better;

use crate::Error;
use verdicts::Verdicts;

/// So many requests per second of processor time have to be served beside those on Tokio, over all
/// rows.
const THROUGHPUT_MEAN: f64 = 1.05;
/// A health check has to take a tenth beside handlers that compute ...
const BESIDE_COMPUTING: f64 = 10.0;
/// ... and a hundredth beside those that block.
const BESIDE_BLOCKING: f64 = 100.0;

/// How long a service takes at most until it has nothing to do but to wait.
const SETTLES: Duration = Duration::from_secs(1);

/// How services are measured.
#[derive(clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    rounds: RoundOptions,
    #[command(flatten)]
    json: JsonOption,
    /// Where to build.
    #[arg(long, default_value = "target/trials")]
    target: PathBuf,
}

/// Which of the two processes is compared: the other one has Tokio beneath.
#[derive(Clone, Copy, PartialEq)]
enum Tried {
    Service,
    Load,
}

/// A row: a service, what is asked of it, over so many connections.
struct Case {
    name: &'static str,
    service: &'static str,
    load: &'static [&'static str],
    connections: usize,
    tried: Tried,
    /// The ratio that it has to have at least; without one, it may not be worse in every round.
    bound: Option<f64>,
}

const fn served(
    name: &'static str,
    service: &'static str,
    load: &'static [&'static str],
    connections: usize,
) -> Case {
    Case {
        name,
        service,
        load,
        connections,
        tried: Tried::Service,
        bound: None,
    }
}

const THROUGHPUT: [Case; 7] = [
    served("axum, 1 connection", "http", &["http"], 1),
    served("axum, 64 connections", "http", &["http"], 64),
    served("axum, 1000 connections", "http", &["http"], 1_000),
    Case {
        tried: Tried::Load,
        ..served("reqwest, 64 at once", "http", &["reqwest"], 64)
    },
    served("tonic, 64 unary calls", "grpc", &["unary"], 64),
    served("tonic, 64 streams", "grpc", &["stream"], 64),
    served("mini-redis, 64 connections", "redis", &["redis"], 64),
];

const HEALTH: [Case; 3] = [
    served("alone", "http", &["health", "--path", "/"], 0),
    Case {
        bound: Some(BESIDE_COMPUTING),
        ..served(
            "beside 4 that compute for 20 ms",
            "http",
            &["health", "--path", "/compute"],
            4,
        )
    },
    Case {
        bound: Some(BESIDE_BLOCKING),
        ..served(
            "beside 400 that block for 200 ms",
            "http",
            &["health", "--path", "/block"],
            400,
        )
    },
];

/// What a load printed, and the processor time of whichever process is tried.
struct Found {
    requests: f64,
    cpu: Duration,
    p99_us: f64,
}

const HOW: [&str; 2] = ["on", "off"];
const NAMES: [&str; 2] = ["evenkeel", "tokio"];

pub(crate) fn run(options: &Options) -> Result<bool, Error> {
    fs::create_dir_all(&options.target)?;
    let mut results = options.json.begin("services")?;
    let program = build(&options.target.canonicalize()?)?;
    let seconds = options.rounds.sample(Duration::from_secs(3)).as_secs_f64();
    let rounds = options.rounds.rounds();
    let measure = |case: &Case, figure: fn(&Found) -> f64| {
        let figures = alternate_aloud(case.name, rounds, &HOW, |how| {
            case.measure(&program, how, seconds)
                .map(|found| figure(&found))
        })?;
        Ok::<_, Error>(figures)
    };
    let title = "Requests per second of processor time";
    let mut throughput = Judged::new(title, "requests/s", Better::More);
    for case in &THROUGHPUT {
        let per_second = |found: &Found| found.requests / found.cpu.as_secs_f64();
        throughput.add(case.name, &measure(case, per_second)?, case.bound);
    }
    throughput.verdicts.mean(THROUGHPUT_MEAN);
    let mut is_good = throughput.show(&mut results)?;
    let title = "99th percentile of a health check every 5 ms";
    let mut health = Judged::new(title, "us", Better::Less);
    for case in &HEALTH {
        let figures = measure(case, |found| found.p99_us)?;
        health.add(case.name, &figures, case.bound);
    }
    is_good &= health.show(&mut results)?;
    let title = "An idle service: how often its threads are scheduled";
    let mut idle = Judged::new(title, "1/s", Better::Less);
    for service in ["http", "grpc", "redis"] {
        let measure = |how: &&str| Server::start(&program, service, how)?.wake_ups(seconds);
        let figures = alternate_aloud(service, rounds, &HOW, measure)?;
        idle.add(service, &figures, None);
    }
    is_good &= idle.show(&mut results)?;
    Ok(is_good)
}

/// A table, and what has to hold of it.
struct Judged {
    comparison: Comparison,
    verdicts: Verdicts,
}

impl Judged {
    fn new(title: &str, unit: &'static str, better: Better) -> Self {
        Self {
            comparison: Comparison::new(title, unit, better, &NAMES),
            verdicts: Verdicts::new(better),
        }
    }

    fn add(&mut self, name: &str, figures: &[Vec<f64>], bound: Option<f64>) {
        self.comparison.add(name, figures);
        self.verdicts.add(name, figures, bound);
    }

    /// Prints the table with the verdicts below, and adds both to what is kept. Returns whether
    /// all hold.
    fn show(self, results: &mut Results) -> Result<bool, Error> {
        let noted = |comparison: Comparison, line| comparison.with_note(line);
        let comparison = self.verdicts.lines().fold(self.comparison, noted);
        println!("{comparison}");
        results.add_comparison(&comparison)?;
        Ok(self.verdicts.hold())
    }
}

/// Has `cargo evenkeel` build the services.
fn build(target: &Path) -> Result<PathBuf, Error> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../services");
    let mut command = Command::new(crate::cargo_evenkeel()?);
    command
        .args(["evenkeel", "build", "--release"])
        .env("CARGO_TARGET_DIR", target)
        .current_dir(folder);
    if command.status()?.success() {
        Ok(target.join("release/services"))
    } else {
        Err("the services cannot be built".into())
    }
}

/// A service that is ended when this is dropped.
struct Server {
    child: Child,
    address: String,
}

impl Server {
    fn start(program: &Path, service: &str, how: &str) -> Result<Self, Error> {
        let mut command = Command::new(program);
        command.args(["serve", service]).env("EVENKEEL", how);
        let mut child = command.stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        if let Some(out) = child.stdout.take() {
            BufReader::new(out).read_line(&mut line)?;
        }
        let address = line.trim().trim_start_matches("listening on ").to_owned();
        Ok(Server { child, address })
    }

    /// The processor time of the process so far, in the system's steps of 10 ms. Threads that
    /// have ended count.
    fn cpu(&self) -> Result<Duration, Error> {
        let text = fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        let (_, rest) = text
            .rsplit_once(") ")
            .ok_or("the system's format is unknown")?;
        let ticks = rest.split(' ').skip(11).take(2).map(str::parse::<u64>);
        Ok(Duration::from_millis(ticks.sum::<Result<u64, _>>()? * 10))
    }

    /// How often a second its threads are scheduled while nobody asks for anything, once it has
    /// settled.
    fn wake_ups(&self, seconds: f64) -> Result<f64, Error> {
        // A connection that stays, as clients' do.
        let _client = TcpStream::connect(&self.address)?;
        sleep(SETTLES);
        let before = self.switches()?;
        sleep(Duration::from_secs_f64(seconds));
        Ok((self.switches()? - before) as f64 / seconds)
    }

    /// How often the kernel has switched from one of its threads.
    fn switches(&self) -> Result<u64, Error> {
        let mut all = 0;
        for thread in fs::read_dir(format!("/proc/{}/task", self.child.id()))? {
            let text = fs::read_to_string(thread?.path().join("status"))?;
            let lines = text.lines().filter(|line| line.contains("ctxt_switches:"));
            let counts =
                lines.filter_map(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
            all += counts.sum::<u64>();
        }
        Ok(all)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It has no other way to end, and nothing to lose.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Case {
    fn measure(&self, program: &Path, how: &str, seconds: f64) -> Result<Found, Error> {
        let (service, load) = match self.tried {
            Tried::Service => (how, "off"),
            Tried::Load => ("off", how),
        };
        let server = Server::start(program, self.service, service)?;
        let mut command = Command::new(program);
        command
            .arg("load")
            .args(self.load)
            .arg(&server.address)
            .args(["--connections", &self.connections.to_string()])
            .args(["--seconds", &seconds.to_string()])
            .env("EVENKEEL", load);
        let before = server.cpu()?;
        let output = command.stderr(Stdio::inherit()).output()?;
        let of_server = server.cpu()? - before;
        let said = String::from_utf8(output.stdout)?;
        let figure = |name: &str| {
            let mut words = said.split_whitespace().skip_while(|word| *word != name);
            let figure = words.nth(1).and_then(|word| word.parse::<f64>().ok());
            figure.ok_or_else(|| format!("the load of `{}` failed: {said}", self.name))
        };
        let of_load = Duration::from_secs_f64(figure("cpu_us")? / 1e6);
        Ok(Found {
            requests: figure("requests")?,
            cpu: match self.tried {
                Tried::Service => of_server,
                Tried::Load => of_load,
            },
            p99_us: figure("p99_us")?,
        })
    }
}
