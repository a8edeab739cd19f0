//! The tests under the compiler's sanitizers: AddressSanitizer with its look for leaks, and
//! ThreadSanitizer.
//!
//! Both take switches of the compiler that are not stable, which `RUSTC_BOOTSTRAP` lets a stable
//! one take. The standard library is the one that comes compiled, without instrumentation: what
//! ThreadSanitizer has to know of it, it hears through `crates/evenkeel/src/sync/tsan.rs`, and what
//! is left to pass over stands in `xtask/sanitizers/`, with a reason for each line.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::cargo::{self, Cargo};
use crate::programs::{self, Ended, Program};

/// The longest a test program may take.
const CAP: Duration = Duration::from_secs(600);

/// The sample, for ThreadSanitizer: where threads meet most.
const SAMPLE: [&str; 4] = ["blocking_lanes", "handoff", "net_tcp", "runtime_progress"];

/// What runs no runtime, but compares what errors say; and what counts system calls, or
/// descriptors, as ThreadSanitizer opens some to the program that tells it the names of functions.
const LEFT_OUT: [&str; 6] = [
    "errors",
    "fs_descriptors",
    "handoff_leaves_nothing",
    "net_descriptors",
    "net_syscalls",
    "runtime_leaves_nothing",
];
/// What of this is left out under AddressSanitizer, too.
const LEFT_OUT_ALWAYS: [&str; 1] = ["errors"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sanitizer {
    Address,
    Thread,
}

/// What to run.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Options {
    sanitizers: Vec<Sanitizer>,
    is_sample: bool,
    words: Vec<String>,
}

impl Options {
    /// Reads what follows `cargo xtask sanitize`.
    pub(crate) fn parse(words: &[&str]) -> Result<Self, String> {
        let mut options = Self {
            sanitizers: Vec::new(),
            is_sample: false,
            words: Vec::new(),
        };
        for &word in words {
            match word {
                "address" => options.sanitizers.push(Sanitizer::Address),
                "thread" => options.sanitizers.push(Sanitizer::Thread),
                "--sample" => options.is_sample = true,
                _ if word.starts_with('-') => {
                    return Err(format!("`{word}` is not known; see `cargo xtask help`"));
                }
                _ => options.words.push(word.to_owned()),
            }
        }
        if options.sanitizers.is_empty() {
            options.sanitizers = match options.is_sample {
                true => vec![Sanitizer::Thread],
                false => vec![Sanitizer::Address, Sanitizer::Thread],
            };
        }
        Ok(options)
    }
}

/// Builds the tests with each sanitizer and runs them.
pub(crate) fn run(options: &Options) -> Result<()> {
    let tools = Tools::find(&options.sanitizers)?;
    let mut failed = Vec::new();
    for &sanitizer in &options.sanitizers {
        failed.extend(run_under(sanitizer, options, &tools)?);
    }
    ensure!(
        failed.is_empty(),
        "{} test programs:\n{}",
        failed.len(),
        failed.join("\n")
    );
    Ok(())
}

fn run_under(sanitizer: Sanitizer, options: &Options, tools: &Tools) -> Result<Vec<String>> {
    let folder = cargo::target_dir().join("sanitize").join(sanitizer.name());
    let programs = build(sanitizer, options.is_sample, tools, &folder)?;
    let (programs, filters) = programs::select(programs, &options.words)?;
    let logs = folder.join("logs");
    // Reports of an earlier run are not to be taken for this one's.
    let _ = std::fs::remove_dir_all(&logs);
    std::fs::create_dir_all(&logs).with_context(|| format!("cannot make {}", logs.display()))?;
    let outcomes = programs::side_by_side(&programs, |program| {
        run_one(sanitizer, program, &filters, &logs)
    });
    let failed = outcomes.into_iter().filter_map(Result::err);
    Ok(failed.map(|error| format!("{error:#}")).collect())
}

