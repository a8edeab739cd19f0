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

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use cargo_evenkeel::mode::Mode;
use serde::{Deserialize, Serialize};

use crate::Error;
use report::{Beneath, Used};
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
    /// Files of programs whose runtimes are all of one thread.
    #[serde(default)]
    one_thread: Vec<String>,
    /// Files of programs that have nothing of Evenkeel's in them.
    #[serde(default)]
    on_tokio: Vec<String>,
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
    used: Vec<Used>,
    /// The programs that ran on Evenkeel, and those that did not.
    on_evenkeel: BTreeSet<String>,
    on_tokio: BTreeSet<String>,
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
    let mut outcomes = Vec::<Outcome>::new();
    for program in &chosen {
        let script = script(&program.name).ok_or("a program in programs.toml has no script")?;
        let built = match options.built {
            true => Ok(()),
            false => builder.build(program),
        };
        let first = outcomes.len();
        // All on Tokio comes first.
        for mode in Mode::ALL {
            let off = outcomes.get(first).map_or(&[][..], |off| &off.used);
            let outcome = match &built {
                Ok(()) => program.play(&builder, mode, script, off)?,
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
    fn play(
        &self,
        builder: &build::Builder,
        mode: Mode,
        script: Script,
        off: &[Used],
    ) -> Result<Outcome, Error> {
        let mut stage = Stage::new(builder.folders(), mode)?;
        let played = script(&mut stage);
        let mut outcome = self.outcome(mode, None);
        outcome.built = true;
        outcome.used = stage.into_used();
        // Of the mode itself nothing else is known.
        let off = match mode {
            Mode::Off => &outcome.used[..],
            Mode::Routed | Mode::Forced => off,
        };
        for used in &outcome.used {
            let names = match used.beneath(off) {
                Some(Beneath::Evenkeel) => &mut outcome.on_evenkeel,
                Some(Beneath::Tokio) => &mut outcome.on_tokio,
                None => continue,
            };
            names.insert(used.program().to_owned());
        }
        let played = played.and_then(|()| self.check_beneath(mode, &outcome.used, off));
        match played {
            Ok(()) => (outcome.ran, outcome.answered_right) = (true, true),
            Err(Failure::NotRun(why)) => outcome.error = Some(why),
            Err(Failure::Wrong(why)) => (outcome.ran, outcome.error) = (true, Some(why)),
            Err(Failure::Missing(why)) => outcome.left_out = Some(why),
        }
        Ok(outcome)
    }

    /// Each process has to have run on what the mode and the program say.
    fn check_beneath(&self, mode: Mode, used: &[Used], off: &[Used]) -> Result<(), Failure> {
        if used.is_empty() {
            let why = "no process was kept, so nobody knows what they ran on";
            return Err(Failure::Wrong(why.to_owned()));
        }
        for used in used {
            let name = used.program();
            let expected = self.expected(mode, name);
            let found = used.beneath(off);
            // One with nothing of Evenkeel's in it has no report either.
            let is_so = found == Some(expected) || found.is_none() && self.is_on_tokio(name);
            if !is_so {
                let found = found.map_or_else(
                    || "it neither reported nor were its instances of epoll counted".to_owned(),
                    |found| format!("it ran on {found:?}"),
                );
                return Err(Failure::Wrong(format!(
                    "`{name}` had to run on {expected:?}, and {found}"
                )));
            }
        }
        Ok(())
    }

    fn expected(&self, mode: Mode, process: &str) -> Beneath {
        let is_one_thread = self.one_thread.iter().any(|name| name == process);
        match mode {
            Mode::Off => Beneath::Tokio,
            _ if self.is_on_tokio(process) => Beneath::Tokio,
            Mode::Routed if is_one_thread => Beneath::Tokio,
            Mode::Routed | Mode::Forced => Beneath::Evenkeel,
        }
    }

    fn is_on_tokio(&self, process: &str) -> bool {
        self.on_tokio.iter().any(|name| name == process)
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
            on_evenkeel: BTreeSet::new(),
            on_tokio: BTreeSet::new(),
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
    fn each_process_has_to_run_on_what_its_mode_says() {
        let program = chosen(&["mqtt".to_owned()]).unwrap().remove(0);
        let reported = |name: &str, runtimes: usize| {
            let said = format!("evenkeel: {runtimes} runtimes with 2 workers on Evenkeel");
            Used::new(name, &said, None)
        };
        let killed = |name: &str, epolls| Used::new(name, "", epolls);
        let check = |mode, used: &[Used]| match program.check_beneath(mode, used, &[]) {
            Ok(()) => "good".to_owned(),
            Err(Failure::Wrong(why)) => why,
            Err(_) => "something else".to_owned(),
        };
        let [published, client] = [killed("rumqttd", Some(2)), reported("mqtt", 1)];
        let right = [published, client, reported("broker", 0)];
        assert_eq!(check(Mode::Routed, &right), "good");
        // Its own runtime is of one thread.
        assert!(check(Mode::Forced, &right).contains("`broker` had to run on Evenkeel"));
        assert!(check(Mode::Off, &right).contains("`mqtt` had to run on Tokio"));
        // A server on Tokio behind a client on Evenkeel.
        let hidden = [reported("mqtt", 1), killed("server", Some(2))];
        assert!(check(Mode::Routed, &hidden).contains("`server` had to run on Evenkeel"));
        let silent = [reported("mqtt", 1), killed("server", None)];
        assert!(check(Mode::Routed, &silent).contains("it neither reported"));
        assert!(check(Mode::Routed, &[]).contains("nobody knows"));
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
