//! The flags of `serve`.

mod handlers;

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::str::FromStr;

use crate::error::{Error, Result};

pub(crate) use handlers::HandlerArgs;

/// Serves until SIGTERM, ctrl-c, or, with --exit-with-parent, the end of the parent.
///
/// Prints one line `SERVICE ADDRESS` for each service, then `ready`. Every ADDR may have port 0:
/// the line names the port that was found.
#[derive(Debug, clap::Args)]
#[command(group(clap::ArgGroup::new("delivered").args(["sink", "camera"]).multiple(true)))]
#[command(after_help = "\
Examples:
  evenkeel-lab serve tokio --echo 127.0.0.1:7000 --hogs 4 --hog-poll-us 10000
  evenkeel-lab serve evenkeel --http 127.0.0.1:8080 --api 127.0.0.1:8081 --busy-wait adaptive
  evenkeel-lab serve evenkeel --proxy 127.0.0.1:3307=127.0.0.1:3306
  evenkeel-lab serve evenkeel --echo 127.0.0.1:7000 --echo-class urgent --hogs 4 --hog-class bulk \
      --shares urgent=16,normal=33,bulk=50
  evenkeel-lab serve evenkeel --relay 127.0.0.1:8000=127.0.0.1:9000 --bulk-class bulk \
      --admin 127.0.0.1:8001 --admin-class urgent
  evenkeel-lab serve evenkeel --echo 127.0.0.1:7000 --burn 50:20000 --handoff-us 1000
  evenkeel-lab serve evenkeel --camera 127.0.0.1:5540 --watch 127.0.0.1:5541 --record ./recordings \
      --delivery adaptive:10 --api 127.0.0.1:8081

