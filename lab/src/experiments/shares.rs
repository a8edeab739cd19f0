//! `shares`: processor time of classes against their shares, second by second.

use std::time::Duration;

use serde_json::json;

use crate::error::Result;
use crate::peers::Peer;
use crate::report::{Cell, Experiment, Outcome, Plot, Table, Verdict};
use crate::serve::{ClassName, HogPoll};
use crate::split::{Polls, Readings, Split, split};
use crate::trial::figures::{bars, count, number};
use crate::trial::{AtMost, Column, Lab, MoreThan, Reach, Samples};
use crate::trial::{judge, or_else, over_rounds};

/// A contest: who takes part, by which weights, and what the tasks do.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Contest {
    peer: Peer,
    workers: usize,
    weights: &'static str,
    tasks: Tasks,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Tasks {
    name: &'static str,
    polls: Polls,
    /// What hogs, beside the other tasks of the last class, do.
    hogs: Option<HogPoll>,
    /// What is to be reached, in percent of the whole.
    worst_error_max: f64,
}

const fn tasks(name: &'static str, polls: Polls, hogs: Option<HogPoll>) -> Tasks {
    Tasks {
        name,
        polls,
        hogs,
        worst_error_max: if hogs.is_some() { 5.0 } else { 2.0 },
    }
}

const EQUAL: Tasks = tasks("equal polls", Polls::Equal, None);
const MIXED: Tasks = tasks("mixed polls", Polls::Mixed, None);
const HOGS: Tasks = tasks("10 ms hogs", Polls::Equal, Some(HogPoll::Micros(10_000)));
const ENDLESS: Tasks = tasks("endless hogs", Polls::Equal, Some(HogPoll::Never));

/// What one measurement found: the split by the runtime's own accounts, and by what the tasks
/// counted.
struct Found {
    readings: Readings,
    by_accounts: Option<Split>,
    by_work: Option<Split>,
}

/// The worst of all rounds counts, not their median.
#[rustfmt::skip]
const WORST: Column<Found> = or_else(TOO_SHORT, over_rounds("worst error", "%", 2,
    |found| over(found, |found| Some(found.split()?.worst_error), f64::max)));
#[rustfmt::skip]
const LEAST: Column<Found> = or_else(TOO_SHORT, over_rounds("least", "ms", 1,
    |found| over(found, |found| Some(found.split()?.least_us / 1e3), f64::min)));
/// The worst error stands apart, beside what is to be reached.
#[rustfmt::skip]
const COLUMNS: [Column<Found>; 3] = [
    or_else(TOO_SHORT, over_rounds("own count", "%", 2,
        |found| over(found, |found| Some(found.by_work.as_ref()?.worst_error), f64::max))),
    LEAST,
    or_else(TOO_SHORT, over_rounds("in all", "cores", 2,
        |found| over(found, |found| Some(found.split()?.cores), f64::max))),
];
const TOO_SHORT: &str = "less than a second";

fn over(found: &[&Found], of: fn(&Found) -> Option<f64>, pick: fn(f64, f64) -> f64) -> Option<f64> {
    found.iter().filter_map(|found| of(found)).reduce(pick)
}

/// All measurements.
type All = Samples<Contest, Found>;

pub(crate) fn run(lab: &Lab) -> Result<Experiment> {
    let name = |contest: Contest| format!("shares: {}", contest.name());
    let one = |contest| measure(lab, contest);
    // The worst of all seconds counts, so that more rounds are more seconds, and no more.
    let rounds = lab.rounds_asked.unwrap_or(1);
    let all = All::measure(lab, rounds, contests(lab), name, &[WORST], one);
    let case = |of: Contest| {
        json!({
            "peer": of.peer.name(),
            "workers": of.workers,
            "weights": of.weights().collect::<Vec<_>>(),
            "polls": of.tasks.polls.word(),
            "hogs": of.tasks.hogs.map(|poll| poll.to_string()),
        })
    };
    let own = all.keys().filter(|contest| contest.peer == Peer::Evenkeel);
    Ok(Experiment {
        tables: vec![all.splits()],
        plots: all.plots(),
        verdicts: own.map(|contest| all.verdict(contest)).collect(),
        raw: all.raw(case, |found| {
            json!({
                "by_accounts": found.by_accounts,
                "by_work": found.by_work,
                "readings": found.readings.readings,
            })
        }),
        ..Experiment::default()
    })
}

