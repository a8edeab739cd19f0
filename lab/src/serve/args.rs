//! The flags of `serve`.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::str::FromStr;

/// Serves until SIGTERM, ctrl-c, or, with --exit-with-parent, the end of the parent.
///
/// Prints one line `SERVICE ADDRESS` for each service, then `ready`. Every ADDR may have port 0:
/// the line names the port that was found.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  evenkeel-lab serve tokio --echo 127.0.0.1:7000 --hogs 4 --hog-poll-us 10000
  evenkeel-lab serve evenkeel --http 127.0.0.1:8080 --api 127.0.0.1:8081 --busy-wait adaptive
  evenkeel-lab serve evenkeel --proxy 127.0.0.1:3307=127.0.0.1:3306")]
pub(crate) struct ServeArgs {
    /// The runtime to serve on.
    pub(crate) runtime: RuntimeName,
    /// TCP echo.
    #[arg(long, value_name = "ADDR")]
    pub(crate) echo: Option<SocketAddr>,
    /// Reads and discards.
    #[arg(long, value_name = "ADDR")]
    pub(crate) sink: Option<SocketAddr>,
    /// Microseconds of computing for each delivery at the sink.
    #[arg(long, value_name = "U", default_value_t = 0, requires = "sink")]
    pub(crate) work_us: u64,
    /// HTTP/1.1: `GET /` answers 200 with a short body, over connections kept alive or closed.
    #[arg(long, value_name = "ADDR")]
    pub(crate) http: Option<SocketAddr>,
    /// HTTP/1.1: `GET /parse` computes, then says how long it took and what the sink saw meanwhile;
    /// `GET /stats` answers what the runtime says of itself.
    #[arg(long, value_name = "ADDR")]
    pub(crate) api: Option<SocketAddr>,
    /// Microseconds of computing for each `GET /parse`, with a checkpoint every 100.
    #[arg(long, value_name = "U", default_value_t = 20_000, requires = "api")]
    pub(crate) api_us: u64,
    /// TCP proxy from one address to another.
    #[arg(long, value_name = "LISTEN=TARGET")]
    pub(crate) proxy: Option<ProxyRoute>,
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
    /// How long a worker without work spins before it parks [default: the runtime's own].
    #[arg(long, value_name = "LEVEL")]
    pub(crate) busy_wait: Option<BusyWait>,
    /// Evenkeel's bound between two I/O checks of a busy worker [default: the runtime's own].
    #[arg(long, value_name = "U")]
    pub(crate) io_check_us: Option<u64>,
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
            || self.http.is_some()
            || self.api.is_some()
            || self.proxy.is_some()
            || self.hogs > 0
    }
}

/// What can be served on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum RuntimeName {
    /// The runtime of this project.
    Evenkeel,
    /// The peer, linked into the lab.
    Tokio,
    /// No runtime: a thread for each connection and for each hog (only --echo and --hogs).
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

/// The two ends of the TCP proxy.
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
    fn every_level_is_its_own_word_on_the_command_line() {
        use clap::ValueEnum;
        for level in BusyWait::value_variants() {
            let value = level.to_possible_value().expect("no level is hidden");
            assert_eq!(value.get_name(), level.word());
        }
    }
}
