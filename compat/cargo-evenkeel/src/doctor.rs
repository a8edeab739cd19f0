//! `cargo evenkeel doctor`: what a build would do, and what to mend before.

use cargo_metadata::{Metadata, Package};
use std::process::ExitCode;

use crate::call::Options;
use crate::command::hear_signals;
use crate::config::Config;
use crate::copy::Copy;
use crate::error::Error;
use crate::graph::{self, users_of};
use crate::lock::{self, OwnLock, Turn};
use crate::patches::{OURS, Patches};
use crate::permanent::Permanent;
use crate::project::Project;
use crate::toolchain::rustc_version;

/// Packages that are named before the rest is counted.
const NAMED_MAX: usize = 6;

/// What is served by Tokio's own parts, for each feature that brings it.
const TOKIOS_OWN: [(&str, &str); 5] = [
    ("fs", "files (its blocking threads)"),
    ("io-uring", "io_uring (its driver)"),
    ("process", "processes that nobody waits for (its driver)"),
    ("signal", "signals (its driver)"),
    ("test-util", "paused clocks"),
];

/// What switches on Tokio's unstable interface.
const UNSTABLE: &str = "tokio_unstable";

/// How bad a finding is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mark {
    /// As it should be.
    Good,
    /// Worth knowing.
    Note,
    /// A build fails.
    Wrong,
}

/// What was found so far, printed as it comes.
struct Report {
    wrong: usize,
}

/// Examines the project, and prints what it finds.
///
/// # Errors
///
/// If there is no project.
pub fn run(options: Options) -> Result<ExitCode, Error> {
    let project = Project::find(options)?;
    let turn = Turn::take(&project)?;
    let mut report = Report { wrong: 0 };
    report.toolchain();
    // Each step rests on the ones before; what fails says what to do.
    if let Err(error) = examine(&project, turn, &mut report) {
        report.line(Mark::Wrong, subject_of(&error), &error.to_string());
    }
    report.environment(project.config());
    Ok(report.end())
}

fn examine(project: &Project, turn: Turn, report: &mut Report) -> Result<(), Error> {
    project.check_config()?;
    if let Some(made) = Permanent::read(&project.root)? {
        if let Some(defect) = made.defect(project)? {
            return Err(Error::NotCurrent { defect });
        }
        let patches = made.patches();
        report.tokio(&patches.copy, project);
        report.good(
            "init",
            "permanent and current; plain cargo builds on Evenkeel as well",
        );
        report.graph(&project.check_permanent(&patches)?, &patches);
        return Ok(());
    }
    let upstream = project.tokio()?;
    let copy = Copy::prepare(&upstream, &project.target)?;
    report.tokio(&copy, project);
    report.good(
        "init",
        "not made; `cargo evenkeel init` makes Evenkeel permanent here",
    );
    project.check_writable()?;
    _ = hear_signals()?;
    let mut patches = Patches::of(project, copy)?;
    let has_own = !patches.sources().is_empty();
    let replaced = has_own.then(|| lock::keep(project, Project::resolve));
    let replaced = replaced.transpose()?;
    let _lock = OwnLock::put(turn, project, &patches.copy)?;
    report.graph(&project.check(&mut patches)?, &patches);
    for other in replaced.iter().flat_map(|graph| patches.others(graph)) {
        report.compare(other, &patches);
    }
    Ok(())
}

/// The word that an error is listed under.
fn subject_of(error: &Error) -> &'static str {
    match error {
        Error::Rule { .. } => "rules",
        Error::AnotherTokio { .. }
        | Error::AnotherEvenkeel { .. }
        | Error::LeftOut { .. }
        | Error::NothingAbove { .. }
        | Error::Unresolved { .. }
        | Error::Cargo(_) => "graph",
        Error::Patched { .. } => "config",
        Error::NotCurrent { .. } | Error::Block { .. } => "init",
        Error::ReadOnly { .. } | Error::File { .. } | Error::Toml { .. } => "files",
        _ => "tokio",
    }
}

