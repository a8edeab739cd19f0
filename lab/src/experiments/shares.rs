//! `shares`: processor time of classes against their weights, second by second.

use serde_json::json;
use std::time::Duration;

use crate::error::Result;
use crate::peers::Peer;
use crate::report::plot::Lists;
use crate::report::{Cell, Experiment, Judged, Plot, Table};
use crate::serve::{ClassName, HogPoll};
use crate::split::{Polls, Readings, Split, Weights, split};
use crate::trial::columns::{Column, or_else, over_rounds};
use crate::trial::figures::{self, bars, grouped};
use crate::trial::lab::Lab;
use crate::trial::samples::{Describe, Samples};
use crate::trial::verdict::{Reach, Verdict};

/// A contest: who takes part, and by which weights.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Contest {
    peer: Peer,
    workers: usize,
    weights: Weights,
    polls: Polls,
    /// What hogs, beside the other tasks of the last class, do.
    hogs: Option<HogPoll>,
}

/// What one measurement found: the split by the runtime's own accounts, and by what the tasks
/// counted.
struct Found {
    readings: Readings,
    by_accounts: Option<Split>,
    by_work: Option<Split>,
}

#[rustfmt::skip]
const WORST: Column<Found> = over_rounds("worst error", "%", 2,
    |found| over(found, |found| Some(found.split()?.worst_error), f64::max));
#[rustfmt::skip]
const LEAST: Column<Found> = over_rounds("least", "ms", 1,
    |found| over(found, |found| Some(found.split()?.least_us / 1e3), f64::min));
/// The worst error stands apart, beside what is to be reached.
#[rustfmt::skip]
const COLUMNS: [Column<Found>; 3] = [
    or_else(TOO_SHORT, over_rounds("own count", "%", 2,
        |found| over(found, |found| Some(found.by_work.as_ref()?.worst_error), f64::max))),
    or_else(TOO_SHORT, LEAST),
    or_else(TOO_SHORT, over_rounds("in all", "cores", 2,
        |found| over(found, |found| Some(found.split()?.cores), f64::max))),
];
const TOO_SHORT: &str = "less than a second";

/// The outermost of all rounds, as it counts and not their median.
fn over(found: &[&Found], of: fn(&Found) -> Option<f64>, pick: fn(f64, f64) -> f64) -> Option<f64> {
    found.iter().filter_map(|found| of(found)).reduce(pick)
}

/// All measurements.
struct All {
    contests: Vec<Contest>,
    samples: Samples<usize, Found>,
}

/// What is to be reached, in percent of the whole.
const WORST_ERROR: f64 = 2.0;
const WORST_ERROR_WITH_HOGS: f64 = 5.0;

pub(crate) fn run(lab: &Lab) -> Result<Experiment> {
    let contests = contests(lab);
    let name = |index: usize| format!("shares: {}", contests[index].name());
    let one = |index: usize| measure(lab, &contests[index]);
    // The worst of all seconds counts, so that more rounds are more seconds, and no more.
    let rounds = lab.rounds_asked().unwrap_or(1);
    let samples = Samples::measure(lab, rounds, 0..contests.len(), name, one);
    let all = All { contests, samples };
    Ok(Experiment {
        how: "Four tasks in every class compute and yield for ever, so that every class always \
              wants more. Polls are equal, 100 us each, or mixed: every task has a length of its \
              own, from 10 us to 1 ms. Hogs stand in the last class beside its other tasks, as \
              many as there are workers; and there are as many processors as workers. The accounts \
              are read every 100 ms; every stretch of a second between two readings is looked at, \
              and the worst error of any class in any of them is quoted, in percent of all \
              processor time of the stretch. A peer without classes is shown as it splits, by what \
              its tasks counted."
            .to_owned(),
        tables: vec![all.table()],
        plots: all.plots(),
        notes: vec![NOTE.to_owned()],
        verdicts: all.verdicts(),
        raw: all.raw(),
        ..Experiment::default()
    })
}

