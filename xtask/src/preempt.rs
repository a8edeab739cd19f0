//! The integration tests of the runtime, with pauses at random wherever threads meet: see
//! `crates/evenkeel/src/sync/preempt.rs`. What fails is named with its seed, and with the command
//! that runs it again.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::cargo::{self, Cargo};
use crate::programs::{self, Ended, Program};

/// How many seeds are tried, if not said otherwise.
pub(crate) const SEEDS: u64 = 100;

/// The longest a test program may take with one seed. The slowest is meant to need a fifth of this.
pub(crate) const CAP: Duration = Duration::from_secs(300);

/// The runtime reads its seed from here.
const SEED_VARIABLE: &str = "EVENKEEL_PREEMPT_SEED";

/// What runs no runtime: it compares what errors say.
const LEFT_OUT: [&str; 1] = ["errors"];

/// Tests that are left out unless they are named. They say what a worker or the heavy pool does
/// with polls that are short, with polls that compute and are not blocked, or with a worker that is
/// idle or never sleeps. A pause makes a poll long, and it is a sleep.
const LEFT_OUT_TESTS: [&str; 13] = [
    "a_full_pool_takes_no_more_threads_and_says_so_and_all_goes_on_when_a_hog_ends",
    "a_known_hog_is_polled_in_the_heavy_pool_and_comes_back_when_its_polls_are_short",
    "a_task_that_no_thread_of_the_pool_can_take_does_not_stop_other_classes",
    "a_worker_that_is_kept_from_sleeping_by_events_has_it_seldom",
    "adaptive_is_immediate_while_the_worker_is_idle",
    "fresh_tasks_from_a_place_whose_tasks_hog_start_in_the_heavy_pool_until_they_do_no_more",
    "names_and_classes_of_one_line_are_told_apart",
    "silent_connections_cost_no_sweep",
    "tasks_that_are_aborted_before_their_first_poll_say_nothing_of_their_place",
    "tasks_that_are_aborted_behind_hogs_that_do_not_return_are_dropped_all_the_same",
    "tasks_that_are_trusted_to_block_and_compute_take_few_threads",
    "the_drop_of_a_hog_that_waits_may_use_the_runtime",
    "threads_that_are_blocked_have_a_bound_and_when_it_is_reached_it_is_said",
];

/// What to run.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Options {
    first: u64,
    seeds: u64,
    words: Vec<String>,
}

impl Options {
    /// Reads what follows `cargo xtask preempt`.
    pub(crate) fn parse(words: &[&str]) -> Result<Self, String> {
        let mut options = Self {
            first: 1,
            seeds: SEEDS,
            words: Vec::new(),
        };
        let mut said = false;
        let mut rest = words.iter();
        while let Some(&word) = rest.next() {
            let mut number = || {
                let text = rest.next().copied().unwrap_or_default();
                let advice = format!("`{word} {text}` names no number; see `cargo xtask help`");
                text.parse().map_err(|_| advice)
            };
            match word {
                "--seeds" => (options.seeds, said) = (number()?, true),
                // A seed without a number of them is one to be run again.
                "--seed" => {
                    options.first = number()?;
                    options.seeds = if said { options.seeds } else { 1 };
                }
                _ if word.starts_with('-') => {
                    return Err(format!("`{word}` is not known; see `cargo xtask help`"));
                }
                _ => options.words.push(word.to_owned()),
            }
        }
        Ok(options)
    }
}

/// One test program's failure with one seed.
struct Failure {
    seed: u64,
    program: String,
    /// What failed, or did not end.
    tests: Vec<String>,
    why: String,
}

/// Builds the tests with pauses in them, and runs them with one seed after the other.
pub(crate) fn run(options: &Options) -> Result<()> {
    let (programs, filters) = programs::select(build()?, &options.words)?;
    let logs = cargo::target_dir().join("preempt/logs");
    std::fs::create_dir_all(&logs).with_context(|| format!("cannot make {}", logs.display()))?;
    let began = Instant::now();
    let mut failures = Vec::new();
    for turn in 0..options.seeds {
        let (seed, seed_began) = (options.first.wrapping_add(turn), Instant::now());
        let outcomes =
            programs::side_by_side(&programs, |program| run_one(program, &filters, seed, &logs));
        let failed = outcomes.into_iter().filter_map(Result::transpose);
        let failed = failed.collect::<Result<Vec<Failure>>>()?;
        println!(
            "seed {seed} ({} of {}): {} of {} programs passed, in {:.0} s",
            turn + 1,
            options.seeds,
            programs.len() - failed.len(),
            programs.len(),
            seed_began.elapsed().as_secs_f64()
        );
        failures.extend(failed);
    }
    println!(
        "\n{} seeds in {:.0} s",
        options.seeds,
        began.elapsed().as_secs_f64()
    );
    for failure in &failures {
        println!("  {}", line_about(failure));
    }
    let seeds = failures.iter().map(|failure| failure.seed);
    let seeds: std::collections::BTreeSet<u64> = seeds.collect();
    ensure!(
        failures.is_empty(),
        "tests failed with {} of {} seeds; the logs are in {}",
        seeds.len(),
        options.seeds,
        logs.display()
    );
    Ok(())
}