impl Report {
    fn good(&mut self, subject: &str, text: &str) {
        self.line(Mark::Good, subject, text);
    }

    /// Prints a finding. What comes on further lines is what to do.
    fn line(&mut self, mark: Mark, subject: &str, text: &str) {
        let word = match mark {
            Mark::Good => "ok",
            Mark::Note => "note",
            Mark::Wrong => "WRONG",
        };
        self.wrong += usize::from(mark == Mark::Wrong);
        let mut lines = text.lines();
        println!("{word:<6}{subject:<10}{}", lines.next().unwrap_or_default());
        for line in lines {
            println!("{:<16}{line}", "");
        }
    }

    fn toolchain(&mut self) {
        let needed = env!("CARGO_PKG_RUST_VERSION");
        let is_enough = |found: &semver::Version| {
            let parts = needed.split('.').map(|part| part.parse().unwrap_or(0));
            parts.cmp([found.major, found.minor]).is_le()
        };
        match rustc_version() {
            Some((found, host)) if is_enough(&found) => {
                self.good("rust", &format!("{found} for {host}"));
            }
            Some((found, _)) => self.line(
                Mark::Wrong,
                "rust",
                &format!(
                    "{found} is too old\nTake {needed} or newer: cargo evenkeel +stable build"
                ),
            ),
            None => self.line(
                Mark::Wrong,
                "rust",
                "`rustc -vV` says nothing that can be read\nLook what `rustc` is on this machine.",
            ),
        }
    }

    fn tokio(&mut self, copy: &Copy, project: &Project) {
        let lock = project.lock();
        self.good("tokio", &format!("{} in {}", copy.version, lock.display()));
        let place = copy.folder.display();
        self.good("rules", &format!("all fit; the copy is in {place}"));
    }

    fn graph(&mut self, metadata: &Metadata, patches: &Patches) {
        let ours = patches.copy.package("tokio");
        let tokio =
            (metadata.packages.iter()).find(|package| package.manifest_path.starts_with(&ours));
        let Some(tokio) = tokio else {
            let text = "nothing here uses tokio with these features, on this platform";
            return self.line(Mark::Note, "graph", text);
        };
        let users = named(users_of(metadata, &tokio.id));
        self.good("graph", &format!("one tokio, used by {users}"));
        self.evenkeel(metadata, patches);
        // An optional dependency is a feature as well, which nobody asks for.
        let is_asked_for = |name: &&str| {
            let mut needs = tokio.dependencies.iter();
            *name != "default" && !needs.any(|need| need.optional && need.name == *name)
        };
        let mut features = graph::features_of(metadata, &tokio.id);
        features.retain(is_asked_for);
        self.features(&features);
    }

    /// The project's own Evenkeel, if it has one.
    fn evenkeel(&mut self, metadata: &Metadata, patches: &Patches) {
        let Some(ours) = graph::evenkeel(metadata, &patches.copy) else {
            return;
        };
        let users = users_of(metadata, &ours.id);
        let sources: Vec<_> = patches.sources().iter().map(String::as_str).collect();
        let text = format!(
            "the one beneath tokio, used by {}\nIt is {OURS} as this program has it, in the place \
             of that from {}.",
            named(users),
            sources.join(", "),
        );
        self.good("evenkeel", &text);
        let places = graph::places_of(metadata, "hyper");
        if !places.is_empty() {
            let text = format!(
                "is asked for `hyper` in {}\nIts sockets lack hyper's traits here; what takes one \
                 is to be given TokioIo::new(socket), of hyper-util.",
                places.join(", "),
            );
            self.line(Mark::Note, "evenkeel", &text);
        }
    }