/// Every contest, or in brief those that say most.
fn contests(lab: &Lab) -> Vec<Contest> {
    let weights = |text: &str| text.parse().unwrap_or(Weights(vec![1, 1]));
    let mut contests = Vec::new();
    let mut add = |peer, workers, text: &str, polls, hogs| {
        contests.push(Contest {
            peer,
            workers,
            weights: weights(text),
            polls,
            hogs,
        });
    };
    let (ten_ms, never) = (Some(HogPoll::Micros(10_000)), Some(HogPoll::Never));
    let own = Peer::Evenkeel;
    if lab.lineup.present.contains(&own) {
        let all = if lab.is_brief() {
            vec![(lab.workers, SETS[..4].to_vec())]
        } else {
            vec![(1, SETS.to_vec()), (lab.workers.max(2), SETS.to_vec())]
        };
        for (workers, sets) in all {
            for set in sets {
                add(own, workers, set, Polls::Equal, None);
                if !lab.is_brief() || set == "1,10" {
                    add(own, workers, set, Polls::Mixed, None);
                    add(own, workers, set, Polls::Equal, ten_ms);
                    add(own, workers, set, Polls::Equal, never);
                }
            }
        }
    }
    if lab.lineup.present.contains(&Peer::Tokio) {
        let sets = if lab.is_brief() {
            &SETS[1..2]
        } else {
            &SETS[..]
        };
        for set in sets {
            add(Peer::Tokio, lab.workers, set, Polls::Equal, None);
        }
    }
    contests
}

/// The weights of each contest. Where two classes differ, hogs stand in the one that is due more
/// and, turned round, in the one that is due less.
const SETS: [&str; 7] = [
    "1,1",
    "1,10",
    "1,1000",
    "1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16",
    "10,1",
    "16,33,50",
    "1,2,3,4,5,6,7,8",
];

impl Contest {
    fn name(&self) -> String {
        let (peer, workers) = (self.peer.name(), self.workers);
        format!(
            "{peer}, {workers} workers, {}, {}",
            self.ratio(),
            self.tasks()
        )
    }

    /// The weights as people write them.
    fn ratio(&self) -> String {
        let weights: Vec<String> = self.weights.0.iter().map(u32::to_string).collect();
        match &weights[..] {
            [first, second, .., last] if weights.len() > 4 => {
                format!("{first}:{second}:…:{last}")
            }
            _ => weights.join(":"),
        }
    }

    fn tasks(&self) -> String {
        let polls = match self.polls {
            Polls::Equal => "equal polls",
            Polls::Mixed => "mixed polls",
        };
        match self.hogs {
            None => polls.to_owned(),
            Some(HogPoll::Never) => "endless hogs".to_owned(),
            Some(HogPoll::Micros(us)) => format!("{} ms hogs", us / 1_000),
        }
    }

    fn reach(&self) -> Reach {
        let with_hogs = self.hogs.is_some();
        Reach::AtMost(if with_hogs {
            WORST_ERROR_WITH_HOGS
        } else {
            WORST_ERROR
        })
    }

    /// Whether it is one of equal polls and nothing else.
    fn is_plain(&self) -> bool {
        self.polls == Polls::Equal && self.hogs.is_none()
    }
}

impl Found {
    /// By the accounts, or, where there are none, by what the tasks counted.
    fn split(&self) -> Option<&Split> {
        self.by_accounts.as_ref().or(self.by_work.as_ref())
    }
}

impl Describe for Found {
    fn describe(&self) -> String {
        match self.split() {
            Some(split) => format!("worst error {:.2} %", split.worst_error),
            None => "less than a second".to_owned(),
        }
    }
}

