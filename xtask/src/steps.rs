//! The steps of `cargo xtask ci`: what each is for, and in which order they run.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::cargo::{self, Cargo};
use crate::{breaks, compat, models, suite, tidy, tools};

/// One thing the project checks of itself.
pub(crate) struct Step {
    pub(crate) name: &'static str,
    about: &'static str,
    run: fn() -> Result<()>,
}

/// In the order they run: what fails fastest comes first, what takes longest last.
pub(crate) const STEPS: &[Step] = &[
    Step {
        name: "fmt",
        about: "the code is formatted by rustfmt, and no file has stray spaces",
        run: fmt,
    },
    Step {
        name: "tidy",
        about: "the house rules that no other tool knows",
        run: tidy::run,
    },
    Step {
        name: "spelling",
        about: "no word is misspelled, nothing marked for later",
        run: tools::spelling,
    },
    Step {
        name: "markdown",
        about: "pages are sound, and their links lead somewhere",
        run: tools::markdown,
    },
    Step {
        name: "deny",
        about: "licenses and sources of dependencies; advisories on them",
        run: tools::deny,
    },
    Step {
        name: "clippy",
        about: "no lint, in any target with any feature",
        run: clippy,
    },
    Step {
        name: "features",
        about: "evenkeel without features, txlog without NATS",
        run: features,
    },
    Step {
        name: "doc",
        about: "the documentation builds, every link resolves",
        run: doc,
    },
    Step {
        name: "test",
        about: "unit and integration tests, examples included",
        run: suite::run,
    },
    Step {
        name: "doctest",
        about: "the examples in the documentation run",
        run: doctest,
    },
    Step {
        name: "model",
        about: "the concurrent cores under every interleaving",
        run: models::run,
    },
    Step {
        name: "broken",
        about: "some of the breaks, which tests have to see",
        run: breaks::sample,
    },
    Step {
        name: "drop-in",
        about: "Tokio projects build and run on Evenkeel, unchanged; a sample of `compat`",
        run: compat::sample,
    },
];

/// The step called `name`.
pub(crate) fn find(name: &str) -> Option<&'static Step> {
    STEPS.iter().find(|step| step.name == name)
}

/// The steps, a line each.
pub(crate) fn list() -> String {
    STEPS.iter().fold(String::new(), |mut text, step| {
        writeln!(text, "    {:<10}{}", step.name, step.about).expect("a String takes all");
        text
    })
}

/// Runs the step called `name`, which [`find`] knows.
pub(crate) fn run_one(name: &str) -> Result<()> {
    let step = find(name).with_context(|| format!("there is no step {name}"))?;
    (step.run)()
}

/// Runs every step until one fails, and ends with how long each took.
pub(crate) fn run_all() -> Result<()> {
    let started = Instant::now();
    let mut table = String::new();
    for (index, step) in STEPS.iter().enumerate() {
        println!(
            "\n== {}/{} {}: {}",
            index + 1,
            STEPS.len(),
            step.name,
            step.about
        );
        let step_started = Instant::now();
        let outcome = (step.run)();
        let took = step_started.elapsed();
        if let Err(error) = outcome {
            eprintln!("\n== {} FAILED after {}", step.name, seconds(took));
            bail!("{error:#}\nrerun it with: cargo xtask {}", step.name);
        }
        println!("== {} ok in {}", step.name, seconds(took));
        writeln!(table, "  {:<10}{:>9}", step.name, seconds(took)).expect("a String takes all");
    }
    println!(
        "\nAll {} steps passed in {}:\n{table}",
        STEPS.len(),
        seconds(started.elapsed())
    );
    for (program, what) in tools::missing(&std::env::var_os("PATH").unwrap_or_default()) {
        eprintln!("NOT CHECKED: {what}, as {program} is not installed");
    }
    Ok(())
}

fn seconds(duration: Duration) -> String {
    format!("{:.1} s", duration.as_secs_f64())
}