fn line_about(failure: &Failure) -> String {
    format!(
        "{}: {}; again: cargo xtask preempt --seed {} {} {}",
        failure.program,
        failure.why,
        failure.seed,
        failure.program,
        failure.tests.join(" ")
    )
}

fn build() -> Result<Vec<Program>> {
    let with_pauses = |line: &str| {
        Cargo::new(line)
            .env("RUSTFLAGS", "--cfg evenkeel_preempt")
            // With frames and speed as they are in programs; stacks of tests are small.
            .env("CARGO_PROFILE_DEV_OPT_LEVEL", "1")
            // Enough for backtraces, and a third of the time to link.
            .env("CARGO_PROFILE_DEV_DEBUG", "line-tables-only")
            .target_dir(&cargo::target_dir().join("preempt"))
    };
    // The tests start the examples as programs.
    with_pauses("build --package evenkeel --all-features --examples")?.run()?;
    let mut programs = programs::build(with_pauses(
        "test --package evenkeel --all-features --tests --no-run",
    )?)?;
    programs.retain(|program| !LEFT_OUT.contains(&program.name.as_str()));
    // The unit tests, of which most know one thread, and some what is in a queue at what moment.
    programs.retain(|program| program.name != "evenkeel");
    Ok(programs)
}

/// Runs a program with a seed, and prints what failed as soon as it does.
fn run_one(
    program: &Program,
    filters: &[String],
    seed: u64,
    logs: &Path,
) -> Result<Option<Failure>> {
    let log = logs.join(format!("{}.{seed}.log", program.name));
    let mut command = program.command();
    command.args(filters).env(SEED_VARIABLE, seed.to_string());
    // With each seed anew, so it need not be long.
    command.env("EVENKEEL_SOAK_SECONDS", "2");
    if filters.is_empty() {
        command.args(LEFT_OUT_TESTS.iter().flat_map(|test| ["--skip", test]));
    }
    let ended = programs::run(&mut command, &log, CAP)?;
    let text = String::from_utf8_lossy(&std::fs::read(&log).unwrap_or_default()).into_owned();
    let (why, tests, threads) = match ended {
        Ended::Passed => {
            // Only what failed is of interest afterwards; that it stays is no failure.
            let _ = std::fs::remove_file(&log);
            return Ok(None);
        }
        // A test that hangs may end its program, and fails so without a word of the harness's.
        Ended::Failed(status) => match results(&text, "FAILED") {
            failed if failed.is_empty() => {
                let left = unfinished(program, filters, &text)?;
                (status.to_string(), left, String::new())
            }
            failed => (status.to_string(), failed, String::new()),
        },
        Ended::Stopped(threads) => {
            let left = unfinished(program, filters, &text)?;
            (
                format!("not through after {} s", CAP.as_secs()),
                left,
                threads,
            )
        }
    };
    let program = program.name.clone();
    let failure = Failure {
        seed,
        program,
        tests,
        why,
    };
    println!(
        "FAILED: {}\n{threads}    log: {}",
        line_about(&failure),
        log.display()
    );
    Ok(Some(failure))
}

/// The tests of which the harness's output says nothing.
fn unfinished(program: &Program, filters: &[String], log: &str) -> Result<Vec<String>> {
    let done = results(log, "");
    let mut left = program.tests(filters)?;
    let left_out = |test: &str| filters.is_empty() && LEFT_OUT_TESTS.contains(&test);
    left.retain(|test| !done.contains(test) && !left_out(test));
    Ok(left)
}

/// The tests in the harness's output of which it says so; with an empty word, all that ended.
fn results(log: &str, word: &str) -> Vec<String> {
    log.lines()
        .filter_map(|line| line.strip_prefix("test ")?.split_once(" ... "))
        .filter(|(_, said)| !said.is_empty() && said.starts_with(word))
        // What `should_panic` adds to a name is no part of it.
        .map(|(name, _)| name.split(' ').next().unwrap_or(name).to_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Options, String> {
        Options::parse(&line.split_whitespace().collect::<Vec<_>>())
    }

    #[test]
    fn seeds_and_filters_are_understood() {
        let options = |first, seeds, words: &[&str]| Options {
            first,
            seeds,
            words: words.iter().map(|&word| word.to_owned()).collect(),
        };
        assert_eq!(parsed(""), Ok(options(1, SEEDS, &[])));
        assert_eq!(parsed("--seed 7 a b"), Ok(options(7, 1, &["a", "b"])));
        assert_eq!(parsed("--seeds 3 --seed 7"), Ok(options(7, 3, &[])));
        assert_eq!(parsed("--seed 7 --seeds 3"), Ok(options(7, 3, &[])));
        for line in ["--seed", "--seed x", "--seeds -1", "--fast"] {
            parsed(line).expect_err(line);
        }
    }

    #[test]
    fn results_are_read_from_the_log() {
        let log =
            "running 3 tests\ntest a::b ... ok\ntest c - should panic ... FAILED\ntest d ... ";
        assert_eq!(results(log, "FAILED"), ["c"]);
        assert_eq!(results(log, ""), ["a::b", "c"]);
    }
}