fn measure(lab: &Lab, contest: &Contest) -> Result<Found> {
    // Less than a second has no second in it.
    let length = lab
        .measured(Duration::from_millis(1_300))
        .max(Duration::from_millis(1_100));
    let Contest {
        peer,
        workers,
        weights,
        polls,
        hogs,
    } = contest;
    let hogs = hogs.map_or_else(String::new, |poll| {
        format!("--hogs {workers} --hog-poll-us {poll}")
    });
    let (runtime, polls) = (peer.name(), polls.word());
    let words = format!("{runtime} --workers {workers} --weights {weights} --polls {polls} {hogs}");
    let readings: Readings = lab.split(words).lasts(length).result()?;
    Ok(Found {
        by_accounts: split(&readings, |reading| reading.run_us.as_deref()),
        by_work: split(&readings, |reading| Some(&reading.work_us)),
        readings,
    })
}

impl All {
    fn table(&self) -> Table {
        let row = |(index, contest): (usize, &Contest)| {
            let why = || {
                self.samples
                    .error(index)
                    .unwrap_or_else(|| TOO_SHORT.to_owned())
            };
            let [worst, least] = self.outermost(index);
            let (reach, verdict) = match contest.peer {
                Peer::Evenkeel => judge(contest, worst, least),
                _ => (Cell::Missing(String::new()), Cell::from("has no classes")),
            };
            let named = [
                Cell::from(contest.peer.name()),
                figures::number(Ok(contest.workers as f64), ("", 0)),
                Cell::from(contest.ratio()),
                Cell::from(contest.tasks()),
                figures::number(worst.ok_or_else(why), ("%", 2)),
                reach,
                verdict,
            ];
            named
                .into_iter()
                .chain(self.samples.cells(index, &COLUMNS))
                .collect()
        };
        let title = "Split of processor time: worst error in any second, by the accounts and by \
                     the tasks' own count; least time of any class in any second; time of all";
        let named = ["runtime", "workers", "weights", "tasks", WORST.name()];
        let judged = ["to be reached", "verdict"];
        let names = named
            .into_iter()
            .chain(judged)
            .chain(COLUMNS.iter().map(Column::name));
        figures::table(
            title,
            names,
            self.contests.iter().enumerate().map(row).collect(),
        )
    }

    /// The worst error, and the least time of a class.
    fn outermost(&self, index: usize) -> [Option<f64>; 2] {
        [WORST, LEAST].map(|column| self.samples.figure(index, &column).ok())
    }

    /// Evenkeel's contests, one verdict each.
    fn verdicts(&self) -> Vec<Judged> {
        let contests = self.contests.iter().enumerate();
        let own = contests.filter(|(_, contest)| contest.peer == Peer::Evenkeel);
        own.map(|(index, contest)| {
            let [worst, least] = self.outermost(index);
            verdict(contest, worst, least).judged()
        })
        .collect()
    }

    /// Weight beside what was measured, class by class, for each contest of equal polls.
    fn plots(&self) -> Vec<Plot> {
        let most = self.contests.iter().map(|contest| contest.workers).max();
        let own = self.contests.iter().enumerate().filter(|(_, contest)| {
            let own = contest.peer == Peer::Evenkeel && contest.is_plain();
            own && Some(contest.workers) == most
        });
        own.filter_map(|(index, contest)| self.plot(index, contest))
            .collect()
    }

    fn plot(&self, index: usize, contest: &Contest) -> Option<Plot> {
        let split = |index: usize| self.samples.found(index).next()?.split();
        let ours = split(index)?;
        let peers = self.contests.iter().enumerate().filter(|(_, other)| {
            let alike = other.is_plain() && other.weights == contest.weights;
            alike && other.peer != Peer::Evenkeel
        });
        let peers = peers.filter_map(|(index, other)| Some((other.peer.name(), split(index)?)));
        let peers: Vec<(&str, &Split)> = peers.collect();
        let group = |class: usize| {
            let own = [
                ("weight", ours.due_percent[class]),
                ("evenkeel", ours.had_percent[class]),
            ];
            let had = peers
                .iter()
                .map(|(name, split)| (*name, split.had_percent[class]));
            let bars = own.into_iter().chain(had);
            let bars = bars
                .map(|(name, percent)| (name.to_owned(), percent))
                .collect();
            (ClassName::numbered(class).as_str().to_owned(), bars)
        };
        let groups: Lists<String> = (0..contest.weights.0.len()).map(group).collect();
        let (ratio, workers) = (contest.ratio(), contest.workers);
        let title = format!("{ratio}, {workers} workers: weight, and time over all");
        Some(bars(&title, "%", false, groups))
    }

