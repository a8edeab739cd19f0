//! The report on a terminal, a hundred columns wide.

use std::io::{self, IsTerminal, Write};

use super::number::{NARROW_SPACE, SPACE, printable};
use super::verdicts::Summary;
use super::{Experiment, Machine, Report, Table, plot, table};

const WIDTH: usize = 100;
const INDENT: &str = "   ";
/// `claim`, `how` and `note` stand in a margin of this width.
const LABEL_WIDTH: usize = 9;

/// Whether text may be made bold and dim.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Style {
    Plain,
    Terminal,
}

impl Style {
    fn bold(self, text: &str) -> String {
        self.set(1, text)
    }

    fn dim(self, text: &str) -> String {
        self.set(2, text)
    }

    /// With a terminal's code for it.
    fn set(self, code: u8, text: &str) -> String {
        match self {
            Style::Plain => text.to_owned(),
            Style::Terminal => format!("\x1b[{code}m{text}\x1b[0m"),
        }
    }
}

/// Prints `report`. A reader that went away (`| head`) is no failure.
pub(super) fn to_stdout(report: &Report) {
    let mut out = io::stdout().lock();
    let plain = !out.is_terminal() || std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty());
    let style = if plain { Style::Plain } else { Style::Terminal };
    let _ = out
        .write_all(text(report, style).as_bytes())
        .and_then(|()| out.flush());
}

/// The whole report as text.
pub(super) fn text(report: &Report, style: Style) -> String {
    let mut lines = vec![
        String::new(),
        style.bold(&printable(&report.title)),
        String::new(),
    ];
    if let Some(rough) = &report.rough {
        labelled("rough", rough, style, &mut lines);
    }
    machine(&report.machine, style, &mut lines);
    for (index, experiment) in report.experiments.iter().enumerate() {
        lines.extend([String::new(), style.dim(&"─".repeat(WIDTH)), String::new()]);
        self::experiment(index + 1, experiment, style, &mut lines);
    }
    verdicts(&Summary::of(report), style, &mut lines);
    lines.push(String::new());
    // What held numbers together while lines were broken has done its work.
    lines.join("\n").replace(NARROW_SPACE, &SPACE.to_string())
}

/// Last, where whoever has waited for the run looks first.
fn verdicts(summary: &Summary<'_>, style: Style, lines: &mut Vec<String>) {
    lines.extend([String::new(), style.dim(&"─".repeat(WIDTH)), String::new()]);
    lines.push(style.bold("Verdicts"));
    lines.push(String::new());
    if let Some(count) = summary.count() {
        labelled("result", &count, style, lines);
    }
    for (index, line) in summary.missed_lines().iter().enumerate() {
        labelled(if index == 0 { "missed" } else { "" }, line, style, lines);
    }
    for words in summary.silent() {
        labelled("note", &words, style, lines);
    }
    if let Some(caution) = summary.caution() {
        labelled("rough", &caution, style, lines);
    }
    for command in summary.commands() {
        labelled("", &command, style, lines);
    }
}

fn machine(machine: &Machine, style: Style, lines: &mut Vec<String>) {
    let facts = format!(
        "{}, {} cores · {} · {}, {} profile · {}",
        machine.cpu_model,
        machine.cores,
        machine.kernel,
        machine.rustc,
        machine.profile,
        machine.date
    );
    labelled("machine", &facts, style, lines);
    for noise in &machine.noise {
        labelled("noise", noise, style, lines);
    }
}

fn experiment(number: usize, experiment: &Experiment, style: Style, lines: &mut Vec<String>) {
    lines.push(style.bold(&format!("{number}  {}", printable(&experiment.name))));
    lines.push(String::new());
    labelled("claim", &experiment.claim, style, lines);
    labelled("how", &experiment.how, style, lines);
    for table in &experiment.tables {
        self::table(table, style, lines);
    }
    // A plot says nothing here that a table could not: show its numbers unless tables did.
    if experiment.tables.is_empty() {
        for plot in &experiment.plots {
            self::table(&plot::table(plot), style, lines);
        }
    }
    if !experiment.notes.is_empty() {
        lines.push(String::new());
    }
    for note in &experiment.notes {
        labelled("note", note, style, lines);
    }
}

fn table(table: &Table, style: Style, lines: &mut Vec<String>) {
    lines.push(String::new());
    if !table.title.is_empty() {
        let title = printable(&table.title);
        lines.extend(
            table::wrap(&title, WIDTH - INDENT.len())
                .iter()
                .map(|line| format!("{INDENT}{}", style.bold(line))),
        );
    }
    for line in table::lines(table, WIDTH - INDENT.len()) {
        let line = if line.starts_with('─') {
            style.dim(&line)
        } else {
            line
        };
        lines.push(format!("{INDENT}{line}").trim_end().to_owned());
    }
}

fn labelled(label: &str, text: &str, style: Style, lines: &mut Vec<String>) {
    let mut label = label;
    for paragraph in text
        .split("\n\n")
        .filter(|paragraph| !paragraph.trim().is_empty())
    {
        for line in table::wrap(
            &printable(paragraph.trim()),
            WIDTH - INDENT.len() - LABEL_WIDTH,
        ) {
            let margin = style.dim(&format!("{label:LABEL_WIDTH$}"));
            lines.push(format!("{INDENT}{margin}{line}"));
            label = "";
        }
    }
}