/// Every contest, or in brief those that say most.
fn contests(lab: &Lab) -> Vec<Contest> {
    let mut contests = Vec::new();
    let mut add = |peer, workers, weights, tasks| {
        contests.push(Contest {
            peer,
            workers,
            weights,
            tasks,
        });
    };
    let (all, workers, tokio) = match lab.is_brief() {
        true => (&SETS[..4], vec![lab.workers], &SETS[1..2]),
        false => (&SETS[..], vec![1, lab.workers.max(2)], &SETS[..]),
    };
    for workers in workers {
        for set in all {
            let says_most = !lab.is_brief() || *set == "1,10";
            let tasks = [EQUAL, MIXED, HOGS, ENDLESS].into_iter();
            for tasks in tasks.take(if says_most { 4 } else { 1 }) {
                add(Peer::Evenkeel, workers, *set, tasks);
            }
        }
    }
    if lab.lineup.present.contains(&Peer::Tokio) {
        for set in tokio {
            add(Peer::Tokio, lab.workers, *set, EQUAL);
        }
    }
    contests
}

/// The weights of each contest. Where two classes differ, hogs stand in the one that is due more
/// and, turned round, in the one that is due less.
const SETS: [&str; 8] = [
    "1,1",
    "1,10",
    "1,1000",
    "1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16",
    "10,1",
    "16,33,50",
    "1,2,3,4,5,6,7,8",
    // As many classes as there may be.
    "1,2,3,4,1,2,3,4,1,2,3,4,1,2,3,4,1,2,3,4,1,2,3,4,1,2,3,4,1,2,3,4,\
     1,2,3,4,1,2,3,4,1,2,3,4,1,2,3,4,1,2,3,4,1,2,3,4,1,2,3,4,1,2,3,64",
];

impl Contest {
    fn name(&self) -> String {
        let (peer, workers, ratio) = (self.peer.name(), self.workers, self.ratio());
        format!("{peer}, {workers} workers, {ratio}, {}", self.tasks.name)
    }

    fn weights(&self) -> impl Iterator<Item = u32> {
        let weights = self.weights.split(',');
        weights.filter_map(|weight| weight.parse().ok())
    }

    /// The weights as people write them.
    fn ratio(&self) -> String {
        match self.weights.split(',').collect::<Vec<_>>()[..] {
            [first, second, _, _, .., last] => format!("{first}:{second}:…:{last}"),
            _ => self.weights.replace(',', ":"),
        }
    }

    fn reach(&self) -> Reach {
        AtMost(self.tasks.worst_error_max)
    }
}

impl Found {
    /// By the accounts, or, where there are none, by what the tasks counted.
    fn split(&self) -> Option<&Split> {
        self.by_accounts.as_ref().or(self.by_work.as_ref())
    }
}

fn measure(lab: &Lab, contest: Contest) -> Result<Found> {
    // Less than a second has no second in it.
    let length = lab.measured(Duration::from_millis(1_300));
    let length = length.max(Duration::from_millis(1_100));
    let (weights, workers) = (contest.weights, contest.workers);
    let (runtime, polls) = (contest.peer.name(), contest.tasks.polls.word());
    let hogs = contest.tasks.hogs;
    let hogs = hogs.map(|poll| format!("--hogs {workers} --hog-poll-us {poll}"));
    let words = format!("{runtime} --workers {workers} --weights {weights} --polls {polls}");
    let split_of = lab.split(words).with(hogs.unwrap_or_default());
    let readings: Readings = split_of.lasts(length).result()?;
    Ok(Found {
        by_accounts: split(&readings, |reading| reading.run_us.as_deref()),
        by_work: split(&readings, |reading| Some(&reading.work_us)),
        readings,
    })
}

impl All {
    fn splits(&self) -> Table {
        let row = |contest: Contest| {
            let [reach, words] = match contest.peer {
                Peer::Evenkeel => self.judged(contest),
                _ => [Cell::Missing(String::new()), "has no classes".into()],
            };
            let named = [
                contest.peer.name().into(),
                count(contest.workers as f64),
                contest.ratio().into(),
                contest.tasks.name.into(),
                number(self.figure(contest, &WORST), WORST.unit),
                reach,
                words,
            ];
            (named, contest)
        };
        let title = "Split of processor time: worst error in any second, by the accounts and by \
                     the tasks' own count; least time of any class in any second; time of all";
        let [worst, reach, verdict] = [WORST.name, "to be reached", "verdict"];
        let heading = [
            "runtime", "workers", "weights", "tasks", worst, reach, verdict,
        ];
        self.table(title, heading, self.keys().map(row), &COLUMNS)
    }