fn fmt() -> Result<()> {
    Cargo::new("fmt --all --check")
        .run()
        .context("not formatted (`cargo fmt --all` mends it)")?;
    tools::whitespace()
}

/// Also in the builds whose configuration has code of its own.
fn clippy() -> Result<()> {
    Cargo::new("clippy --workspace --all-targets --all-features -- -D warnings").run()?;
    for build in ["evenkeel_preempt", "evenkeel_tsan", "evenkeel_no_accounts"] {
        Cargo::new(&format!(
            "clippy --package evenkeel --lib --all-features -- --cfg {build} -D warnings"
        ))
        .run()?;
    }
    // Dependencies differ in this one, so cargo has to know of it, too. All of it is tests.
    Cargo::new("clippy --package evenkeel --lib --profile test")
        .target_dir(&cargo::target_dir().join("loom"))?
        .env("RUSTFLAGS", "--cfg evenkeel_loom")
        .arg("--")
        .arg("-Dwarnings")
        .run()
}

fn doc() -> Result<()> {
    Cargo::new("doc --no-deps --workspace --all-features")
        .env("RUSTDOCFLAGS", "-D warnings")
        .run()
}

fn doctest() -> Result<()> {
    Cargo::new("test --workspace --all-features --doc").run()
}

/// Clippy rather than `check`: it also refuses the warnings that a missing feature brings
/// (an import or a function nobody uses), and shares what the clippy step has compiled.
fn features() -> Result<()> {
    selected("--no-default-features")?;
    Cargo::new("clippy --package txlog --no-default-features --all-targets -- -D warnings").run()
}

/// Each feature alone, and what txlog says without NATS. That takes minutes, which is too long for
/// every change.
pub(crate) fn each_feature() -> Result<()> {
    let manifest = cargo::root().join("crates/evenkeel/Cargo.toml");
    let text = std::fs::read_to_string(&manifest)
        .with_context(|| format!("cannot read {}", manifest.display()))?;
    for selection in selections(&feature_names(&text)?) {
        selected(&selection)?;
    }
    features()?;
    Cargo::new("test --package txlog --no-default-features --test nats_without").run()
}

fn selected(features: &str) -> Result<()> {
    let line = format!("clippy --package evenkeel {features} -- -D warnings");
    Cargo::new(&line).run()
}

/// The names in a manifest's `[features]`, but for `default`.
fn feature_names(manifest: &str) -> Result<Vec<String>> {
    let document =
        toml_edit::Document::parse(manifest).context("evenkeel's manifest is no TOML")?;
    let table = document
        .get("features")
        .and_then(toml_edit::Item::as_table_like);
    let table = table.context("evenkeel's manifest has no [features]")?;
    Ok(table
        .iter()
        .map(|(name, _)| name.to_owned())
        .filter(|name| name != "default")
        .collect())
}

/// The feature arguments to try: each alone, all.
fn selections(names: &[String]) -> Vec<String> {
    let alone = names.iter();
    let alone = alone.map(|name| format!("--no-default-features --features {name}"));
    alone.chain(["--all-features".to_owned()]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn step_names_are_unique() {
        for (index, step) in STEPS.iter().enumerate() {
            assert!(
                STEPS[..index].iter().all(|other| other.name != step.name),
                "{}",
                step.name
            );
        }
    }

    #[test]
    fn every_feature_is_tried_alone() {
        let manifest = "[features]\ndefault = [\"a\"]\na = []\nb = [\"dep:b\"]\n";
        assert_eq!(
            selections(&feature_names(manifest).unwrap()),
            [
                "--no-default-features --features a",
                "--no-default-features --features b",
                "--all-features",
            ]
        );
    }

    #[test]
    fn a_manifest_without_features_is_an_error() {
        feature_names("[package]\nname = \"a\"\n").expect_err("nothing would be checked");
    }
}
