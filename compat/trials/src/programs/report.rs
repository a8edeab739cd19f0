//! What a process says at its end that was done for it: `EVENKEEL_REPORT=1`.

use std::fmt;

use serde::Serialize;

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

    /// How many of its runtimes were on Evenkeel.
    fn runtimes(&self) -> Option<usize> {
        let first = self.report.as_ref()?.first()?;
        let (count, _) = first.split_once(" runtime")?;
        Some(count.parse::<usize>().ok()? * self.times)
    }
}

/// How many runtimes were on Evenkeel, if any process has reported.
pub(super) fn runtimes(used: &[Used]) -> Option<usize> {
    used.iter().filter_map(Used::runtimes).reduce(|a, b| a + b)
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
        assert_eq!(Used::new("server", "a warning\n", Some(2)).runtimes(), None);
    }

    #[test]
    fn the_same_is_said_once() {
        let mut all = Vec::new();
        for said in [SAID, "", SAID] {
            Used::new("client", said, None).add_to(&mut all);
        }
        assert_eq!(all.len(), 2);
        assert_eq!(runtimes(&all), Some(4));
        assert_eq!(runtimes(&all[1..]), None);
    }
}
