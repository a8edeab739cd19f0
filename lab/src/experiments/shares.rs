//! `shares`: processor time of classes against their weights, second by second.

use serde_json::json;
use std::time::Duration;

use crate::error::Result;
use crate::peers::Peer;
use crate::report::{Cell, Experiment, Judged, Plot, Table};
use crate::serve::{ClassName, HogPoll};
use crate::split::{Polls, Readings, Split, Weights, split};
use crate::trial::figures::grouped;
use crate::trial::lab::Lab;
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

/// One measurement of a contest.
struct Sample {
    contest: usize,
    round: u32,
    found: Result<Found, String>,
}

/// What it found: the split by the runtime's own accounts, and by what the tasks counted.
struct Found {
    readings: Readings,
    by_accounts: Option<Split>,
    by_work: Option<Split>,
}

/// What is to be reached, in percent of the whole.
const WORST_ERROR: f64 = 2.0;
const WORST_ERROR_WITH_HOGS: f64 = 5.0;

pub(crate) fn run(lab: &Lab) -> Result<Experiment> {
    let contests = contests(lab);
    let mut samples = Vec::new();
    // The worst of all seconds counts, so that more rounds are more seconds, and no more.
    for round in 0..lab.rounds_asked().unwrap_or(1) {
        for (index, contest) in contests.iter().enumerate() {
            let found = measure(lab, contest).map_err(|error| error.to_string());
            let words = found.as_ref().map_or_else(Clone::clone, Found::describe);
            lab.progress(&format!("shares: {}: {words}", contest.name()));
            samples.push(Sample {
                contest: index,
                round,
                found,
            });
        }
    }
    Ok(Experiment {
        name: "shares".to_owned(),
        claim:
            "Classes get processor time by their weights in every single second, over the whole \
                process, whatever the lengths of their polls; and none of them gets nothing."
                .to_owned(),
        how: "Four tasks in every class compute and yield for ever, so that every class always \
              wants more. Polls are equal, 100 us each, or mixed: every task has a length of its \
              own, from 10 us to 1 ms. Hogs stand in the last class beside its other tasks, as \
              many as there are workers; and there are as many processors as workers. The accounts \
              are read every 100 ms; every stretch of a second between two readings is looked at, \
              and the worst error of any class in any of them is quoted, in percent of all \
              processor time of the stretch. A peer without classes is shown as it splits, by what \
              its tasks counted."
            .to_owned(),
        tables: vec![table(&contests, &samples)],
        plots: plots(&contests, &samples),
        notes: notes(lab),
        verdicts: verdicts(&contests, &samples),
        raw: raw(&contests, &samples),
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
}

impl Found {
    /// By the accounts, or, where there are none, by what the tasks counted.
    fn split(&self) -> Option<&Split> {
        self.by_accounts.as_ref().or(self.by_work.as_ref())
    }

    fn describe(&self) -> String {
        match self.split() {
            Some(split) => format!("worst error {:.2} %", split.worst_error),
            None => "less than a second".to_owned(),
        }
    }
}

fn measure(lab: &Lab, contest: &Contest) -> Result<Found> {
    let (workers, weights) = (contest.workers.to_string(), contest.weights.to_string());
    // Less than a second has no second in it.
    let length = lab
        .measured(Duration::from_millis(1_300))
        .max(Duration::from_millis(1_100));
    let seconds = length.as_secs_f64().to_string();
    let runtime = contest.peer.name();
    let mut args = vec![runtime, "--workers", &workers, "--weights", &weights];
    args.extend(["--polls", contest.polls.word(), "--seconds", &seconds]);
    let poll = contest.hogs.map(|poll| poll.to_string());
    if let Some(poll) = &poll {
        args.extend(["--hogs", &workers, "--hog-poll-us", poll]);
    }
    let readings: Readings = lab.split(&args)?.result()?;
    Ok(Found {
        by_accounts: split(&readings, |reading| reading.run_us.as_deref()),
        by_work: split(&readings, |reading| Some(&reading.work_us)),
        readings,
    })
}

fn found(samples: &[Sample], contest: usize) -> impl Iterator<Item = &Found> + Clone {
    let of_contest = samples
        .iter()
        .filter(move |sample| sample.contest == contest);
    of_contest.filter_map(|sample| sample.found.as_ref().ok())
}

fn table(contests: &[Contest], samples: &[Sample]) -> Table {
    let columns = [
        "runtime",
        "workers",
        "weights",
        "tasks",
        "worst error",
        "to be reached",
        "verdict",
        "own count",
        "least",
        "in all",
    ];
    let row = |(index, contest): (usize, &Contest)| {
        let error = samples
            .iter()
            .filter(|sample| sample.contest == index)
            .find_map(|sample| sample.found.as_ref().err());
        let why = error.map_or("less than a second", String::as_str);
        let splits = || found(samples, index).filter_map(Found::split);
        let worst = |splits: &mut dyn Iterator<Item = f64>| splits.reduce(f64::max);
        let number = |value: Option<f64>, unit, digits| match value {
            Some(value) => Cell::Number {
                value,
                unit,
                digits,
            },
            None => Cell::Missing(why.to_owned()),
        };
        let by_work = found(samples, index).filter_map(|found| found.by_work.as_ref());
        let least = splits().map(|split| split.least_us / 1e3).reduce(f64::min);
        let worst_error = worst(&mut splits().map(|split| split.worst_error));
        let (reach, verdict) = match contest.peer {
            Peer::Evenkeel => judge(contest, worst_error, least),
            _ => (Cell::Missing(String::new()), Cell::from("has no classes")),
        };
        vec![
            Cell::from(contest.peer.name()),
            number(Some(contest.workers as f64), "", 0),
            Cell::from(contest.ratio()),
            Cell::from(contest.tasks()),
            number(worst_error, "%", 2),
            reach,
            verdict,
            number(worst(&mut by_work.map(|split| split.worst_error)), "%", 2),
            number(least, "ms", 1),
            number(worst(&mut splits().map(|split| split.cores)), "cores", 2),
        ]
    };
    Table {
        title:
            "Split of processor time: worst error in any second, by the accounts and by the tasks' \
                own count; least time of any class in any second; time of all"
                .to_owned(),
        columns: columns.map(str::to_owned).into(),
        rows: contests.iter().enumerate().map(row).collect(),
    }
}

/// Evenkeel's contests, one verdict each.
fn verdicts(contests: &[Contest], samples: &[Sample]) -> Vec<Judged> {
    let contests = contests.iter().enumerate();
    let own = contests.filter(|(_, contest)| contest.peer == Peer::Evenkeel);
    let verdict = |(index, contest): (usize, &Contest)| {
        let splits = || found(samples, index).filter_map(Found::split);
        let worst = splits().map(|split| split.worst_error).reduce(f64::max);
        let least = splits().map(|split| split.least_us / 1e3).reduce(f64::min);
        verdict(contest, worst, least).judged()
    };
    own.map(verdict).collect()
}

/// What decides: that no class was without time, and then how small the error was.
fn verdict(contest: &Contest, worst_error: Option<f64>, least_ms: Option<f64>) -> Verdict {
    let verdict = |what: &str, found: Option<f64>, reach, (unit, digits)| Verdict {
        of: contest.name(),
        what: what.to_owned(),
        found: found.ok_or_else(|| "not measured".to_owned()),
        reach,
        unit,
        digits,
    };
    let least = verdict(LEAST, least_ms, Reach::MoreThan(0.0), ("ms", 1));
    if least.holds() == Some(false) {
        return least;
    }
    verdict("worst error", worst_error, contest.reach(), ("%", 2))
}

/// The figure that no share makes up for.
const LEAST: &str = "least time of a class in a second";

/// What was to be reached, and whether it was: a small error, and no class without time.
fn judge(contest: &Contest, worst_error: Option<f64>, least_ms: Option<f64>) -> (Cell, Cell) {
    let verdict = verdict(contest, worst_error, least_ms);
    let words = match verdict.holds() {
        Some(true) => "holds",
        Some(false) if verdict.what == LEAST => "missed: a class had nothing",
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

/// Weight beside what was measured, class by class, for each contest of equal polls.
fn plots(contests: &[Contest], samples: &[Sample]) -> Vec<Plot> {
    let plain = |contest: &Contest| contest.polls == Polls::Equal && contest.hogs.is_none();
    let most = contests
        .iter()
        .map(|contest| contest.workers)
        .max()
        .unwrap_or(1);
    let own = contests.iter().enumerate().filter(|(_, contest)| {
        contest.peer == Peer::Evenkeel && plain(contest) && contest.workers == most
    });
    let plot = |(index, contest): (usize, &Contest)| {
        let ours = found(samples, index).next()?.split()?;
        let peers = contests.iter().enumerate().filter(|(_, other)| {
            other.peer != Peer::Evenkeel && plain(other) && other.weights == contest.weights
        });
        let peers: Vec<(&str, &Split)> = peers
            .filter_map(|(index, other)| {
                Some((other.peer.name(), found(samples, index).next()?.split()?))
            })
            .collect();
        let group = |class: usize| {
            let mut bars = vec![
                ("weight".to_owned(), ours.due_percent[class]),
                ("evenkeel".to_owned(), ours.had_percent[class]),
            ];
            let had =
                |(name, split): &(&str, &Split)| ((*name).to_owned(), split.had_percent[class]);
            bars.extend(peers.iter().map(had));
            (ClassName::numbered(class).as_str().to_owned(), bars)
        };
        Some(Plot::Bars {
            title: format!(
                "{}, {} workers: weight, and time over all",
                contest.ratio(),
                contest.workers
            ),
            unit: "%".to_owned(),
            log: false,
            endless: String::new(),
            groups: (0..contest.weights.0.len()).map(group).collect(),
        })
    };
    own.filter_map(plot).collect()
}

fn notes(lab: &Lab) -> Vec<String> {
    let mut notes = lab.lineup.missing.clone();
    notes.push(
        "Endless hogs never return from their one poll. Tasks count their own work in steps of at \
         most 100 us, so that the column of their count checks the accounts. Go and Erlang have no \
         shares either; Tokio stands for those who split by tasks."
            .to_owned(),
    );
    notes
}

fn raw(contests: &[Contest], samples: &[Sample]) -> serde_json::Value {
    let sample = |sample: &Sample| {
        let contest = &contests[sample.contest];
        let found = sample.found.as_ref().ok();
        json!({
            "peer": contest.peer.name(),
            "workers": contest.workers,
            "weights": contest.weights.0,
            "polls": contest.polls.word(),
            "hogs": contest.hogs.map(|poll| poll.to_string()),
            "round": sample.round,
            "by_accounts": found.and_then(|found| found.by_accounts.as_ref()),
            "by_work": found.and_then(|found| found.by_work.as_ref()),
            "readings": found.map(|found| &found.readings.readings),
            "error": sample.found.as_ref().err(),
        })
    };
    samples.iter().map(sample).collect()
}

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