/// What sanitizers need and not every system has.
struct Tools {
    /// The target, which has to be named: else the flags would be for build scripts, too.
    target: String,
}

impl Tools {
    fn find(sanitizers: &[Sanitizer]) -> Result<Self> {
        let asked = |argument: [&str; 2]| -> Result<String> {
            let output = Command::new("rustc").args(argument).output();
            let output = output.context("cannot run rustc")?;
            String::from_utf8(output.stdout).context("rustc's answer is not UTF-8")
        };
        let target = asked(["--print", "host-tuple"])?.trim().to_owned();
        ensure!(
            target.contains("-linux-gnu"),
            "sanitizers are set up for Linux with glibc, and this is {target}"
        );
        let libraries = PathBuf::from(asked(["--print", "target-libdir"])?.trim());
        for sanitizer in sanitizers {
            let suffix = format!("_rt.{}.a", sanitizer.short());
            let files = std::fs::read_dir(&libraries)
                .with_context(|| format!("cannot read {}", libraries.display()))?;
            let is_runtime = |name: &str| name.starts_with("librustc") && name.ends_with(&suffix);
            ensure!(
                files
                    .flatten()
                    .any(|file| is_runtime(&file.file_name().to_string_lossy())),
                "this toolchain comes without {suffix} in {}; those of rustup have it",
                libraries.display()
            );
        }
        Ok(Self { target })
    }
}

impl Sanitizer {
    fn name(self) -> &'static str {
        match self {
            Self::Address => "address",
            Self::Thread => "thread",
        }
    }

    fn short(self) -> &'static str {
        match self {
            Self::Address => "asan",
            Self::Thread => "tsan",
        }
    }

    fn flags(self) -> &'static str {
        match self {
            Self::Address => "-Zsanitizer=address -Cunsafe-allow-abi-mismatch=sanitizer",
            // Generic code is compiled anew, with instrumentation, even if the standard library
            // has the same.
            Self::Thread => {
                "-Zsanitizer=thread -Cunsafe-allow-abi-mismatch=sanitizer -Zshare-generics=n \
                 --cfg evenkeel_tsan -Clink-arg=-Wl,--wrap=__tsan_atomic64_fetch_sub"
            }
        }
    }

    /// Variables for a program: where it reports, and what it passes over.
    fn variables(self, reports: &Path) -> Vec<(&'static str, String)> {
        let list = |name: &str| cargo::root().join("xtask/sanitizers").join(name);
        match self {
            Self::Address => vec![
                ("ASAN_OPTIONS", format!("log_path={}", reports.display())),
                (
                    "LSAN_OPTIONS",
                    format!(
                        "print_suppressions=0:suppressions={}",
                        list("leaks.txt").display()
                    ),
                ),
            ],
            // A process that ends may have threads that nobody waits for.
            Self::Thread => vec![(
                "TSAN_OPTIONS",
                format!(
                    "report_thread_leaks=0:log_path={}:suppressions={}",
                    reports.display(),
                    list("races.txt").display()
                ),
            )],
        }
    }
}

fn build(
    sanitizer: Sanitizer,
    is_sample: bool,
    tools: &Tools,
    folder: &Path,
) -> Result<Vec<Program>> {
    let instrumented = |line: &str| {
        Cargo::new(line)
            .arg("--target")
            .arg(&tools.target)
            .env("RUSTC_BOOTSTRAP", "1")
            .env("RUSTFLAGS", sanitizer.flags())
            // Instrumented code is slow without, and shows the same.
            .env("CARGO_PROFILE_DEV_OPT_LEVEL", "1")
            .env("CARGO_PROFILE_DEV_DEBUG", "line-tables-only")
            .target_dir(folder)
    };
    if is_sample {
        let mut line = "test --package evenkeel --all-features --no-run --lib".to_owned();
        for program in SAMPLE {
            line.push_str(" --test ");
            line.push_str(program);
        }
        return programs::build(instrumented(&line)?);
    }
    let packages = "--package evenkeel --package txlog --package txlog-client --all-features";
    // The tests start the examples as programs.
    instrumented(&format!("build {packages} --examples"))?.run()?;
    let tests = format!("test {packages} --lib --bins --tests --no-run");
    let mut programs = programs::build(instrumented(&tests)?)?;
    let left_out: &[&str] = match sanitizer {
        Sanitizer::Address => &LEFT_OUT_ALWAYS,
        Sanitizer::Thread => &LEFT_OUT,
    };
    programs.retain(|program| !left_out.contains(&program.name.as_str()));
    Ok(programs)
}

