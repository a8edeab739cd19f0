//! The tests of crates that stand on Tokio.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use cargo_evenkeel::config::cargo_home;
use cargo_evenkeel::mode::Mode;
use serde::{Deserialize, Serialize};

use crate::{Error, limited};

/// A crate is built and tested this long in one mode, at most: four times what all crates together
/// build for on a quiet machine. A test that hangs holds up the others for as long.
const LIMIT: Duration = Duration::from_secs(40 * 60);

/// `suites.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Suites {
    suite: Vec<Suite>,
}

/// A crate whose published package has its tests.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Suite {
    name: String,
    version: String,
    /// For `cargo test`.
    arguments: Vec<String>,
    /// Variables that its tests need.
    #[serde(default)]
    environment: BTreeMap<String, String>,
    /// What its tests use besides, as in a manifest. A path is from the folder of `suites.toml`.
    #[serde(default)]
    dev_dependencies: BTreeMap<String, toml::Table>,
    /// Which of its tests are not run, and why.
    without: Option<String>,
    /// Those that fail with current-thread runtimes on Evenkeel too.
    #[serde(default)]
    known: Vec<Known>,
}

/// Tests that are known to fail, always or now and then.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Known {
    tests: Vec<String>,
    /// The reason.
    why: String,
}

/// What came of a crate's tests: by name, whether each passed.
pub(crate) type Outcomes = BTreeMap<String, bool>;

#[derive(Serialize, Deserialize)]
pub(crate) struct Report {
    pub(crate) name: String,
    pub(crate) version: String,
    /// With multi-thread runtimes on Evenkeel.
    pub(crate) on: Outcomes,
    /// With current-thread runtimes on Evenkeel too.
    pub(crate) forced: Outcomes,
    /// With Tokio itself.
    pub(crate) off: Outcomes,
    /// What failed as expected when forced, and why.
    pub(crate) known: BTreeMap<String, String>,
    /// Which tests were not run, and why.
    pub(crate) without: Option<String>,
}

/// Whether nothing failed that passes on Tokio.
pub(crate) fn run(target: &Path, json: Option<&Path>, names: &[String]) -> Result<bool, Error> {
    let suite = listed()?;
    let is_known = |name: &&String| !suite.iter().any(|suite| suite.name == **name);
    if let Some(name) = names.iter().find(is_known) {
        return Err(format!("there is no `{name}` in suites.toml").into());
    }
    fs::create_dir_all(target)?;
    let target = target.canonicalize()?;
    let mut reports = Vec::new();
    for suite in suite {
        if names.is_empty() || names.contains(&suite.name) {
            let report = suite.run(&target)?;
            report.print();
            reports.push(report);
        }
    }
    if let Some(path) = json {
        fs::write(path, serde_json::to_string_pretty(&reports)?)?;
    }
    Ok(reports.iter().all(|report| report.lost().next().is_none()))
}

fn listed() -> Result<Vec<Suite>, Error> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("suites.toml");
    let Suites { suite } = toml::from_str(&fs::read_to_string(path)?)?;
    Ok(suite)
}

/// The crates of `suites.toml`.
pub(crate) fn names() -> Result<Vec<String>, Error> {
    Ok(listed()?.into_iter().map(|suite| suite.name).collect())
}

impl Suite {
    fn run(self, target: &Path) -> Result<Report, Error> {
        let archive = self.fetch(target)?;
        let forced = self.test(&archive, target, Mode::Forced)?;
        Ok(Report {
            on: self.test(&archive, target, Mode::Routed)?,
            off: self.test(&archive, target, Mode::Off)?,
            known: self.known(&forced),
            forced,
            name: self.name,
            version: self.version,
            without: self.without,
        })
    }

