//! Programs of the registry, unchanged, each driven by a script.

mod build;
mod databases;
mod dns;
mod http;
mod jobs;
mod messages;
mod origin;
mod process;
mod report;
mod stage;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use cargo_evenkeel::mode::Mode;
use serde::{Deserialize, Serialize};

use crate::Error;
use stage::Stage;

/// Nothing failed, but something could not be tried.
const INCOMPLETE: u8 = 3;

/// What is driven.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Where to build.
    #[arg(long, default_value = "target/trials")]
    target: PathBuf,
    /// Build with optimisations.
    #[arg(long)]
    release: bool,
    /// Drive what an earlier run has built.
    #[arg(long)]
    built: bool,
    /// Write what came of each here, as JSON.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Which; without any, all of `programs.toml`.
    names: Vec<String>,
}

/// `programs.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Programs {
    program: Vec<Program>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Program {
    name: String,
    #[serde(default)]
    packages: Vec<Package>,
    /// One of our own takes part.
    #[serde(default)]
    own: bool,
    /// All its runtimes are of one thread.
    #[serde(default)]
    one_thread: bool,
}

/// A published one.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Package {
    name: String,
    version: String,
    /// For `cargo install`.
    #[serde(default)]
    arguments: Vec<String>,
}

/// Why a script has ended early.
pub(crate) enum Failure {
    /// A program has not come up, has not ended, or has ended otherwise than it should.
    NotRun(String),
    /// A program has answered, but not what was expected.
    Wrong(String),
    /// A server that the script needs is not installed.
    Missing(String),
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::NotRun(error.to_string())
    }
}

type Script = fn(&mut Stage) -> Result<(), Failure>;

/// What came of a program in a mode.
#[derive(Serialize)]
struct Outcome {
    program: String,
    mode: Mode,
    built: bool,
    ran: bool,
    answered_right: bool,
    /// Why it was not tried.
    left_out: Option<String>,
    /// What was expected otherwise.
    error: Option<String>,
    /// What each process says that was done for it.
    used: Vec<report::Used>,
}

pub(crate) fn main(options: &Options) -> ExitCode {
    run(options).unwrap_or_else(|error| {
        eprintln!("error: {error}");
        ExitCode::FAILURE
    })
}

fn run(options: &Options) -> Result<ExitCode, Error> {
    let chosen = chosen(&options.names)?;
    fs::create_dir_all(&options.target)?;
    let builder = build::Builder::new(&options.target.canonicalize()?, options.release)?;
    let mut outcomes = Vec::new();
    for program in &chosen {
        let script = script(&program.name).ok_or("a program in programs.toml has no script")?;
        let built = match options.built {
            true => Ok(()),
            false => builder.build(program),
        };
        for mode in Mode::ALL {
            let outcome = match &built {
                Ok(()) => program.play(&builder, mode, script)?,
                Err(error) => program.outcome(mode, Some(error.to_string())),
            };
            outcome.print();
            outcomes.push(outcome);
        }
    }
    if let Some(path) = &options.json {
        fs::write(path, serde_json::to_string_pretty(&outcomes)?)?;
    }
    Ok(conclude(&outcomes))
}

fn chosen(names: &[String]) -> Result<Vec<Program>, Error> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let Programs { program } = toml::from_str(&fs::read_to_string(folder.join("programs.toml"))?)?;
    let is_missing = |name: &&String| !program.iter().any(|program| program.name == **name);
    if let Some(name) = names.iter().find(is_missing) {
        return Err(format!("there is no `{name}` in programs.toml").into());
    }
    let is_chosen = |program: &Program| names.is_empty() || names.contains(&program.name);
    Ok(program.into_iter().filter(is_chosen).collect())
}

fn script(name: &str) -> Option<Script> {
    Some(match name {
        "redis" => messages::redis,
        "mqtt" => messages::mqtt,
        "nats" => messages::nats,
        "grpc" => messages::grpc,
        "files" => http::files,
        "jobs" => jobs::jobs,
        "dns" => dns::dns,
        "webdav" => http::webdav,
        "graphql" => http::graphql,
        "proxy" => http::proxy,
        "tunnel" => http::tunnel,
        "database" => databases::postgres,
        _ => return None,
    })
}

