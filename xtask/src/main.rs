//! What the project checks of itself: `cargo xtask ci` runs it all, `cargo xtask help` explains.

mod breaks;
mod cargo;
mod chaos;
mod compare;
mod compat;
mod fuzz;
mod h2spec;
mod models;
mod preempt;
mod programs;
mod sanitize;
mod steps;
mod suite;
mod tidy;
mod tools;
mod trained;

use std::process::ExitCode;

/// What the command line asked for.
#[derive(Debug, PartialEq, Eq)]
enum Request {
    Help,
    List,
    Everything,
    One(String),
    Compare(compare::Options),
    Compat(Vec<String>),
    Chaos(u32),
    Burst(u64),
    Preempt(preempt::Options),
    Sanitize(sanitize::Options),
    Breaks(breaks::Options),
    Fuzz(fuzz::Options),
    EachFeature,
    EachDropIn,
    H2spec(Vec<String>),
    Trained,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match parse(&arguments) {
        Ok(Request::Help) => {
            print!("{}", help());
            Ok(())
        }
        Ok(Request::List) => {
            print!("{}", steps::list());
            Ok(())
        }
        Ok(Request::Everything) => steps::run_all(),
        Ok(Request::One(name)) => steps::run_one(&name),
        Ok(Request::Compare(options)) => compare::run(&options),
        Ok(Request::Compat(options)) => compat::whole(&options),
        Ok(Request::Chaos(rounds)) => chaos::run(rounds),
        Ok(Request::Burst(seed)) => chaos::burst(seed),
        Ok(Request::Preempt(options)) => preempt::run(&options),
        Ok(Request::Sanitize(options)) => sanitize::run(&options),
        Ok(Request::Breaks(options)) => breaks::run(&options),
        Ok(Request::Fuzz(options)) => fuzz::run(&options),
        Ok(Request::EachFeature) => steps::each_feature(),
        Ok(Request::EachDropIn) => compat::each(),
        Ok(Request::H2spec(sections)) => h2spec::run(&sections),
        Ok(Request::Trained) => trained::run(),
        Err(advice) => {
            eprintln!("error: {advice}");
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("\nerror: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Reads the arguments after `cargo xtask`; the error says what would have been right.
fn parse(arguments: &[String]) -> Result<Request, String> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        [] | ["help" | "--help" | "-h"] | [_, "--help" | "-h"] => Ok(Request::Help),
        ["ci"] => Ok(Request::Everything),
        ["ci", "--list"] => Ok(Request::List),
        ["compare", rest @ ..] => compare::Options::parse(rest).map(Request::Compare),
        // Who runs it knows its options.
        ["compat", rest @ ..] => Ok(Request::Compat(
            rest.iter().map(|word| (*word).to_owned()).collect(),
        )),
        ["h2spec", rest @ ..] => Ok(Request::H2spec(
            rest.iter().map(|word| (*word).to_owned()).collect(),
        )),
        ["chaos"] => Ok(Request::Chaos(chaos::ROUNDS)),
        ["chaos", rounds] => match rounds.parse() {
            Ok(rounds @ 1..=1_000) => Ok(Request::Chaos(rounds)),
            _ => Err(format!(
                "`{rounds}` is no number of rounds from 1 to 1000; `cargo xtask help` says more"
            )),
        },
        ["preempt", rest @ ..] => preempt::Options::parse(rest).map(Request::Preempt),
        ["sanitize", rest @ ..] => sanitize::Options::parse(rest).map(Request::Sanitize),
        ["breaks", rest @ ..] => breaks::Options::parse(rest).map(Request::Breaks),
        ["fuzz", rest @ ..] => fuzz::Options::parse(rest).map(Request::Fuzz),
        ["trained"] => Ok(Request::Trained),
        ["features", "--each"] => Ok(Request::EachFeature),
        ["drop-in", "--each"] => Ok(Request::EachDropIn),
        // What `chaos` starts; not for people.
        ["burst", seed] if seed.parse::<u64>().is_ok() => {
            Ok(Request::Burst(seed.parse().unwrap_or_default()))
        }
        [name] if steps::find(name).is_some() => Ok(Request::One((*name).to_owned())),
        _ => Err(format!(
            "`cargo xtask {}` is not known; `cargo xtask help` lists what is",
            words.join(" ")
        )),
    }
}

fn help() -> String {
    format!(
        "\
What the project checks of itself.

    cargo xtask ci           every step below, up to the first failure; some 25 minutes
    cargo xtask ci --list    the steps, and nothing is run
    cargo xtask <step>       one step alone: the quick way back after a failure
    cargo xtask compare <revision> [rounds] [--json FILE]
                             the runtime of this tree beside that of a revision, alternating in
                             one process, in the scheduler's benchmarks and beneath servers: what
                             a change costs; the table as JSON, too; by default {} rounds, some
                             30 seconds once both are built; needs git and tar
    cargo xtask compare --accounts [rounds] [--json FILE]
                             this tree beside itself without accounts: what the statistics cost
    cargo xtask chaos [rounds]
                             all tests while processors are taken away in random bursts, once by
                             default; Linux with taskset and chrt, and root for the priority
    cargo xtask preempt [--seeds N] [--seed S] [name...]
                             the integration tests with random pauses wherever threads meet, with
                             {} seeds; --seed alone runs one again; names are of test programs, or
                             parts of tests' names
    cargo xtask sanitize [address|thread] [--sample] [name...]
                             the tests under AddressSanitizer and ThreadSanitizer; Linux with
                             glibc, and a stable toolchain with their runtimes, as rustup's is;
                             --sample is quick: some tests under ThreadSanitizer
    cargo xtask breaks [--list] [--sample] [word...]
                             breaks a copy of the code on purpose, in all ways that breaks/ holds,
                             and requires that tests fail; words are parts of what is broken, or
                             of tests' names
    cargo xtask fuzz PROPERTY [--seconds N] [FILE...]
                             bytes that libFuzzer makes up, for a minute or N seconds: request,
                             answer, chunks, proxy-header, configuration, conversion, and
                             connection, for a whole proxy; of the camera server cameras:wire,
                             server, client, passwords, description, media, packets, index,
                             recovery, configuration, offer and datagrams; FILEs are checked again;
                             Linux with glibc, a C++ compiler, and a stable toolchain with
                             AddressSanitizer
    cargo xtask features --each
                             as the step, each feature of evenkeel alone, and txlog without NATS
    cargo xtask drop-in --each
                             as the step `drop-in`, and all else in compat/ that takes ten minutes
    cargo xtask compat [--only PART...] [--list] [--page]
                             other people's code on Evenkeel, of which the step `drop-in` has a
                             sample: Tokio's own tests, those of crates, programs, services under
                             load; writes docs/compat.md; takes more than an hour, or can be made
                             in pieces
    cargo xtask h2spec [SECTION...]
                             the proxy's HTTP/2 by h2spec, which Go builds; all, or http2/6.9
    cargo xtask trained      the proxy, built by what it does most: with counters, under a load,
                             and anew by what was counted; needs llvm-profdata and h2load
    cargo xtask help         this text

Steps:
{}
The model tests try thread interleavings with up to {} preemptions each. Set
{} to look deeper; a model that needs more than {} s is
stopped and counts as failed, since what it did not try it did not check.
Set CARGO_TARGET_DIR to build elsewhere than in target/.
",
        compare::ROUNDS,
        preempt::SEEDS,
        steps::list(),
        models::PREEMPTIONS_MAX,
        models::PREEMPTIONS_VARIABLE,
        models::CAP.as_secs(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Request, String> {
        parse(
            &line
                .split_whitespace()
                .map(str::to_owned)
                .collect::<Vec<_>>(),
        )
    }

    #[test]
    fn the_command_line_is_understood() {
        assert_eq!(parsed(""), Ok(Request::Help));
        assert_eq!(parsed("tidy --help"), Ok(Request::Help));
        assert_eq!(parsed("ci"), Ok(Request::Everything));
        assert_eq!(parsed("ci --list"), Ok(Request::List));
        assert!(matches!(
            parsed("compare HEAD 160"),
            Ok(Request::Compare(_))
        ));
        assert!(matches!(
            parsed("compare --accounts"),
            Ok(Request::Compare(_))
        ));
        assert_eq!(parsed("chaos"), Ok(Request::Chaos(chaos::ROUNDS)));
        assert_eq!(parsed("chaos 3"), Ok(Request::Chaos(3)));
        let only = ["--only", "tokio/1.54"].map(str::to_owned).to_vec();
        assert_eq!(
            parsed("compat --only tokio/1.54"),
            Ok(Request::Compat(only))
        );
        assert_eq!(parsed("tidy"), Ok(Request::One("tidy".to_owned())));
        assert_eq!(parsed("features --each"), Ok(Request::EachFeature));
        assert_eq!(parsed("drop-in --each"), Ok(Request::EachDropIn));
        let sections = vec!["http2/6.9".to_owned()];
        assert_eq!(parsed("h2spec http2/6.9"), Ok(Request::H2spec(sections)));
    }

    #[test]
    fn an_unknown_word_is_refused_with_advice() {
        for line in [
            "nonsense",
            "ci --fast",
            "tidy now",
            "compare",
            "compare HEAD 1",
            "chaos 0",
            "burst x",
            "preempt --seeds",
            "sanitize --fast",
            "breaks --fast",
        ] {
            let advice = parsed(line).expect_err(line);
            assert!(advice.contains("cargo xtask help"), "{advice}");
        }
    }

    #[test]
    fn the_help_names_every_step() {
        for step in steps::STEPS {
            assert!(
                help().contains(step.name),
                "{} is not in the help",
                step.name
            );
        }
    }
}