    /// Has cargo fetch the published package, and says where it is.
    fn fetch(&self, target: &Path) -> Result<PathBuf, Error> {
        let (name, version) = (&self.name, &self.version);
        let fetch = target.join("fetch");
        fs::create_dir_all(fetch.join("src"))?;
        fs::write(fetch.join("src/lib.rs"), "")?;
        let manifest = format!(
            "[workspace]\n[package]\nname = \"fetch\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\
             [dependencies]\n{name} = \"={version}\"\n"
        );
        fs::write(fetch.join("Cargo.toml"), manifest)?;
        // What was locked for another crate is no concern of this one.
        let _ = fs::remove_file(fetch.join("Cargo.lock"));
        succeed(Command::new("cargo").arg("fetch").current_dir(&fetch))?;
        archive(&format!("{name}-{version}.crate"))
    }

    /// Writes the package below `target`, as a project of its own. Each time anew, as tests may
    /// change what is there, such as a database.
    fn unpack(&self, archive: &Path, target: &Path) -> Result<PathBuf, Error> {
        let packages = target.join("packages");
        let package = packages.join(format!("{}-{}", self.name, self.version));
        let lock = package.join("Cargo.lock");
        let locked = fs::read(&lock).ok();
        if package.is_dir() {
            fs::remove_dir_all(&package)?;
        }
        let bytes = flate2::read::GzDecoder::new(fs::File::open(archive)?);
        tar::Archive::new(bytes).unpack(packages)?;
        // The newest of everything, as a new project has, and the compiler that is used here.
        for name in ["Cargo.lock", "rust-toolchain.toml"] {
            let _ = fs::remove_file(package.join(name));
        }
        // The same for both runs.
        if let Some(locked) = locked {
            fs::write(lock, locked)?;
        }
        let manifest = package.join("Cargo.toml");
        let text = fs::read_to_string(&manifest)?;
        fs::write(&manifest, text + "\n[workspace]\n" + &self.besides()?)?;
        Ok(package)
    }

    /// The part of a manifest that its tests need besides.
    fn besides(&self) -> Result<String, Error> {
        if self.dev_dependencies.is_empty() {
            // A manifest may have the table already, and not twice.
            return Ok(String::new());
        }
        let mut besides = self.dev_dependencies.clone();
        for path in besides
            .values_mut()
            .filter_map(|table| table.get_mut("path"))
        {
            let from = Path::new(env!("CARGO_MANIFEST_DIR"));
            *path = format!("{}/{}", from.display(), path.as_str().unwrap_or_default()).into();
        }
        Ok(toml::to_string(&BTreeMap::from([(
            "dev-dependencies",
            besides,
        )]))?)
    }

    /// Of what failed, that which is known to, and why.
    fn known(&self, outcomes: &Outcomes) -> BTreeMap<String, String> {
        let known = (self.known.iter()).flat_map(|known| {
            known
                .tests
                .iter()
                .map(|test| (test.clone(), known.why.clone()))
        });
        known
            .filter(|(test, _)| outcomes.get(test) == Some(&false))
            .collect()
    }

    fn test(&self, archive: &Path, target: &Path, mode: Mode) -> Result<Outcomes, Error> {
        eprintln!("{} {}, {}", self.name, self.version, mode.says());
        let package = self.unpack(archive, target)?;
        let mut command = Command::new(crate::cargo_evenkeel()?);
        command
            .args(["evenkeel", "test", "--no-fail-fast"])
            .args(&self.arguments)
            .current_dir(package)
            .envs(mode.environment())
            .envs(&self.environment)
            .env("CARGO_TARGET_DIR", target.join("build"))
            .env("CARGO_PROFILE_TEST_DEBUG", "0");
        let what = format!("the tests of {}, {},", self.name, mode.says());
        let said = limited::run(&mut command, LIMIT, &what)?;
        let outcomes = outcomes(&said.output);
        if outcomes.is_empty() {
            let errors = said.errors;
            return Err(format!("the tests of {} cannot be built:\n{errors}", self.name).into());
        }
        Ok(outcomes)
    }
}