Classes: `urgent`, `normal` and `bulk` are always there, and --shares adds others by naming them
(`--shares reports=5`). What has no class flag is in `normal`, and what a task spawns is in that
task's class. Only evenkeel has classes: the other runtimes say that they ignore these flags.")]
pub(crate) struct ServeArgs {
    /// The runtime to serve on.
    pub(crate) runtime: RuntimeName,
    /// TCP echo.
    #[arg(long, value_name = "ADDR")]
    pub(crate) echo: Option<SocketAddr>,
    /// Reads and discards.
    #[arg(long, value_name = "ADDR")]
    pub(crate) sink: Option<SocketAddr>,
    /// Microseconds of computing for each delivery at the sink and of a camera.
    #[arg(long, value_name = "U", default_value_t = 0, requires = "delivered")]
    pub(crate) work_us: u64,
    /// Cameras send numbered frames here, which are checked, recorded and passed on to viewers.
    #[arg(long, value_name = "ADDR")]
    pub(crate) camera: Option<SocketAddr>,
    /// Where viewers ask for a camera by its number, and are sent what it sends.
    #[arg(long, value_name = "ADDR", requires = "camera")]
    pub(crate) watch: Option<SocketAddr>,
    /// Where cameras are recorded, a megabyte each, over and over [default: nowhere].
    #[arg(long, value_name = "DIR", requires = "camera")]
    pub(crate) record: Option<PathBuf>,
    /// When evenkeel wakes the reader of a camera: `immediate`, `coalesce:BYTES:MS` (at so many
    /// bytes, or after so many milliseconds) or `adaptive:MS` (the later, the more it has to do,
    /// but at most after so many milliseconds) [default: the runtime's own]. Of several, such as
    /// `immediate/adaptive:10`, one connection after another takes the next.
    #[arg(long, value_name = "HOW[/HOW...]", requires = "camera")]
    pub(crate) delivery: Option<Deliveries>,
    /// HTTP/1.1: `GET /` answers 200 with a short body, over connections kept alive or closed.
    #[arg(long, value_name = "ADDR")]
    pub(crate) http: Option<SocketAddr>,
    /// Disk work beside the services.
    #[command(flatten)]
    pub(crate) disk: DiskArgs,
    /// Handlers that answer at once beside handlers that compute or block.
    #[command(flatten)]
    pub(crate) handlers: HandlerArgs,
    /// HTTP/1.1: `GET /parse` computes, then says how long it took and what the sink and the
    /// cameras saw meanwhile; `GET /stats` answers what the runtime says of itself, `GET /camera`
    /// what became of all frames, `GET /stat` how long a file is and how the disk work goes.
    #[arg(long, value_name = "ADDR")]
    pub(crate) api: Option<SocketAddr>,
    /// Microseconds of computing for each `GET /parse`, with a checkpoint every 100.
    #[arg(long, value_name = "U", default_value_t = 20_000, requires = "api")]
    pub(crate) api_us: u64,
    /// TCP proxy from one address to another.
    #[arg(long, value_name = "LISTEN=TARGET")]
    pub(crate) proxy: Option<ProxyRoute>,
    /// TCP relay from one address to another, for classes: a connection that has moved much goes on
    /// in --bulk-class.
    #[arg(long, value_name = "LISTEN=TARGET")]
    pub(crate) relay: Option<ProxyRoute>,
    /// Bytes after which a connection of the relay has moved much.
    #[arg(
        long,
        value_name = "BYTES",
        default_value_t = 65_536,
        requires = "relay"
    )]
    pub(crate) bulk_after: u64,
    /// HTTP/1.1: `GET /` says in a few words how the server is.
    #[arg(long, value_name = "ADDR")]
    pub(crate) admin: Option<SocketAddr>,
    /// Workers of the runtime [default: as many as cores].
    #[arg(long, value_name = "N")]
    pub(crate) workers: Option<NonZeroUsize>,
    /// Tasks that do nothing but compute.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) hogs: usize,
    /// Microseconds that a hog computes in each poll before it yields; `never`: it does not yield.
    #[arg(
        long,
        value_name = "U|never",
        default_value = "10000",
        requires = "hogs"
    )]
    pub(crate) hog_poll_us: HogPoll,
    /// How a hog yields: by the runtime's own function, or as most futures do.
    #[arg(long, value_name = "HOW", default_value = "runtime", requires = "hogs")]
    pub(crate) hog_yield: HogYield,
    /// So many fresh tasks a second, each of which computes for US microseconds in a single poll,
    /// as a request handler that parses or compresses would.
    #[arg(long, value_name = "RATE:US")]
    pub(crate) burn: Option<Burn>,
    /// How much --hogs and --burn have computed so far: a plain thread answers every connection
    /// with a line of JSON, however stuck the runtime is.
    #[arg(long, value_name = "ADDR")]
    pub(crate) work: Option<SocketAddr>,
    /// The class of --hogs and --burn [default: normal].
    #[arg(long, value_name = "CLASS")]
    pub(crate) hog_class: Option<ClassName>,
    /// The class of the echo and its connections [default: normal].
    #[arg(long, value_name = "CLASS", requires = "echo")]
    pub(crate) echo_class: Option<ClassName>,
    /// The class of the sink and its connections [default: normal].
    #[arg(long, value_name = "CLASS", requires = "sink")]
    pub(crate) sink_class: Option<ClassName>,
    /// The class of the API and its connections [default: normal].
    #[arg(long, value_name = "CLASS", requires = "api")]
    pub(crate) api_class: Option<ClassName>,
    /// The class of the relay and its connections [default: normal].
    #[arg(long, value_name = "CLASS", requires = "relay")]
    pub(crate) relay_class: Option<ClassName>,
    /// The class in which a connection of the relay that has moved much goes on [default: where it
    /// is].
    #[arg(long, value_name = "CLASS", requires = "relay")]
    pub(crate) bulk_class: Option<ClassName>,
    /// The class of the admin page and its connections [default: normal].
    #[arg(long, value_name = "CLASS", requires = "admin")]
    pub(crate) admin_class: Option<ClassName>,
    /// What each class gets of the processors when all want them, as in
    /// `urgent=16,normal=33,bulk=50` [default: the runtime's own]. A name that is not one of these
    /// three adds a class.
    #[arg(long, value_name = "NAME=SHARE,...")]
    pub(crate) shares: Option<Shares>,
    /// Microseconds after which evenkeel hands the seat of a worker that is stuck in one poll to
    /// another thread, or `off` [default: the runtime's own].
    #[arg(long, value_name = "U|off")]
    pub(crate) handoff_us: Option<HandOff>,
    /// Give evenkeel's workers real-time priority; needs CAP_SYS_NICE or `ulimit -r 2`.
    #[arg(long)]
    pub(crate) real_time_workers: bool,
    /// How long a worker without work spins before it parks [default: the runtime's own].
    #[arg(long, value_name = "LEVEL")]
    pub(crate) busy_wait: Option<BusyWait>,
    /// Evenkeel's bound between two I/O checks of a busy worker [default: the runtime's own].
    #[arg(long, value_name = "U")]
    pub(crate) io_check_us: Option<u64>,
    /// How many events evenkeel takes in one I/O check at most [default: the runtime's own].
    #[arg(long, value_name = "N")]
    pub(crate) io_check_events: Option<usize>,
    /// Print what the runtime says of itself every S seconds, as a line `stats JSON`.
    #[arg(long, value_name = "S")]
    pub(crate) stats_every: Option<NonZeroUsize>,
    /// End when standard input does, or when the parent is gone.
    #[arg(long)]
    pub(crate) exit_with_parent: bool,
}