/// Runs one program. Fails if a test fails, and if it or a program that it started reports.
fn run_one(sanitizer: Sanitizer, program: &Program, filters: &[String], logs: &Path) -> Result<()> {
    let began = Instant::now();
    let (log, reports) = (
        logs.join(format!("{}.log", program.name)),
        logs.join(format!("{}.report", program.name)),
    );
    let mut command = program.command();
    command.args(filters).envs(sanitizer.variables(&reports));
    // The standard library's printing of backtraces is not instrumented: two panics at a time would
    // be reported as a race.
    command.env("RUST_BACKTRACE", "0");
    let ended = programs::run(&mut command, &log, CAP)?;
    let reports = reports_at(&reports)?;
    let took = began.elapsed().as_secs_f64();
    let what = format!("{} under the {} sanitizer", program.name, sanitizer.name());
    for report in &reports {
        println!("{}", std::fs::read_to_string(report).unwrap_or_default());
    }
    if reports.is_empty() && matches!(ended, Ended::Passed) {
        println!("{what}: ok in {took:.1} s");
        return Ok(());
    }
    println!("{what}: FAILED after {took:.1} s");
    if reports.is_empty() {
        println!("{}", std::fs::read_to_string(&log).unwrap_or_default());
    }
    match ended {
        _ if !reports.is_empty() => bail!("{what}: see {}", reports[0].display()),
        Ended::Stopped(_) => bail!("{what}: not through after {} s", CAP.as_secs()),
        _ => bail!("{what}: a test failed; see {}", log.display()),
    }
}

/// The files of reports whose names begin so: each process adds its number.
fn reports_at(beginning: &Path) -> Result<Vec<PathBuf>> {
    let folder = beginning.parent().context("logs have a folder")?;
    let name = beginning.file_name().unwrap_or_default().to_string_lossy();
    let files = std::fs::read_dir(folder).context("cannot read the reports")?;
    let paths = files.flatten().map(|file| file.path());
    Ok(paths
        .filter(|path| {
            let own = path.file_name().unwrap_or_default().to_string_lossy();
            own.strip_prefix(&*name)
                .is_some_and(|rest| rest.starts_with('.'))
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Options, String> {
        Options::parse(&line.split_whitespace().collect::<Vec<_>>())
    }

    #[test]
    fn sanitizers_and_filters_are_understood() {
        use Sanitizer::{Address, Thread};
        assert_eq!(parsed("").unwrap().sanitizers, [Address, Thread]);
        assert_eq!(parsed("thread a").unwrap().sanitizers, [Thread]);
        assert_eq!(parsed("thread a").unwrap().words, ["a"]);
        assert!(parsed("address --sample").unwrap().is_sample);
        assert_eq!(parsed("--sample").unwrap().sanitizers, [Thread]);
        parsed("--fast").expect_err("it is not known");
    }

    #[test]
    fn the_reports_of_a_program_are_its_own() {
        let folder = std::env::temp_dir().join(format!("xtask-reports-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        for name in [
            "net.report.12",
            "net.report.13",
            "net_tcp.report.14",
            "net.log",
        ] {
            std::fs::write(folder.join(name), "").unwrap();
        }
        let found = reports_at(&folder.join("net.report")).unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(found.len(), 2, "{found:?}");
    }
}
