//! The flags of `split`.

use std::num::NonZeroUsize;
use std::str::FromStr;
use std::time::Duration;

use crate::load::{seconds, seconds_above_zero};
use crate::serve::{CLASSES_MAX, ClassName, HogPoll, RuntimeName, SHARE_MAX, Shares, within};

/// Splits processor time among classes, all of which always want more, and says who got how much.
///
/// Every class has --tasks tasks that compute and yield. The result is one line of JSON: the time
/// that each class had, and what its tasks themselves counted, every 100 ms.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  evenkeel-lab split evenkeel --weights 1,10 --workers 2
  evenkeel-lab split evenkeel --weights 16,33,50 --polls mixed --hogs 2 --hog-poll-us never
  evenkeel-lab split tokio --weights 1,10         # no classes: an equal split by tasks")]
pub(crate) struct SplitArgs {
    /// The runtime.
    pub(crate) runtime: RuntimeName,
    /// The weight of each class; as many classes as weights.
    #[arg(long, value_name = "W,W,...", default_value = "1,1")]
    pub(crate) weights: Weights,
    /// Workers of the runtime [default: as many as cores].
    #[arg(long, value_name = "N")]
    pub(crate) workers: Option<NonZeroUsize>,
    /// Tasks of each class.
    #[arg(long, value_name = "N", default_value = "4")]
    pub(crate) tasks: NonZeroUsize,
    /// How long the tasks compute in each poll: 100 us all of them, or each its own length, from
    /// 10 us to 1 ms.
    #[arg(long, value_name = "HOW", default_value = "equal")]
    pub(crate) polls: Polls,
    /// Tasks with polls that are too long, in addition, in one of the classes.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) hogs: usize,
    /// Microseconds that these compute in each poll; `never`: it does not return.
    #[arg(long, value_name = "U|never", default_value = "10000")]
    pub(crate) hog_poll_us: HogPoll,
    /// The class of the hogs, counted from 0 [default: the last].
    #[arg(long, value_name = "INDEX")]
    pub(crate) hogs_in: Option<usize>,
    /// Seconds before the first reading.
    #[arg(long, value_name = "S", default_value = "0.3", value_parser = seconds)]
    pub(crate) warmup: Duration,
    /// Seconds of readings.
    #[arg(long, value_name = "S", default_value = "5", value_parser = seconds_above_zero)]
    pub(crate) seconds: Duration,
}

/// How long tasks compute in each poll.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Polls {
    Equal,
    Mixed,
}

impl Polls {
    /// The word of the command line.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Polls::Equal => "equal",
            Polls::Mixed => "mixed",
        }
    }

    /// Microseconds of computing in each poll of a class's task. Mixed, the first class of two has
    /// short polls where the other has long ones.
    pub(crate) fn length_us(self, class: usize, task: usize) -> u64 {
        const MIXED_US: [u64; 5] = [10, 1_000, 30, 300, 100];
        match self {
            Polls::Equal => 100,
            Polls::Mixed => MIXED_US[(class + task) % MIXED_US.len()],
        }
    }
}

/// The weights of classes, at least one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Weights(pub(crate) Vec<u32>);

impl Weights {
    /// The same in the words of `serve`.
    pub(crate) fn shares(&self) -> Shares {
        let names = (0..).map(ClassName::numbered);
        Shares(names.zip(self.0.iter().copied()).collect())
    }
}

impl FromStr for Weights {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let weight = |part: &str| {
            let weight = within(1..=SHARE_MAX)(part);
            weight.map_err(|_| format!("`{part}` is not a weight from 1 to {SHARE_MAX}"))
        };
        let weights = text.split(',').map(weight).collect::<Result<Vec<_>, _>>()?;
        match weights.len() {
            ..=CLASSES_MAX => Ok(Weights(weights)),
            many => Err(format!("{many} classes; there are at most {CLASSES_MAX}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_name_classes_by_their_number() {
        let weights: Weights = "1,10,100,7".parse().expect("good weights");
        assert_eq!(weights.0, [1, 10, 100, 7]);
        assert_eq!(
            weights.shares().to_string(),
            "urgent=1,normal=10,bulk=100,c3=7"
        );
        for wrong in ["", "0", "1,x", "10001", &["1"; 65].join(",")] {
            assert!(wrong.parse::<Weights>().is_err(), "{wrong}");
        }
        assert!(["1"; 64].join(",").parse::<Weights>().is_ok());
    }

    #[test]
    fn mixed_polls_differ_between_classes() {
        assert_eq!(Polls::Equal.length_us(3, 1), 100);
        assert_ne!(Polls::Mixed.length_us(0, 0), Polls::Mixed.length_us(1, 0));
        let lengths = (0..5).map(|task| Polls::Mixed.length_us(0, task));
        assert_eq!(lengths.clone().min(), Some(10));
        assert_eq!(lengths.max(), Some(1_000));
    }
}
