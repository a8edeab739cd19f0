//! The report on a terminal, a hundred columns wide.

use std::io::Write;

use anstyle::Style;

use super::number::{NARROW_SPACE, SPACE, printable};
use super::verdicts::Summary;
use super::{Experiment, Machine, Moved, Report, Table, plot, table};

const WIDTH: usize = 100;
const INDENT: &str = "   ";
/// `claim`, `how` and `note` stand in a margin of this width.
const LABEL_WIDTH: usize = 9;

fn bold(text: &str) -> String {
    let style = Style::new().bold();
    format!("{style}{text}{style:#}")
}

fn dim(text: &str) -> String {
    let style = Style::new().dimmed();
    format!("{style}{text}{style:#}")
}

impl Report {
    /// Prints the report to standard output: bold and dim where that is shown. A reader that went
    /// away (`| head`) is no failure.
    pub(crate) fn print(&self) {
        let mut out = anstream::stdout().lock();
        let _ = write!(out, "{}", text(self)).and_then(|()| out.flush());
    }
}

/// The whole report as text.
pub(super) fn text(report: &Report) -> String {
    let title = bold(&printable(&report.title));
    let mut lines = vec![String::new(), title, String::new()];
    if let Some(rough) = &report.rough {
        labelled("rough", rough, &mut lines);
    }
    machine(&report.machine, &mut lines);
    for (index, experiment) in report.experiments.iter().enumerate() {
        lines.extend([String::new(), dim(&"─".repeat(WIDTH)), String::new()]);
        self::experiment(index + 1, experiment, &mut lines);
    }
    verdicts(&Summary::of(report), &mut lines);
    if let Some(moved) = &report.moved {
        self::moved(moved, &mut lines);
    }
    lines.push(String::new());
    // What held numbers together while lines were broken has done its work.
    lines.join("\n").replace(NARROW_SPACE, &SPACE.to_string())
}

/// Last, where whoever has waited for the run looks first.
fn verdicts(summary: &Summary<'_>, lines: &mut Vec<String>) {
    lines.extend([String::new(), dim(&"─".repeat(WIDTH)), String::new()]);
    lines.push(bold("Verdicts"));
    lines.push(String::new());
    if let Some(count) = summary.count() {
        labelled("result", &count, lines);
    }
    for (index, line) in summary.missed_lines().iter().enumerate() {
        labelled(if index == 0 { "missed" } else { "" }, line, lines);
    }
    for words in summary.silent() {
        labelled("note", &words, lines);
    }
    if let Some(caution) = summary.caution() {
        labelled("rough", caution, lines);
    }
    for command in summary.commands() {
        labelled("", &command, lines);
    }
}

fn moved(moved: &Moved, lines: &mut Vec<String>) {
    lines.extend([String::new(), dim(&"─".repeat(WIDTH)), String::new()]);
    lines.push(bold("What moved"));
    lines.push(String::new());
    labelled("result", &moved.summary, lines);
    for (index, line) in moved.lines.iter().enumerate() {
        labelled(if index == 0 { "moved" } else { "" }, line, lines);
    }
    for note in &moved.notes {
        labelled("note", note, lines);
    }
}

fn machine(machine: &Machine, lines: &mut Vec<String>) {
    let (cpu, cores) = (&machine.cpu_model, machine.cores);
    let (rustc, profile) = (&machine.rustc, &machine.profile);
    let (kernel, date) = (&machine.kernel, &machine.date);
    let facts = format!("{cpu}, {cores} cores · {kernel} · {rustc}, {profile} profile · {date}");
    labelled("machine", &facts, lines);
    for noise in &machine.noise {
        labelled("noise", noise, lines);
    }
}

fn experiment(number: usize, experiment: &Experiment, lines: &mut Vec<String>) {
    lines.push(bold(&format!("{number}  {}", printable(&experiment.name))));
    lines.push(String::new());
    labelled("claim", &experiment.claim, lines);
    labelled("how", &experiment.how, lines);
    for table in &experiment.tables {
        self::table(table, lines);
    }
    // A plot says nothing here that a table could not: show its numbers unless tables did.
    if experiment.tables.is_empty() {
        for plot in &experiment.plots {
            self::table(&plot::table(plot), lines);
        }
    }
    if !experiment.notes.is_empty() {
        lines.push(String::new());
    }
    for note in &experiment.notes {
        labelled("note", note, lines);
    }
}

fn table(table: &Table, lines: &mut Vec<String>) {
    lines.push(String::new());
    if !table.title.is_empty() {
        let title = table::wrap(&printable(&table.title), WIDTH - INDENT.len());
        lines.extend(title.iter().map(|line| format!("{INDENT}{}", bold(line))));
    }
    for line in table::lines(table, WIDTH - INDENT.len()) {
        let is_rule = line.starts_with('─');
        let line = if is_rule { dim(&line) } else { line };
        lines.push(format!("{INDENT}{line}").trim_end().to_owned());
    }
}

fn labelled(label: &str, text: &str, lines: &mut Vec<String>) {
    let paragraphs = text.split("\n\n").map(|text| printable(text.trim()));
    let paragraphs = paragraphs.filter(|text| !text.is_empty());
    let broken = paragraphs.flat_map(|text| table::wrap(&text, WIDTH - INDENT.len() - LABEL_WIDTH));
    for (index, line) in broken.enumerate() {
        let label = if index == 0 { label } else { "" };
        let margin = dim(&format!("{label:LABEL_WIDTH$}"));
        lines.push(format!("{INDENT}{margin}{line}"));
    }
}
