//! All that is tried, one part after another, and the page that says what came of it.
//!
//! A part that is not run this time keeps what came of it before, so the whole can be made in
//! pieces.

mod page;
mod part;
mod record;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use crate::Error;
use part::{Part, Places};
use record::{Made, Outcome, Record};

/// Which parts are run, and where.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Parts, or the first words of their names, such as `tokio/1.54`; without any, all.
    #[arg(long, value_name = "PART", num_args = 1..)]
    only: Vec<String>,
    /// Print the names of the parts, and run nothing.
    #[arg(long)]
    list: bool,
    /// Make the page again from what was recorded, and run nothing.
    #[arg(long, conflicts_with = "only")]
    page: bool,
    /// Where to build. If it is there twice, as `cargo xtask compat` names one itself, the last.
    #[arg(long, default_value = "target/trials", overrides_with = "target")]
    target: PathBuf,
    /// Where to build Tokio's own tests; without it, in a folder of that.
    #[arg(long)]
    tokio_target: Option<PathBuf>,
}

/// Whether nothing failed of what was run.
pub(crate) fn run(options: &Options) -> Result<bool, Error> {
    let all = Part::all()?;
    if options.list {
        all.iter().for_each(|part| println!("{part}"));
        return Ok(true);
    }
    let chosen = if options.page {
        Vec::new()
    } else {
        chosen(&all, &options.only)?
    };
    let places = Places::new(options)?;
    save(&all, None)?;
    let mut is_good = true;
    for (number, part) in chosen.iter().enumerate() {
        println!("\n== {}/{} {part}", number + 1, chosen.len());
        let made = make(part, &places)?;
        println!("== {part}: {}, {} s", made.verdict(), made.seconds);
        is_good &= made.good;
        // After each part, as the next one may take long, and be interrupted.
        save(&all, Some((part.to_string(), made)))?;
    }
    Ok(is_good)
}

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

/// Records what came of a part, and makes the page again. Reads the record each time, as other
/// parts may have been made meanwhile.
fn save(all: &[Part], made: Option<(String, Made)>) -> Result<(), Error> {
    let path = docs().join("compat.json");
    let mut record = Record::read(&path)?;
    record.retain(all);
    record.parts.extend(made);
    record.write(&path)?;
    Ok(fs::write(docs().join("compat.md"), page::of(all, &record))?)
}

impl Places {
    fn new(options: &Options) -> Result<Self, Error> {
        fs::create_dir_all(&options.target)?;
        let target = options.target.canonicalize()?;
        let tokio = options.tokio_target.clone();
        Ok(Self {
            tokio: tokio.unwrap_or_else(|| target.join("tokio")),
            target,
        })
    }
}

/// The parts whose names begin with these words.
fn chosen<'a>(all: &'a [Part], only: &[String]) -> Result<Vec<&'a Part>, Error> {
    if let Some(word) = (only.iter()).find(|word| !all.iter().any(|part| part.is_within(word))) {
        return Err(format!("no part is called `{word}`; `--list` names all").into());
    }
    let is_chosen = |part: &&Part| only.is_empty() || only.iter().any(|word| part.is_within(word));
    Ok(all.iter().filter(is_chosen).collect())
}

fn make(part: &Part, places: &Places) -> Result<Made, Error> {
    let day = said(Command::new("date").args(["-u", "+%F"]))?;
    // Of now, as people may go on with their work meanwhile.
    let revision = revision()?;
    let began = Instant::now();
    let run = part.run(places);
    // The other parts can do without this one.
    let (good, outcome) = run.unwrap_or_else(|error| (false, Outcome::Broken(error.to_string())));
    Ok(Made {
        day,
        revision,
        seconds: began.elapsed().as_secs(),
        good,
        outcome,
    })
}

/// Git's name of the sources, with a sign where they were changed since.
fn revision() -> Result<String, Error> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let git = |words: &[&str]| {
        let mut command = Command::new("git");
        command.current_dir(&folder).args(words);
        command
    };
    let short = said(&mut git(&["rev-parse", "--short=9", "HEAD"]))?;
    let changed = said(&mut git(&[
        "status",
        "--porcelain",
        "--",
        "compat",
        "crates",
    ]))?;
    Ok(short + if changed.is_empty() { "" } else { "+" })
}

/// What a short command prints.
fn said(command: &mut Command) -> Result<String, Error> {
    let output = command.output()?;
    if output.status.success() {
        Ok(String::from_utf8(output.stdout)?.trim().to_owned())
    } else {
        Err(format!("{command:?} failed").into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_chosen_by_the_first_words_of_their_names() {
        let all = Part::all().unwrap();
        let names = |only: &[&str]| {
            let only: Vec<_> = only.iter().map(|word| (*word).to_owned()).collect();
            let chosen = chosen(&all, &only).map_err(|error| error.to_string())?;
            Ok::<_, String>(
                chosen
                    .iter()
                    .map(|part| part.to_string())
                    .collect::<Vec<_>>(),
            )
        };
        assert_eq!(names(&[]).unwrap().len(), all.len());
        let modes = ["tokio/1.54/off", "tokio/1.54/routed", "tokio/1.54/forced"];
        assert_eq!(names(&["tokio/1.54"]).unwrap(), modes);
        assert_eq!(
            names(&["graph", "suites/h2"]).unwrap(),
            ["graph", "suites/h2"]
        );
        assert!(names(&["suites/h"]).unwrap_err().contains("`suites/h`"));
    }
}
