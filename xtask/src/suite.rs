//! The workspace's tests: built by one command of cargo's, then run with a limit for each program.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::cargo::{self, Cargo};
use crate::programs::{self, Ended, Program};

/// The longest a program may take. The slowest is meant to need a fifth of this.
const CAP: Duration = Duration::from_secs(600);

/// The packages whose tests wait for disks, for other processes and for compilers more than they
/// look at what workers do: as many of their programs run at a time as there are cores. Others have
/// the machine for themselves.
const SIDE_BY_SIDE: [&str; 9] = [
    "cameras",
    "evenkeel-cli",
    "evenkeel-macros",
    "lab",
    "proxy",
    "servers-common",
    "txlog",
    "txlog-client",
    "xtask",
];

/// Runs all of them, and says at the end which have failed.
pub(crate) fn run() -> Result<()> {
    // Tests start the examples as programs, and cargo builds those only when asked to.
    Cargo::new("build --workspace --all-features --examples").run()?;
    let all = "test --workspace --all-features --lib --bins --tests --no-run";
    let programs = programs::build(Cargo::new(all))?;
    let logs = cargo::target_dir().join("test-logs");
    // Logs of an earlier run are not to be taken for this one's.
    let _ = std::fs::remove_dir_all(&logs);
    std::fs::create_dir_all(&logs).with_context(|| format!("cannot make {}", logs.display()))?;
    let libraries = libraries()?;
    let (waiting, alone): (Vec<&Program>, Vec<&Program>) =
        (programs.iter()).partition(|program| SIDE_BY_SIDE.contains(&&*package(program)));
    let mut outcomes: Vec<_> = (alone.iter())
        .map(|program| run_one(program, &logs, &libraries))
        .collect();
    outcomes.extend(programs::side_by_side(&waiting, |program| {
        run_one(program, &logs, &libraries)
    }));
    let failed: Vec<String> = outcomes.into_iter().filter_map(Result::err).collect();
    ensure!(
        failed.is_empty(),
        "{} of {} test programs:\n{}",
        failed.len(),
        programs.len(),
        failed.join("\n")
    );
    Ok(())
}

/// Where the compiler's libraries are. The tests of a macro's package are linked to them.
fn libraries() -> Result<PathBuf> {
    let output = Command::new("rustc")
        .args(["--print", "target-libdir"])
        .output();
    let output = output.context("cannot run rustc")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "rustc --print target-libdir: {said}"
    );
    let path = String::from_utf8(output.stdout).context("rustc's answer is not UTF-8")?;
    Ok(PathBuf::from(path.trim()))
}

/// The package's folder, which has its name.
fn package(program: &Program) -> Cow<'_, str> {
    program
        .folder
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
}

fn run_one(program: &Program, logs: &Path, libraries: &Path) -> Result<(), String> {
    let what = format!("{} {}", package(program), program.name);
    // A package's library and its program may have one name, and their files do not.
    let file = program.path.file_name().unwrap_or_default();
    let log = logs.join(file).with_extension("log");
    let began = Instant::now();
    let mut command = program.command();
    command
        .env("LD_LIBRARY_PATH", libraries)
        // What cargo would tell it. Ours is in the environment, as cargo has started us.
        .env("CARGO_MANIFEST_DIR", &program.folder);
    let ended = programs::run(&mut command, &log, CAP);
    let took = began.elapsed().as_secs_f64();
    let said = std::fs::read_to_string(&log).unwrap_or_default();
    let failure = match ended {
        Ok(Ended::Passed) => {
            println!("{what}: {} in {took:.1} s", passed(&said));
            return Ok(());
        }
        Ok(Ended::Failed(status)) => format!("{what}: {status}"),
        Ok(Ended::Stopped(threads)) => {
            format!("{what}: stopped after {took:.0} s; its threads:\n{threads}")
        }
        Err(error) => format!("{what}: {error:#}"),
    };
    println!("{what}: FAILED after {took:.1} s\n{said}");
    Err(format!("{failure}; see {}", log.display()))
}

/// How many tests have passed, as the program says.
fn passed(said: &str) -> String {
    let mut lines = said.lines().rev();
    let counts = lines.find_map(|line| line.strip_prefix("test result: ok. "));
    counts
        .and_then(|counts| counts.split(';').next())
        .unwrap_or("ok")
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_of_passed_tests_is_read_from_what_a_program_says() {
        let said = "running 2 tests\n\ntest result: ok. 2 passed; 0 failed; finished in 0.1s\n";
        assert_eq!(passed(said), "2 passed");
        assert_eq!(passed("nothing of that"), "ok");
    }

    #[test]
    fn who_fails_is_named_with_its_log() {
        let folder = std::env::temp_dir().join(format!("xtask-tests-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let program = |path: &str| Program {
            name: "it".to_owned(),
            path: path.into(),
            folder: folder.clone(),
        };
        let passed = run_one(&program("/bin/true"), &folder, &folder);
        let failed = run_one(&program("/bin/false"), &folder, &folder);
        let absent = run_one(&program("/nowhere/at/all"), &folder, &folder);
        std::fs::remove_dir_all(&folder).unwrap();
        passed.unwrap();
        let failed = failed.unwrap_err();
        assert!(failed.contains(" it: exit status: 1; see "), "{failed}");
        absent.unwrap_err();
    }
}