impl ServeArgs {
    /// Whether any service or hog was asked for.
    pub(crate) fn asks_for_something(&self) -> bool {
        self.echo.is_some()
            || self.sink.is_some()
            || self.camera.is_some()
            || self.disk.log.is_some()
            || self.http.is_some()
            || self.api.is_some()
            || self.proxy.is_some()
            || self.relay.is_some()
            || self.admin.is_some()
            || self.hogs > 0
            || self.burn.is_some()
            || self.handlers.asked().iter().any(|(_, asked)| *asked)
    }

    /// The class flags that were given, with the class that each names.
    pub(crate) fn class_flags(&self) -> impl Iterator<Item = (&'static str, &ClassName)> {
        [
            ("--hog-class", &self.hog_class),
            ("--echo-class", &self.echo_class),
            ("--sink-class", &self.sink_class),
            ("--api-class", &self.api_class),
            ("--relay-class", &self.relay_class),
            ("--bulk-class", &self.bulk_class),
            ("--admin-class", &self.admin_class),
        ]
        .into_iter()
        .filter_map(|(flag, class)| Some((flag, class.as_ref()?)))
    }

    /// Checks that every class that a flag names is there.
    ///
    /// # Errors
    /// When one is neither built in nor named by --shares.
    pub(crate) fn check_classes(&self) -> Result<()> {
        let own = || {
            let shares = self.shares.iter().flat_map(|shares| &shares.0);
            shares.map(|(name, _)| name.as_str())
        };
        let known = || BUILT_IN_CLASSES.into_iter().chain(own());
        for (flag, class) in self.class_flags() {
            if !known().any(|name| name == class.as_str()) {
                return Err(Error::UnknownClass {
                    flag,
                    class: class.as_str().to_owned(),
                });
            }
        }
        Ok(())
    }
}

/// Disk work beside the services.
#[derive(Debug, clap::Args)]
pub(crate) struct DiskArgs {
    /// Tasks that each write to a file of their own, PATH.0 and so on, and sync it, for ever.
    #[arg(long, value_name = "PATH")]
    pub(crate) fsync: Option<PathBuf>,
    /// Bytes of each of these writes.
    #[arg(long, value_name = "N", default_value_t = 4_096, requires = "fsync")]
    #[arg(value_parser = bounded::<67_108_864>)]
    pub(crate) fsync_bytes: usize,
    /// How many such tasks.
    #[arg(long, value_name = "N", default_value_t = 1, requires = "fsync")]
    #[arg(value_parser = bounded::<10_000>)]
    pub(crate) fsync_writers: usize,
    /// Tasks that open PATH to read from it: of a FIFO that nobody writes to, the open never
    /// returns.
    #[arg(long, value_name = "PATH")]
    pub(crate) hang: Option<PathBuf>,
    /// How many such tasks.
    #[arg(long, value_name = "N", default_value_t = 1, requires = "hang")]
    #[arg(value_parser = bounded::<10_000>)]
    pub(crate) hang_opens: usize,
    /// The file that `GET /stat` is about [default: this program].
    #[arg(long, value_name = "PATH", requires = "api")]
    pub(crate) stat: Option<PathBuf>,
    /// A log that takes appends in the protocol of `txlog`, and acknowledges them when they are
    /// durable.
    #[arg(long, value_name = "ADDR", requires = "logged")]
    pub(crate) log: Option<SocketAddr>,
    /// Where that log is: the file in which each record is synced by itself.
    #[arg(long, value_name = "PATH", requires = "log", group = "logged")]
    pub(crate) log_path: Option<PathBuf>,
    /// Or the directory of `txlog` itself, which syncs for many records at a time (evenkeel only).
    #[arg(long, value_name = "DIR", requires = "log", group = "logged")]
    pub(crate) log_directory: Option<PathBuf>,
}