    fn raw(&self) -> serde_json::Value {
        self.samples.raw(|index, round, found| {
            let contest = &self.contests[index];
            json!({
                "peer": contest.peer.name(),
                "workers": contest.workers,
                "weights": contest.weights.0,
                "polls": contest.polls.word(),
                "hogs": contest.hogs.map(|poll| poll.to_string()),
                "round": round,
                "by_accounts": found.and_then(|found| found.by_accounts.as_ref()),
                "by_work": found.and_then(|found| found.by_work.as_ref()),
                "readings": found.map(|found| &found.readings.readings),
            })
        })
    }
}

/// What decides: that no class was without time, and then how small the error was.
fn verdict(contest: &Contest, worst_error: Option<f64>, least_ms: Option<f64>) -> Verdict {
    let verdict = |what: &str, found: Option<f64>, reach, unit| {
        let found = found.ok_or_else(|| "not measured".to_owned());
        Verdict::new(contest.name(), what, found, reach, unit)
    };
    let least = verdict(NOTHING, least_ms, Reach::MoreThan(0.0), ("ms", 1));
    if least.holds() == Some(false) {
        return least;
    }
    verdict("worst error", worst_error, contest.reach(), ("%", 2))
}

/// The figure that no share makes up for.
const NOTHING: &str = "least time of a class in a second";

/// What was to be reached, and whether it was: a small error, and no class without time.
fn judge(contest: &Contest, worst_error: Option<f64>, least_ms: Option<f64>) -> (Cell, Cell) {
    let verdict = verdict(contest, worst_error, least_ms);
    let words = match verdict.holds() {
        Some(true) => "holds",
        Some(false) if verdict.what == NOTHING => "missed: a class had nothing",
        Some(false) => "missed",
        None => "not said",
    };
    let Reach::AtMost(most) = contest.reach() else {
        return (Cell::Missing(String::new()), Cell::from(words));
    };
    (
        Cell::Text(format!("≤ {} %", grouped(most, 0))),
        Cell::from(words),
    )
}

const NOTE: &str = "Endless hogs never return from their one poll. Tasks count their own work in \
    steps of at most 100 us, so that the column of their count checks the accounts. Go and Erlang \
    have no shares either; Tokio stands for those who split by tasks.";

#[cfg(test)]
mod tests {
    use super::*;

    fn contest(weights: &str, hogs: Option<HogPoll>) -> Contest {
        Contest {
            peer: Peer::Evenkeel,
            workers: 2,
            weights: weights.parse().expect("good weights"),
            polls: Polls::Equal,
            hogs,
        }
    }

    fn verdict(contest: &Contest, error: f64, least: f64) -> String {
        match judge(contest, Some(error), Some(least)).1 {
            Cell::Text(words) => words,
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn every_set_of_weights_can_be_asked_for() {
        for set in SETS {
            assert!(
                set.parse::<Weights>()
                    .is_ok_and(|weights| weights.to_string() == set)
            );
        }
    }

    #[test]
    fn hogs_have_a_wider_reach_and_nobody_may_starve() {
        let plain = contest("1,10", None);
        let hogs = contest("1,10", Some(HogPoll::Never));
        assert_eq!(verdict(&plain, 2.0, 1.0), "holds");
        assert_eq!(verdict(&plain, 2.1, 1.0), "missed");
        assert_eq!(verdict(&hogs, 4.9, 1.0), "holds");
        assert_eq!(verdict(&hogs, 5.1, 1.0), "missed");
        assert_eq!(verdict(&plain, 0.1, 0.0), "missed: a class had nothing");
    }

    #[test]
    fn weights_are_written_as_people_do() {
        assert_eq!(contest("1,1000", None).ratio(), "1:1000");
        assert_eq!(contest(SETS[3], None).ratio(), "1:2:…:16");
    }
}