fn conclude(outcomes: &[Outcome]) -> ExitCode {
    let failed = outcomes.iter().filter(|it| it.error.is_some()).count();
    let left_out = outcomes.iter().filter(|it| it.left_out.is_some()).count();
    let right = outcomes.len() - failed - left_out;
    println!("{right} answered right, {failed} failed, {left_out} left out");
    match (failed, left_out) {
        (0, 0) => ExitCode::SUCCESS,
        (0, _) => ExitCode::from(INCOMPLETE),
        _ => ExitCode::FAILURE,
    }
}

impl Program {
    fn play(&self, builder: &build::Builder, mode: Mode, script: Script) -> Result<Outcome, Error> {
        let mut stage = Stage::new(builder.folders(), mode)?;
        let played = script(&mut stage);
        let used = stage.into_used();
        let played = played.and_then(|()| self.check_beneath(mode, &used));
        let mut outcome = self.outcome(mode, None);
        outcome.built = true;
        outcome.used = used;
        match played {
            Ok(()) => (outcome.ran, outcome.answered_right) = (true, true),
            Err(Failure::NotRun(why)) => outcome.error = Some(why),
            Err(Failure::Wrong(why)) => (outcome.ran, outcome.error) = (true, Some(why)),
            Err(Failure::Missing(why)) => outcome.left_out = Some(why),
        }
        Ok(outcome)
    }

    /// The reports have to say of the mode what is true of it. Processes that a signal has ended
    /// say nothing.
    fn check_beneath(&self, mode: Mode, used: &[report::Used]) -> Result<(), Failure> {
        let Some(found) = report::runtimes(used) else {
            return Ok(());
        };
        let expected = match mode {
            Mode::Routed => !self.one_thread,
            Mode::Forced => true,
            Mode::Off => false,
        };
        if (found > 0) == expected {
            return Ok(());
        }
        let wanted = if expected { "some" } else { "none" };
        Err(Failure::Wrong(format!(
            "{found} runtimes were on Evenkeel; expected {wanted}"
        )))
    }

    fn outcome(&self, mode: Mode, error: Option<String>) -> Outcome {
        Outcome {
            program: self.name.clone(),
            mode,
            built: false,
            ran: false,
            answered_right: false,
            left_out: None,
            error,
            used: Vec::new(),
        }
    }
}

impl Outcome {
    fn print(&self) {
        let place = format!("{}, {}", self.program, self.mode.says());
        let word = |is, word: &'static str| if is { word } else { "" };
        match (&self.left_out, &self.error) {
            (Some(why), _) => println!("{place}: left out: {why}"),
            (None, Some(why)) => {
                let done = [word(self.built, "built, "), word(self.ran, "ran, ")].concat();
                println!("{place}: {done}FAILED: {why}");
            }
            (None, None) => println!("{place}: built, ran, answered right"),
        }
        for used in &self.used {
            println!("    {used}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_program_has_a_script() {
        for program in chosen(&[]).unwrap() {
            assert!(script(&program.name).is_some(), "{}", program.name);
            assert!(program.own || !program.packages.is_empty());
        }
        assert!(chosen(&["none".to_owned()]).is_err());
    }

    #[test]
    fn what_was_left_out_is_no_success() {
        let program = chosen(&["redis".to_owned()]).unwrap().remove(0);
        let right = || program.outcome(Mode::Off, None);
        let failed = program.outcome(Mode::Off, Some("no answer".into()));
        let mut left_out = right();
        left_out.left_out = Some("a server is missing".into());
        let code = |outcomes: &[Outcome]| format!("{:?}", conclude(outcomes));
        assert_eq!(code(&[right()]), format!("{:?}", ExitCode::SUCCESS));
        let all = [right(), left_out, failed];
        assert_eq!(code(&all[..2]), format!("{:?}", ExitCode::from(INCOMPLETE)));
        assert_eq!(code(&all), format!("{:?}", ExitCode::FAILURE));
    }
}