    fn compare(&mut self, replaced: &Package, patches: &Patches) {
        if patches.differs(replaced) {
            let text = format!(
                "is not the one in {}\nIf the program needs that one, install cargo-evenkeel from \
                 the same revision.",
                replaced.manifest_path.with_file_name(""),
            );
            self.line(Mark::Note, "evenkeel", &text);
        }
    }

    fn features(&mut self, features: &[&str]) {
        let has = |name: &str| features.contains(&name);
        let all = features.join(", ");
        if !has("rt-multi-thread") {
            let text = format!(
                "{all}\nWithout rt-multi-thread, the program runs on Tokio itself. Ask for it in \
                 the manifest, and\nuse a multi-thread runtime, such as that of #[tokio::main]."
            );
            return self.line(Mark::Note, "features", &text);
        }
        self.good("features", &all);
        let own = TOKIOS_OWN.iter().filter(|(feature, _)| has(feature));
        let own: Vec<_> = own.map(|(_, what)| *what).collect();
        let more = if own.is_empty() {
            String::new()
        } else {
            format!("{}; ", own.join(", "))
        };
        let text = format!("{more}current-thread runtimes, if there are any");
        self.good("by tokio", &text);
    }

    fn environment(&mut self, config: &Config) {
        for (name, value) in std::env::vars_os() {
            let (name, value) = (name.to_string_lossy(), value.to_string_lossy());
            if name == "EVENKEEL" && value == "off" {
                let text = "=off: programs that are started here run on Tokio\n\
                            For Evenkeel: unset EVENKEEL";
                self.line(Mark::Note, "EVENKEEL", text);
            } else if name.starts_with("EVENKEEL") {
                self.line(Mark::Note, &name, &format!("={value}"));
            }
        }
        if let Some((subject, place)) = flags_with(UNSTABLE, config) {
            let text = format!(
                "{place}has {UNSTABLE}, of which Evenkeel does little (hooks, figures)\n\
                 What it adds may do nothing; see compat/README.md."
            );
            self.line(Mark::Note, subject, &text);
        }
    }

    fn end(&self) -> ExitCode {
        if self.wrong == 0 {
            println!("ready: `cargo evenkeel build` can be run");
            return ExitCode::SUCCESS;
        }
        println!("not ready: mend what is WRONG, and ask again");
        ExitCode::FAILURE
    }
}

/// Where the compiler is given this flag: the subject, and more words if it needs them. As with
/// cargo, two variables take the place of the configuration; the others are a part of it.
fn flags_with(flag: &str, config: &Config) -> Option<(&'static str, String)> {
    for name in ["CARGO_ENCODED_RUSTFLAGS", "RUSTFLAGS"] {
        if let Some(flags) = std::env::var_os(name) {
            let has = flags.to_string_lossy().contains(flag);
            return has.then(|| (name.trim_start_matches("CARGO_ENCODED_"), String::new()));
        }
    }
    let of_environment = std::env::vars_os().find_map(|(name, flags)| {
        let name = name.into_string().ok()?;
        let sets_flags = name == "CARGO_BUILD_RUSTFLAGS"
            || name.starts_with("CARGO_TARGET_") && name.ends_with("_RUSTFLAGS");
        (sets_flags && flags.to_string_lossy().contains(flag)).then_some(name)
    });
    let place =
        of_environment.or_else(|| Some(format!("rustflags in {}", config.has_rustflag(flag)?)));
    Some(("config", place? + " "))
}

/// Some of these, and how many more there are.
fn named(mut names: Vec<String>) -> String {
    names.sort();
    names.dedup();
    let more = names.len().saturating_sub(NAMED_MAX);
    names.truncate(NAMED_MAX);
    let names = names.join(", ");
    if more == 0 {
        names
    } else {
        format!("{names} and {more} more")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_list_is_cut() {
        let names = |count: usize| (0..count).map(|at| format!("p{at}")).collect();
        assert_eq!(named(names(2)), "p0, p1");
        assert_eq!(named(names(8)), "p0, p1, p2, p3, p4, p5 and 2 more");
    }
}
