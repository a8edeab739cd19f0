//! The experiments: each starts servers and load as processes, peers in turn, and ends in a part of
//! the report. What each is for, and what to look at, is on the page beside it, which is also its
//! `--help`. `database` and `tools` are what several of them use of others' programs, `disks` what
//! they write to.

mod busywait;
mod cameras;
mod checks;
mod classes;
mod database;
mod disks;
mod fsync;
mod proxy;
mod responsive;
mod services;
mod shares;
mod storm;
mod tools;

use clap::Args;

use crate::error::Result;
use crate::process;
use crate::report::{Earlier, Experiment, Machine, Report, VERSION};
use crate::trial::args::RunArgs;
use crate::trial::lab::Lab;

/// An experiment: its name on the command line, its page, and how it is run.
pub(crate) struct Named {
    pub(crate) name: &'static str,
    page: &'static str,
    run: fn(&Lab) -> Result<Experiment>,
}

macro_rules! experiments {
    ($($name:ident),*) => {
        [$(Named {
            name: stringify!($name),
            page: include_str!(concat!(stringify!($name), ".md")),
            run: $name::run,
        }),*]
    };
}

/// All of them, in the order of the report.
pub(crate) const EXPERIMENTS: &[Named] = &experiments![
    responsive, services, shares, classes, proxy, cameras, storm, fsync, checks, busywait
];

impl Named {
    /// The page's paragraphs, the first of which is its title.
    fn paragraphs(&self) -> impl Iterator<Item = String> {
        let paragraphs = self.page.trim_start_matches("# ").split("\n\n");
        paragraphs.map(|lines| lines.trim().replace('\n', " "))
    }

    /// The paragraphs that begin so: `Claimed: ` is what the experiment is to show; `How: `, each
    /// `Note: ` and, of a run in brief, each `Brief: ` are for the report alone.
    fn told(&self, kind: &str) -> impl Iterator<Item = String> {
        let told = move |text: String| text.strip_prefix(kind).map(str::to_owned);
        self.paragraphs().filter_map(told)
    }

    /// Its command, whose help is its page.
    pub(crate) fn command(&self) -> clap::Command {
        let mut paragraphs = self.paragraphs().take_while(|text| text != "Examples:");
        let title = paragraphs.next().unwrap_or_default();
        let long = paragraphs.fold(format!("{title}."), |all, next| format!("{all}\n\n{next}"));
        let examples = self.page.lines().filter(|line| line.starts_with("    "));
        let examples = examples.map(|line| format!("\n  {}", line.trim()));
        let command = RunArgs::augment_args(clap::Command::new(self.name));
        let command = command.about(title).long_about(long);
        command.after_help(format!("Examples:{}", examples.collect::<String>()))
    }
}

/// Runs experiments and prints their report; files are written where asked for.
pub(crate) fn run(chosen: &[Named], args: &RunArgs) -> Result<()> {
    // What cannot be compared had better be known before all is measured.
    let names: Vec<_> = chosen.iter().map(|experiment| experiment.name).collect();
    let earlier = args.compare.as_deref();
    let earlier = earlier
        .map(|path| Earlier::read(path, &names))
        .transpose()?;
    process::end_all_on_signal()?;
    let lab = Lab::open(args)?;
    let mut experiments = Vec::new();
    for experiment in chosen {
        let mut found = (experiment.run)(&lab)?;
        found.name = experiment.name.to_owned();
        found.claim = experiment.told("Claimed: ").collect();
        let how: String = experiment.told("How: ").collect();
        found.how = format!("{how} {}", found.how).trim().to_owned();
        let notes = lab.lineup.missing.iter().cloned();
        let notes = notes.chain(experiment.told("Note: "));
        let brief = experiment.told("Brief: ").filter(|_| lab.is_brief());
        found.notes.extend(brief);
        found.notes.splice(0..0, notes);
        // Of what was not asked for.
        found.tables.retain(|table| !table.rows.is_empty());
        experiments.push(found);
    }
    lab.has_what_was_asked_for()?;
    let title = match chosen {
        [one] => format!("Evenkeel lab: {}", one.name),
        _ => "Evenkeel lab".to_owned(),
    };
    let mut report = Report {
        version: VERSION,
        title,
        rough: lab.roughness(),
        machine: Machine::detect(),
        experiments,
        moved: None,
    };
    if let Some(earlier) = &earlier {
        report.compare(earlier);
    }
    lab.progress("done\n");
    report.print();
    if let Some(path) = &args.json {
        report.write_json(path)?;
    }
    if let Some(path) = &args.html {
        report.write_html(path)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers are prose on a page: they have to be those of the code.
    pub(super) fn assert_page_says(name: &str, phrases: &[String]) {
        let experiment = EXPERIMENTS.iter().find(|of| of.name == name);
        let experiment = experiment.expect("an experiment of that name");
        let told = experiment.told("How: ").chain(experiment.told("Note: "));
        let text = told.collect::<Vec<_>>().join(" ");
        for phrase in phrases {
            assert!(text.contains(phrase), "`{phrase}` is not in: {text}");
        }
    }
}