    /// What was to be reached, and whether it was: a small error, and no class without time.
    fn judged(&self, contest: Contest) -> [Cell; 2] {
        let verdict = self.verdict(contest);
        let words = match verdict.outcome {
            Outcome::Missed if verdict.what == NOTHING => "missed: a class had nothing",
            outcome => outcome.word(),
        };
        [contest.reach().words(("%", 0)).into(), words.into()]
    }

    /// What decides: that no class was without time, and then how small the error was.
    fn verdict(&self, contest: Contest) -> Verdict {
        let verdict = |what, column: &Column<Found>, reach| {
            let found = self.figure(contest, column);
            judge(contest.name(), what, found, reach, column.unit)
        };
        match verdict(NOTHING, &LEAST, MoreThan(0.0)) {
            nothing if nothing.outcome == Outcome::Missed => nothing,
            _ => verdict(WORST.name, &WORST, contest.reach()),
        }
    }

    /// Weight beside what was measured, class by class, for each contest of equal polls.
    fn plots(&self) -> Vec<Plot> {
        let equal = || self.keys().filter(|contest| contest.tasks == EQUAL);
        let most = equal().map(|contest| contest.workers).max();
        let own = equal().filter(|contest| contest.peer == Peer::Evenkeel);
        let own = own.filter(|contest| Some(contest.workers) == most);
        own.filter_map(|contest| self.plot(contest)).collect()
    }

    fn plot(&self, contest: Contest) -> Option<Plot> {
        let split = |contest| self.found(contest).next()?.split();
        let ours = split(contest)?;
        let peers = self.keys().filter(|other| {
            let alike = other.tasks == EQUAL && other.weights == contest.weights;
            alike && other.peer != Peer::Evenkeel
        });
        let peers = peers.filter_map(|of| Some((of.peer.name(), &split(of)?.had_percent)));
        let weights = ("weight", &ours.due_percent);
        let ours = [weights, ("evenkeel", &ours.had_percent)];
        let all: Vec<_> = ours.into_iter().chain(peers).collect();
        let group = |class: usize| {
            let bar = |(name, of): &(&str, &Vec<f64>)| ((*name).to_owned(), of[class]);
            let name = ClassName::numbered(class).as_str().to_owned();
            (name, all.iter().map(bar).collect())
        };
        let groups = (0..contest.weights().count()).map(group).collect();
        let (ratio, workers) = (contest.ratio(), contest.workers);
        let title = format!("{ratio}, {workers} workers: weight, and time over all");
        Some(bars(title, "%", false, groups))
    }
}

/// The figure that no share makes up for.
const NOTHING: &str = "least time of a class in a second";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::split::Weights;
    use crate::trial::samples::Sample;

    fn contest(weights: &'static str, tasks: Tasks) -> Contest {
        Contest {
            peer: Peer::Evenkeel,
            workers: 2,
            weights,
            tasks,
        }
    }

    fn verdict(contest: Contest, worst_error: f64, least_ms: f64) -> String {
        let by_work = Split {
            worst_error,
            least_us: 1e3 * least_ms,
            due_percent: Vec::new(),
            had_percent: Vec::new(),
            cores: 0.0,
            windows: 1,
        };
        let found = Found {
            readings: Readings {
                runtime: String::new(),
                workers: 2,
                weights: Vec::new(),
                readings: Vec::new(),
            },
            by_accounts: None,
            by_work: Some(by_work),
        };
        let sample = Sample {
            key: contest,
            round: 0,
            found: Ok(found),
        };
        match Samples(vec![sample]).judged(contest) {
            [_, Cell::Text(words)] => words,
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn every_set_of_weights_can_be_asked_for() {
        for set in SETS {
            let weights: Weights = set.parse().expect("good weights");
            assert!(contest(set, EQUAL).weights().eq(weights.0));
        }
    }

    #[test]
    fn hogs_have_a_wider_reach_and_nobody_may_starve() {
        let plain = contest("1,10", EQUAL);
        let hogs = contest("1,10", ENDLESS);
        assert_eq!(verdict(plain, 2.0, 1.0), "holds");
        assert_eq!(verdict(plain, 2.1, 1.0), "missed");
        assert_eq!(verdict(hogs, 4.9, 1.0), "holds");
        assert_eq!(verdict(hogs, 5.1, 1.0), "missed");
        assert_eq!(verdict(plain, 0.1, 0.0), "missed: a class had nothing");
    }

    #[test]
    fn weights_are_written_as_people_do() {
        assert_eq!(contest("1,1000", EQUAL).ratio(), "1:1000");
        assert_eq!(contest(SETS[3], EQUAL).ratio(), "1:2:…:16");
    }
}