/// A number from 1 to `MOST`.
fn bounded<const MOST: usize>(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|n| (1..=MOST).contains(n));
    number.ok_or_else(|| format!("not a number from 1 to {MOST}"))
}

/// A number of microseconds of at most `MOST`.
fn limited<const MOST: u64>(text: &str) -> Result<u64, String> {
    let number = text.parse().ok().filter(|n| *n <= MOST);
    number.ok_or_else(|| format!("not a number from 0 to {MOST}"))
}

/// What can be served on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum RuntimeName {
    /// The runtime of this project.
    Evenkeel,
    /// The peer, linked into the lab.
    Tokio,
    /// No runtime: a thread for each connection and for each hog (only --echo and
    /// `GET /stat` of --api, beside --hogs, --burn, --fsync and --hang).
    OsThread,
}

/// How long a hog computes in each poll.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HogPoll {
    /// So many microseconds, then it yields.
    Micros(u64),
    /// It never returns.
    Never,
}

impl FromStr for HogPoll {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "never" => Ok(HogPoll::Never),
            "0" => Err("a hog must compute for at least 1 us, or `never` yield".to_owned()),
            _ => text
                .parse()
                .map(HogPoll::Micros)
                .map_err(|_| "neither a number of microseconds nor `never`".to_owned()),
        }
    }
}

impl std::fmt::Display for HogPoll {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            HogPoll::Micros(us) => write!(f, "{us}"),
            HogPoll::Never => f.write_str("never"),
        }
    }
}

/// How a hog yields.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum HogYield {
    /// By the runtime's own `yield_now`, which the runtime can tell from other wake-ups.
    #[default]
    Runtime,
    /// It wakes itself and returns: what streams, combinators and other runtimes' helpers do.
    Wake,
}

impl HogYield {
    /// The word of the command line.
    pub(crate) fn word(self) -> &'static str {
        match self {
            HogYield::Runtime => "runtime",
            HogYield::Wake => "wake",
        }
    }
}

/// The two ends of a TCP proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ProxyRoute {
    pub(crate) listen: SocketAddr,
    pub(crate) target: SocketAddr,
}

impl FromStr for ProxyRoute {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (listen, target) = text
            .split_once('=')
            .ok_or("not of the form LISTEN=TARGET, each an IP:PORT")?;
        let address = |part: &str, name| {
            part.parse()
                .map_err(|_| format!("{name} `{part}` is not an IP:PORT"))
        };
        Ok(ProxyRoute {
            listen: address(listen, "LISTEN")?,
            target: address(target, "TARGET")?,
        })
    }
}

/// Fresh tasks at a steady rate, each of which computes once and ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Burn {
    pub(crate) per_second: u32,
    pub(crate) us: u64,
}

impl FromStr for Burn {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const RATE_MAX: u32 = 10_000;
        const US_MAX: u64 = 60_000_000;
        let (rate, us) = text
            .split_once(':')
            .ok_or("not of the form RATE:US, as in `50:20000`")?;
        let per_second = rate
            .parse()
            .ok()
            .filter(|rate| (1..=RATE_MAX).contains(rate));
        let us = us.parse().ok().filter(|us| (1..=US_MAX).contains(us));
        Ok(Burn {
            per_second: per_second
                .ok_or_else(|| format!("RATE `{rate}` is not a number from 1 to {RATE_MAX}"))?,
            us: us
                .ok_or_else(|| format!("US is not a number of microseconds from 1 to {US_MAX}"))?,
        })
    }
}