/// Where cargo keeps what it has fetched.
fn archive(name: &str) -> Result<PathBuf, Error> {
    let home = cargo_home().ok_or("there is no HOME")?;
    for registry in fs::read_dir(home.join("registry/cache"))? {
        let path = registry?.path().join(name);
        if path.is_file() {
            return Ok(path);
        }
    }
    Err(format!("cargo has not fetched {name}").into())
}

fn succeed(command: &mut Command) -> Result<(), Error> {
    if command.status()?.success() {
        Ok(())
    } else {
        Err(format!("{command:?} failed").into())
    }
}

/// What tests said. Those of several programs may have one name: it passed if all did. A program
/// that ends early has a test that has not ended, or none.
fn outcomes(said: &str) -> Outcomes {
    let mut outcomes = Outcomes::new();
    for line in said.lines() {
        let test = line
            .strip_prefix("test ")
            .and_then(|test| test.split_once(" ... "));
        if let Some((name, how)) = test
            && !how.starts_with("ignored")
        {
            let passed = outcomes.entry(name.to_owned()).or_insert(true);
            *passed &= how.starts_with("ok");
        }
    }
    outcomes
}

impl Report {
    /// Tests that pass on Tokio, and fail or are missing on Evenkeel, but for those that are known
    /// to when forced.
    pub(crate) fn lost(&self) -> impl Iterator<Item = &str> {
        let passed = |outcomes: &Outcomes, name: &str| outcomes.get(name) == Some(&true);
        let is_lost = move |name: &&String| {
            let is_fine_forced = passed(&self.forced, name) || self.known.contains_key(*name);
            passed(&self.off, name) && !(passed(&self.on, name) && is_fine_forced)
        };
        self.off.keys().filter(is_lost).map(String::as_str)
    }

    fn print(&self) {
        let of = |outcomes: &Outcomes| {
            let passed = outcomes.values().filter(|&&passed| passed).count();
            format!("{passed} of {}", outcomes.len())
        };
        println!(
            "{} {}: {} pass on Evenkeel, {} with current-thread runtimes too, {} on Tokio",
            self.name,
            self.version,
            of(&self.on),
            of(&self.forced),
            of(&self.off),
        );
        if let Some(why) = &self.without {
            println!("    without {why}");
        }
        for (name, why) in &self.known {
            println!("    known: {name}: {why}");
        }
        for name in self.lost() {
            println!("    fails on Evenkeel alone: {name}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(on: &str, forced: &str, off: &str) -> Report {
        Report {
            name: String::new(),
            version: String::new(),
            on: outcomes(on),
            forced: outcomes(forced),
            off: outcomes(off),
            known: BTreeMap::from([("known".to_owned(), "why".to_owned())]),
            without: None,
        }
    }

    #[test]
    fn a_test_is_lost_that_fails_or_is_missing_on_one_side_alone() {
        let off = "test a ... ok\ntest b ... ok\ntest c ... FAILED\ntest d ... ok\n";
        let on = "test a ... ok\ntest b ... FAILED\ntest c ... FAILED\n";
        let lost = |report: Report| report.lost().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(lost(report(on, off, off)), ["b", "d"]);
        assert_eq!(lost(report(off, on, off)), ["b", "d"]);
        assert!(lost(report(off, off, on)).is_empty());
    }

    #[test]
    fn what_is_known_to_fail_is_known_only_when_forced() {
        let [good, bad] = ["test known ... ok\n", "test known ... FAILED\n"];
        assert_eq!(report(good, bad, good).lost().count(), 0);
        assert_eq!(report(bad, good, good).lost().count(), 1);
    }

    #[test]
    fn one_name_in_two_programs_passes_if_both_do() {
        let both = outcomes("test a ... ok\ntest a ... FAILED\ntest b ... ignored, slow\n");
        assert_eq!(both, Outcomes::from([("a".to_owned(), false)]));
    }
}
