//! What a process says at its end that was done for it: `EVENKEEL_REPORT=1`. From that, or else
//! from its instances of epoll, it is known what it ran on.

use std::fmt;

use serde::Serialize;

/// How many instances of epoll a process has on Tokio, if it has one runtime.
const EPOLLS_ON_TOKIO: usize = 2;

/// What a process ran on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Beneath {
    /// One of its runtimes at least was on Evenkeel.
    Evenkeel,
    /// None was.
    Tokio,
}

/// What was done for a process, and how often the like of it has run.
#[derive(Serialize)]
pub(super) struct Used {
    program: String,
    times: usize,
    /// The lines of its report. None, if a signal has ended it.
    report: Option<Vec<String>>,
    /// Without a report: how many instances of epoll it had before the signal. Tokio has two, and
    /// Evenkeel two more for each worker.
    epolls: Option<usize>,
}

impl Used {
    pub(super) fn new(program: &str, errors: &str, epolls: Option<usize>) -> Self {
        let lines = errors
            .lines()
            .filter_map(|line| line.strip_prefix("evenkeel: "));
        let lines: Vec<String> = lines.map(str::to_owned).collect();
        let report = Some(lines).filter(|lines| !lines.is_empty());
        Self {
            program: program.to_owned(),
            times: 1,
            epolls: epolls.filter(|_| report.is_none()),
            report,
        }
    }

    /// Adds this to others, of which one may be the same.
    pub(super) fn add_to(self, others: &mut Vec<Self>) {
        let is_same = |other: &&mut Self| {
            (&other.program, &other.report, other.epolls)
                == (&self.program, &self.report, self.epolls)
        };
        match others.iter_mut().find(is_same) {
            Some(other) => other.times += 1,
            None => others.push(self),
        }
    }

    pub(super) fn program(&self) -> &str {
        &self.program
    }

    /// What it ran on, if it has reported or its instances of epoll were counted. `off` are the
    /// processes of the same script with all on Tokio.
    pub(super) fn beneath(&self, off: &[Self]) -> Option<Beneath> {
        let is_on_evenkeel = match self.runtimes() {
            Some(runtimes) => runtimes > 0,
            None => self.epolls? > epolls_on_tokio(&self.program, off),
        };
        Some(if is_on_evenkeel {
            Beneath::Evenkeel
        } else {
            Beneath::Tokio
        })
    }

    /// How many of its runtimes were on Evenkeel.
    fn runtimes(&self) -> Option<usize> {
        let first = self.report.as_ref()?.first()?;
        let (count, _) = first.split_once(" runtime")?;
        count.parse().ok()
    }
}

/// How many instances of epoll a program had when all of it was on Tokio.
fn epolls_on_tokio(program: &str, off: &[Used]) -> usize {
    let counted = off.iter().filter(|used| used.program == program);
    let most = counted.filter_map(|used| used.epolls).max();
    most.unwrap_or(EPOLLS_ON_TOKIO)
}

impl fmt::Display for Used {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.program)?;
        if self.times > 1 {
            write!(f, " ({} times)", self.times)?;
        }
        match &self.report {
            Some(lines) => write!(f, ": {}", brief(lines))?,
            None => write!(f, ": no report")?,
        }
        match self.epolls {
            Some(epolls) => write!(f, ", as a signal ended it; instances of epoll: {epolls}"),
            None => Ok(()),
        }
    }
}

/// A report in a line: what says nothing is left out, as are the functions of hogs, and tasks whose
/// polls were too long are counted. They differ from run to run.
fn brief(lines: &[String]) -> String {
    let (long, others): (Vec<_>, Vec<_>) =
        (lines.iter()).partition(|line| line.starts_with("too long: "));
    let says_nothing = ["0 seats", "found in: "];
    let says_something =
        |line: &&&String| !says_nothing.iter().any(|begin| line.starts_with(begin));
    let mut said: Vec<String> = others
        .iter()
        .filter(says_something)
        .map(|it| (*it).clone())
        .collect();
    if !long.is_empty() {
        said.push(format!(
            "kinds of tasks with polls that were too long: {}",
            long.len()
        ));
    }
    said.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "a warning\nevenkeel: 2 runtimes with 4 workers on Evenkeel\n\
                        evenkeel: 0 seats handed over\nevenkeel: left to Tokio: nothing\n";

    #[test]
    fn a_report_is_found_among_other_lines() {
        let used = Used::new("server", SAID, None);
        assert_eq!(
            used.to_string(),
            "server: 2 runtimes with 4 workers on Evenkeel; left to Tokio: nothing"
        );
        assert_eq!(used.beneath(&[]), Some(Beneath::Evenkeel));
        let none = SAID.replace("2 runtimes", "0 runtimes");
        let used = Used::new("server", &none, Some(9));
        assert_eq!(used.beneath(&[]), Some(Beneath::Tokio), "the report counts");
    }

    #[test]
    fn without_a_report_epolls_tell_what_a_process_ran_on() {
        let killed = |epolls| Used::new("server", "a warning\n", epolls);
        assert_eq!(killed(None).beneath(&[]), None);
        assert_eq!(killed(Some(2)).beneath(&[]), Some(Beneath::Tokio));
        assert_eq!(killed(Some(6)).beneath(&[]), Some(Beneath::Evenkeel));
        // One with several runtimes has as many on Tokio.
        let off = [Used::new("client", "", Some(9)), killed(Some(6))];
        assert_eq!(killed(Some(6)).beneath(&off), Some(Beneath::Tokio));
        assert_eq!(killed(Some(10)).beneath(&off), Some(Beneath::Evenkeel));
    }

    #[test]
    fn the_same_is_said_once() {
        let mut all = Vec::new();
        for said in [SAID, "", SAID] {
            Used::new("client", said, None).add_to(&mut all);
        }
        assert_eq!(all.len(), 2);
        assert_eq!(all[0].times, 2);
    }
}