impl std::fmt::Display for Burn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.per_second, self.us)
    }
}

/// The classes that every runtime with classes has.
const BUILT_IN_CLASSES: [&str; 3] = ["urgent", "normal", "bulk"];
/// Classes in all, with these three.
pub(crate) const CLASSES_MAX: usize = 16;

/// The greatest share of a class.
pub(crate) const SHARE_MAX: u32 = 10_000;

/// The name of a class.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ClassName(String);

impl ClassName {
    /// The name of the class of that number: the three that are always there come first.
    pub(crate) fn numbered(number: usize) -> Self {
        let built_in = BUILT_IN_CLASSES.get(number);
        ClassName(built_in.map_or_else(|| format!("c{number}"), |name| (*name).to_owned()))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for ClassName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const LEN_MAX: usize = 32;
        let good = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_');
        if (1..=LEN_MAX).contains(&text.len()) && text.chars().all(good) {
            Ok(ClassName(text.to_owned()))
        } else {
            Err(format!(
                "`{text}` is no name of a class: 1 to {LEN_MAX} small letters, digits, `-` and `_`"
            ))
        }
    }
}

/// Classes with their shares, each class once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Shares(pub(crate) Vec<(ClassName, u32)>);

impl FromStr for Shares {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut shares: Vec<(ClassName, u32)> = Vec::new();
        for part in text.split(',') {
            let (name, share) = part
                .split_once('=')
                .ok_or_else(|| format!("`{part}` is not of the form NAME=SHARE"))?;
            let name: ClassName = name.parse()?;
            let share = share.parse().ok().filter(|n| (1..=SHARE_MAX).contains(n));
            let share = share.ok_or_else(|| {
                let name = name.as_str();
                format!("the share of `{name}` is not a number from 1 to {SHARE_MAX}")
            })?;
            if shares.iter().any(|(other, _)| *other == name) {
                return Err(format!("`{}` is named twice", name.as_str()));
            }
            shares.push((name, share));
        }
        let is_own = |name: &ClassName| !BUILT_IN_CLASSES.contains(&name.as_str());
        let own = shares.iter().filter(|(name, _)| is_own(name)).count();
        let room = CLASSES_MAX - BUILT_IN_CLASSES.len();
        if own > room {
            return Err(format!(
                "{own} classes beside the three that are always there; at most {room} find room"
            ));
        }
        Ok(Shares(shares))
    }
}

impl std::fmt::Display for Shares {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (index, (name, share)) in self.0.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(f, "{comma}{}={share}", name.as_str())?;
        }
        Ok(())
    }
}

/// When a stuck worker's seat goes to another thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HandOff {
    /// After so many microseconds in one poll.
    AfterMicros(u64),
    /// Never.
    Off,
}

impl FromStr for HandOff {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const US_MAX: u64 = 60_000_000;
        match text {
            "off" => Ok(HandOff::Off),
            _ => {
                let us = text.parse().ok().filter(|us| (1..=US_MAX).contains(us));
                us.map(HandOff::AfterMicros).ok_or_else(|| {
                    format!("neither a number of microseconds from 1 to {US_MAX} nor `off`")
                })
            }
        }
    }
}

impl std::fmt::Display for HandOff {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            HandOff::AfterMicros(us) => write!(f, "{us}"),
            HandOff::Off => f.write_str("off"),
        }
    }
}

/// When the reader of a connection is woken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Delivery {
    /// At whatever arrives.
    Immediate,
    /// At so many bytes, or so many milliseconds after the first of them.
    Coalesce { bytes: u32, ms: u32 },
    /// The later the busier its worker is, but at most so many milliseconds later.
    Adaptive { ms: u32 },
}

