//! What the flags say: numbers, words, and what is made of several of them.

use std::fmt::{self, Display, Formatter};
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
pub(crate) use evenkeel::BusyWait;

/// Parses a number in `range`.
pub(crate) fn within<N: FromStr + PartialOrd + Display>(
    range: RangeInclusive<N>,
) -> impl Fn(&str) -> Result<N, String> + Clone
where
    RangeInclusive<N>: Clone,
{
    move |text| {
        let number = text.parse().ok().filter(|number| range.contains(number));
        let (least, most) = (range.start(), range.end());
        number.ok_or_else(|| format!("not a number from {least} to {most}"))
    }
}

/// The number in `range` that a `part` of a flag is; `what` names that part.
fn number<N>(what: &str, part: &str, range: RangeInclusive<N>) -> Result<N, String>
where
    N: FromStr + PartialOrd + Display + Clone,
{
    within(range)(part).map_err(|complaint| format!("{what} is {complaint}"))
}

/// A list as it is given, with `between` between its items.
pub(crate) fn joined(items: impl IntoIterator<Item: ToString>, between: &str) -> String {
    let words: Vec<String> = items.into_iter().map(|item| item.to_string()).collect();
    words.join(between)
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

impl Display for HogPoll {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
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

/// Where a TCP proxy listens, and its target.
pub(super) type Route = (SocketAddr, SocketAddr);

pub(super) fn route(text: &str) -> Result<Route, String> {
    let parts = text.split_once('=');
    let (listen, target) = parts.ok_or("not of the form LISTEN=TARGET, each an IP:PORT")?;
    let address = |part: &str, name| {
        let address = part.parse();
        address.map_err(|_| format!("{name} `{part}` is not an IP:PORT"))
    };
    Ok((address(listen, "LISTEN")?, address(target, "TARGET")?))
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
        let parts = text.split_once(':');
        let (rate, us) = parts.ok_or("not of the form RATE:US, as in `50:20000`")?;
        Ok(Burn {
            per_second: number(&format!("RATE `{rate}`"), rate, 1..=10_000)?,
            us: number("US", us, 1..=60_000_000)?,
        })
    }
}

impl Display for Burn {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.per_second, self.us)
    }
}

/// The classes that every runtime with classes has.
pub(super) const BUILT_IN_CLASSES: [&str; 3] = ["urgent", "normal", "bulk"];
/// Classes in all, with these three.
pub(crate) const CLASSES_MAX: usize = 64;

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
            let what = format!("the share of `{}`", name.as_str());
            let share = number(&what, share, 1..=SHARE_MAX)?;
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

impl Display for Shares {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let shares = self.0.iter();
        let shares = shares.map(|(name, share)| format!("{}={share}", name.as_str()));
        f.write_str(&joined(shares, ","))
    }
}

/// After how long in one poll a stuck worker's seat goes to another thread; `None`: never.
pub(super) type HandOff = Option<Duration>;

pub(super) fn hand_off(text: &str) -> Result<HandOff, String> {
    if text == "off" {
        return Ok(None);
    }
    let us = number(&format!("`{text}`"), text, 1..=60_000_000);
    let us = us.map_err(|complaint| format!("{complaint}, nor `off`"))?;
    Ok(Some(Duration::from_micros(us)))
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
        let bytes = |part| number(&format!("BYTES `{part}`"), part, 1..=1_048_576);
        let ms = |part| number(&format!("MS `{part}`"), part, 1..=60_000);
        let parts: Vec<&str> = text.split(':').collect();
        match parts[..] {
            ["immediate"] => Ok(Delivery::Immediate),
            ["coalesce", mark, delay] => Ok(Delivery::Coalesce {
                bytes: bytes(mark)?,
                ms: ms(delay)?,
            }),
            ["adaptive", delay] => Ok(Delivery::Adaptive { ms: ms(delay)? }),
            _ => Err("neither `immediate` nor `coalesce:BYTES:MS` nor `adaptive:MS`".to_owned()),
        }
    }
}

impl Display for Delivery {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
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
            let many = turns.len();
            return Err(format!("{many} in turn; at most {MOST} are counted"));
        }
        Ok(Deliveries(turns))
    }
}

impl Display for Deliveries {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&joined(&self.0, "/"))
    }
}

/// Takes the name of a level of busy waiting, and lists the names in the help.
pub(crate) fn busy_wait() -> impl TypedValueParser<Value = BusyWait> {
    PossibleValuesParser::new(BusyWait::ALL.map(|level| level.to_string()))
        .try_map(|name| name.parse::<BusyWait>())
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
        let (listen, target) = route("127.0.0.1:1=127.0.0.1:2").expect("a good route");
        assert_eq!((listen.port(), target.port()), (1, 2));
        for (wrong, complaint) in [
            ("127.0.0.1:1", "LISTEN=TARGET"),
            ("here=127.0.0.1:2", "LISTEN `here`"),
            ("127.0.0.1:1=x", "TARGET `x`"),
        ] {
            assert!(
                route(wrong).is_err_and(|e| e.contains(complaint)),
                "{wrong}"
            );
        }
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
        let many = (0..62).map(|n| format!("c{n}=1")).collect::<Vec<_>>();
        for (wrong, complaint) in [
            ("urgent", "NAME=SHARE"),
            ("urgent=0", "share of `urgent`"),
            ("urgent=10001", "1 to 10000"),
            ("urgent=1,urgent=2", "named twice"),
            ("Urgent=1", "no name of a class"),
            ("=1", "no name of a class"),
            (&many.join(","), "at most 61"),
        ] {
            let refused = wrong.parse::<Shares>();
            assert!(refused.is_err_and(|e| e.contains(complaint)), "{wrong}");
        }
        assert!(many[1..].join(",").parse::<Shares>().is_ok());
    }

    #[test]
    fn a_hand_off_is_a_length_or_off() {
        assert_eq!(hand_off("off"), Ok(None));
        assert_eq!(hand_off("1500"), Ok(Some(Duration::from_micros(1_500))));
        assert!(hand_off("0").is_err());
        assert!(hand_off("soon").is_err_and(|e| e.contains("`off`")));
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
}
