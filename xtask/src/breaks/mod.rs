//! `cargo xtask breaks`: breaks the code on purpose, and requires that the tests see it.
//!
//! `breaks/` at the root holds the breaks, by subject. Each is applied to a copy of the tree, and
//! the tests that it names have to fail there, after they passed in the whole copy. So a test that
//! has grown blind is noticed, and so is a break that says nothing any more.

mod book;
mod check;
mod scratch;
mod trial;

use std::time::Instant;

use anyhow::{Context, Result, ensure};

use crate::cargo;
use book::Break;
pub(crate) use book::FOLDER;
pub(crate) use check::problems_of_file;
use scratch::Scratch;
use trial::{Trials, Verdict};

/// What to run.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Options {
    /// Only say what there is.
    list: bool,
    /// Only those that `cargo xtask ci` runs.
    sample: bool,
    /// All of them are in the break's text, its file's name or a test's; in any case.
    words: Vec<String>,
}

impl Options {
    /// Reads what follows `cargo xtask breaks`.
    pub(crate) fn parse(words: &[&str]) -> Result<Self, String> {
        let mut options = Self::default();
        for &word in words {
            match word {
                "--list" => options.list = true,
                "--sample" => options.sample = true,
                _ if word.starts_with('-') => {
                    return Err(format!("`{word}` is not known; see `cargo xtask help`"));
                }
                _ => options.words.push(word.to_lowercase()),
            }
        }
        Ok(options)
    }

    fn select(&self, breaks: Vec<Break>) -> Vec<Break> {
        let meant = |one: &Break| {
            let text = one.to_string().to_lowercase();
            let named = |word: &String| text.contains(word.as_str());
            (one.sample || !self.sample) && self.words.iter().all(named)
        };
        breaks.into_iter().filter(meant).collect()
    }
}

/// The step of `cargo xtask ci`.
pub(crate) fn sample() -> Result<()> {
    let sample = true;
    run(&Options {
        sample,
        ..Options::default()
    })
}

/// Applies the breaks that are meant, one after the other, and prints a line about each.
pub(crate) fn run(options: &Options) -> Result<()> {
    let breaks = options.select(book::read(cargo::root())?);
    ensure!(
        !breaks.is_empty(),
        "no break is meant by these words; `cargo xtask breaks --list` lists all"
    );
    if options.list {
        breaks.iter().for_each(|one| println!("{one}"));
        println!("{} breaks", breaks.len());
        return Ok(());
    }
    check::all(&breaks, &scratch::sources(cargo::root())?)?;
    let began = Instant::now();
    let scratch = Scratch::new(cargo::root(), &cargo::target_dir().join("breaks"))?;
    let trials = Trials::new(&scratch);
    scratch.restore()?;
    println!("the tests that are named have to pass in the whole tree first");
    trials.all_pass(&breaks)?;
    let mut unseen = Vec::new();
    for (index, one) in breaks.iter().enumerate() {
        let turn_began = Instant::now();
        let verdict = try_one(&scratch, &trials, one)?;
        println!(
            "{}/{} {}: {verdict}, in {:.0} s",
            index + 1,
            breaks.len(),
            one.title(),
            turn_began.elapsed().as_secs_f64()
        );
        if let Verdict::Unseen(why) = verdict {
            unseen.push(format!("{}: {why}", one.title()));
        }
    }
    scratch.restore()?;
    let minutes = began.elapsed().as_secs_f64() / 60.0;
    println!("\n{} breaks in {minutes:.1} min", breaks.len());
    ensure!(
        unseen.is_empty(),
        "{} of {} breaks were not seen:\n  {}\nwhat cargo and the tests said is in {}",
        unseen.len(),
        breaks.len(),
        unseen.join("\n  "),
        scratch.logs().display()
    );
    println!("each was seen by the tests that it names");
    Ok(())
}

/// One break alone, from a whole tree. It is taken back by the next one, or at the end.
fn try_one(scratch: &Scratch, trials: &Trials<'_>, one: &Break) -> Result<Verdict> {
    scratch.restore()?;
    scratch
        .apply(one)
        .with_context(|| format!("cannot apply {}", one.title()))?;
    trials.must_fail(one)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOOK: &str = "[[break]]\nwhat = 'Records are lost'\nfile = 'a.rs'\nold = 'a'\nnew = 'b'\n\
                        seen_by = ['evenkeel lib one']\nsample = true\n\
                        [[break]]\nwhat = 'none waits'\nfile = 'b.rs'\nold = 'a'\nnew = 'b'\n\
                        seen_by = ['evenkeel fs_hung two']\n";

    fn meant(words: &[&str]) -> Vec<String> {
        let breaks = book::parse("breaks/log.toml", BOOK).unwrap();
        let selected = Options::parse(words).unwrap().select(breaks);
        selected.into_iter().map(|one| one.what).collect()
    }

    #[test]
    fn words_mean_breaks() {
        assert_eq!(meant(&[]).len(), 2);
        assert_eq!(meant(&["log"]).len(), 2);
        assert_eq!(meant(&["--sample"]), ["Records are lost"]);
        assert_eq!(meant(&["records", "LOST"]), ["Records are lost"]);
        assert_eq!(meant(&["fs_hung"]), ["none waits"]);
        assert!(meant(&["records", "fs_hung"]).is_empty());
    }

    #[test]
    fn an_unknown_option_is_refused_with_advice() {
        let advice = Options::parse(&["--all"]).expect_err("there is none");
        assert!(advice.contains("cargo xtask help"), "{advice}");
    }
}