impl FromStr for Delivery {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const BYTES_MAX: u32 = 1_048_576;
        const MS_MAX: u32 = 60_000;
        let number = |part: &str, name, most| match part.parse() {
            Ok(number) if (1..=most).contains(&number) => Ok(number),
            _ => Err(format!("{name} `{part}` is not a number from 1 to {most}")),
        };
        let parts: Vec<&str> = text.split(':').collect();
        match parts[..] {
            ["immediate"] => Ok(Delivery::Immediate),
            ["coalesce", bytes, ms] => Ok(Delivery::Coalesce {
                bytes: number(bytes, "BYTES", BYTES_MAX)?,
                ms: number(ms, "MS", MS_MAX)?,
            }),
            ["adaptive", ms] => Ok(Delivery::Adaptive {
                ms: number(ms, "MS", MS_MAX)?,
            }),
            _ => Err("neither `immediate` nor `coalesce:BYTES:MS` nor `adaptive:MS`".to_owned()),
        }
    }
}

impl std::fmt::Display for Delivery {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Delivery::Immediate => f.write_str("immediate"),
            Delivery::Coalesce { bytes, ms } => write!(f, "coalesce:{bytes}:{ms}"),
            Delivery::Adaptive { ms } => write!(f, "adaptive:{ms}"),
        }
    }
}

/// What connections take in turn: at least one, with `/` between them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Deliveries(Vec<Delivery>);

impl Deliveries {
    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    /// What connection `number` takes, counted from 0: the number of it, and itself.
    pub(crate) fn of(&self, number: u64) -> (usize, Delivery) {
        let turn = (number % self.0.len() as u64) as usize;
        (turn, self.0[turn])
    }
}

impl From<Vec<Delivery>> for Deliveries {
    /// # Panics
    /// Of none.
    fn from(deliveries: Vec<Delivery>) -> Self {
        assert!(!deliveries.is_empty(), "there is nothing to take in turn");
        Deliveries(deliveries)
    }
}

impl FromStr for Deliveries {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const MOST: usize = 8;
        let turns: Vec<Delivery> = text.split('/').map(str::parse).collect::<Result<_, _>>()?;
        if turns.len() > MOST {
            return Err(format!(
                "{} in turn; at most {MOST} are counted",
                turns.len()
            ));
        }
        Ok(Deliveries(turns))
    }
}

impl std::fmt::Display for Deliveries {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (turn, delivery) in self.0.iter().enumerate() {
            let between = if turn == 0 { "" } else { "/" };
            write!(f, "{between}{delivery}")?;
        }
        Ok(())
    }
}

/// The levels of busy waiting, under the names that Erlang gave them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum BusyWait {
    None,
    VeryShort,
    Short,
    Medium,
    Long,
    VeryLong,
    Adaptive,
}

impl BusyWait {
    /// The six fixed levels, from the longest to none.
    pub(crate) const FIXED: [BusyWait; 6] = [
        BusyWait::VeryLong,
        BusyWait::Long,
        BusyWait::Medium,
        BusyWait::Short,
        BusyWait::VeryShort,
        BusyWait::None,
    ];

    /// The word of the command line.
    pub(crate) fn word(self) -> &'static str {
        match self {
            BusyWait::None => "none",
            BusyWait::VeryShort => "very_short",
            BusyWait::Short => "short",
            BusyWait::Medium => "medium",
            BusyWait::Long => "long",
            BusyWait::VeryLong => "very_long",
            BusyWait::Adaptive => "adaptive",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hog_poll_is_a_positive_number_or_never() {
        assert_eq!("never".parse(), Ok(HogPoll::Never));
        assert_eq!("250".parse(), Ok(HogPoll::Micros(250)));
        assert!("0".parse::<HogPoll>().is_err());
        assert!("-1".parse::<HogPoll>().is_err());
        assert!("often".parse::<HogPoll>().is_err());
    }

    #[test]
    fn a_proxy_route_names_the_end_that_is_wrong() {
        let route: ProxyRoute = "127.0.0.1:1=127.0.0.1:2".parse().expect("a good route");
        assert_eq!((route.listen.port(), route.target.port()), (1, 2));
        assert!(
            "127.0.0.1:1"
                .parse::<ProxyRoute>()
                .is_err_and(|e| e.contains("LISTEN=TARGET"))
        );
        assert!(
            "here=127.0.0.1:2"
                .parse::<ProxyRoute>()
                .is_err_and(|e| e.contains("LISTEN `here`"))
        );
        assert!(
            "127.0.0.1:1=x"
                .parse::<ProxyRoute>()
                .is_err_and(|e| e.contains("TARGET `x`"))
        );
    }

    #[test]
    fn a_burn_is_a_rate_and_a_length() {
        assert_eq!(
            "50:20000".parse(),
            Ok(Burn {
                per_second: 50,
                us: 20_000
            })
        );
        for (wrong, complaint) in [
            ("50", "RATE:US"),
            ("0:10", "RATE `0`"),
            ("many:10", "RATE `many`"),
            ("50:0", "US is not"),
            ("50:-3", "US is not"),
        ] {
            let refused = wrong.parse::<Burn>();
            assert!(refused.is_err_and(|e| e.contains(complaint)), "{wrong}");
        }
    }

    #[test]
    fn shares_name_each_class_once() {
        let shares: Shares = "urgent=16,reports=5".parse().expect("good shares");
        assert_eq!(shares.to_string(), "urgent=16,reports=5");
        let many = (0..14).map(|n| format!("c{n}=1")).collect::<Vec<_>>();
        for (wrong, complaint) in [
            ("urgent", "NAME=SHARE"),
            ("urgent=0", "share of `urgent`"),
            ("urgent=10001", "1 to 10000"),
            ("urgent=1,urgent=2", "named twice"),
            ("Urgent=1", "no name of a class"),
            ("=1", "no name of a class"),
            (&many.join(","), "at most 13"),
        ] {
            let refused = wrong.parse::<Shares>();
            assert!(refused.is_err_and(|e| e.contains(complaint)), "{wrong}");
        }
        assert!(many[1..].join(",").parse::<Shares>().is_ok());
    }

    #[test]
    fn a_hand_off_is_a_length_or_off() {
        assert_eq!("off".parse(), Ok(HandOff::Off));
        assert_eq!("1500".parse(), Ok(HandOff::AfterMicros(1_500)));
        assert!("0".parse::<HandOff>().is_err());
        assert!(
            "soon"
                .parse::<HandOff>()
                .is_err_and(|e| e.contains("`off`"))
        );
    }

    #[test]
    fn a_delivery_reads_as_it_is_written() {
        for good in ["immediate", "coalesce:16384:100", "adaptive:10"] {
            let delivery: Delivery = good.parse().expect("a good delivery");
            assert_eq!(delivery.to_string(), good);
        }
        for (wrong, complaint) in [
            ("later", "coalesce:BYTES:MS"),
            ("coalesce:10", "coalesce:BYTES:MS"),
            ("coalesce:0:10", "BYTES `0`"),
            ("coalesce:10:soon", "MS `soon`"),
            (
                "adaptive:60001",
                "MS `60001` is not a number from 1 to 60000",
            ),
        ] {
            let refused = wrong.parse::<Delivery>();
            assert!(refused.is_err_and(|e| e.contains(complaint)), "{wrong}");
        }
    }

    #[test]
    fn connections_take_deliveries_in_turn() {
        let alone: Deliveries = "immediate".parse().expect("one");
        assert_eq!(alone.of(7), (0, Delivery::Immediate));
        let both: Deliveries = "immediate/adaptive:10".parse().expect("two");
        assert_eq!(both.to_string(), "immediate/adaptive:10");
        assert_eq!(both.count(), 2);
        assert_eq!(both.of(4), (0, Delivery::Immediate));
        assert_eq!(both.of(5), (1, Delivery::Adaptive { ms: 10 }));
        for wrong in ["", "immediate/", "immediate/later"] {
            assert!(wrong.parse::<Deliveries>().is_err(), "{wrong}");
        }
        assert!(["immediate"; 9].join("/").parse::<Deliveries>().is_err());
    }

    #[test]
    fn every_level_is_its_own_word_on_the_command_line() {
        use clap::ValueEnum;
        for level in BusyWait::value_variants() {
            let value = level.to_possible_value().expect("no level is hidden");
            assert_eq!(value.get_name(), level.word());
        }
    }
}
