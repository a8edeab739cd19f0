//! The report as one page that stands alone.

use maud::{Markup, PreEscaped, html};

use super::number::{NARROW_SPACE, fixed, printable};
use super::verdicts::Summary;
use super::{Cell, Experiment, Machine, Moved, Plot, Report, Table, plot, svg, table};

const STYLE: &str = include_str!("style.css");
/// Raw data longer than this is left to the JSON file.
const RAW_BYTES_MAX: usize = 64 << 10;

/// The part of the style sheet that plots need: the colours, and the rules from `.plot` to the next
/// media query.
pub(super) fn style_of_plots() -> String {
    let colours = STYLE.split("* {").next().unwrap_or_default();
    let rules = STYLE.split_once("\n.plot {").map_or("", |(_, rules)| rules);
    let rules = rules.split("@media").next().unwrap_or_default();
    format!("{colours}.plot {{{rules}")
}

/// The whole page.
pub(super) fn page(report: &Report) -> String {
    let title = printable(&report.title);
    let numbered = || (1..).zip(&report.experiments);
    html! {
        (PreEscaped("<!doctype html>\n"))
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                header { h1 { (title) } (byline(report)) }
                (verdicts(&Summary::of(report)))
                @if let Some(moved) = &report.moved { (self::moved(moved)) }
                nav aria-label="Contents" {
                    h2 { "Contents" }
                    ol { @for (number, experiment) in numbered() {
                        (contents_entry(number, experiment))
                    } }
                    p { a href="#machine" { "The machine" } }
                }
                main {
                    @for (number, of) in numbered() { (experiment(number, of)) }
                    (machine(&report.machine))
                }
            }
        }
    }
    .into_string()
}

fn byline(report: &Report) -> Markup {
    let Machine { date, noise, .. } = &report.machine;
    let (cpu, kernel) = (&report.machine.cpu_model, &report.machine.kernel);
    let facts = format!("{date} · {cpu}, {} cores · {kernel}", report.machine.cores);
    html! {
        p.byline { (printable(&facts)) }
        @if let Some(rough) = &report.rough { p.rough role="note" { (inline(rough)) } }
        @if !noise.is_empty() {
            aside.noise aria-label="What may disturb these results" {
                ul { @for noise in noise { li { (printable(noise)) } } }
            }
        }
    }
}

/// How many verdicts hold, and which do not: before all that they are of.
fn verdicts(summary: &Summary<'_>) -> Markup {
    let missed = summary.missed_table();
    html! {
        section.verdicts aria-labelledby="verdicts-h" {
            h2 #verdicts-h { "Verdicts" }
            @if let Some(count) = summary.count() { p.count { (printable(&count)) } }
            @if !missed.rows.is_empty() { (scrollable(&missed, "table")) }
            @for words in summary.silent() { p.muted { (printable(&words)) } }
            @if let Some(caution) = summary.caution() {
                p.rough role="note" {
                    (inline(caution))
                    @for command in summary.commands() { br; code { (printable(&command)) } }
                }
            }
        }
    }
}

/// What moved since an earlier report.
fn moved(moved: &Moved) -> Markup {
    html! {
        section.moved aria-labelledby="moved-h" {
            h2 #moved-h { "What moved" }
            p { (printable(&moved.summary)) }
            @for note in &moved.notes { p.muted { (printable(note)) } }
            @if !moved.lines.is_empty() {
                ul { @for line in &moved.lines { li { (printable(line)) } } }
            }
        }
    }
}

fn contents_entry(number: usize, experiment: &Experiment) -> Markup {
    let claim = experiment.claim.split("\n\n").next().unwrap_or_default();
    html! {
        li {
            a href={ "#e" (number) } { (printable(&experiment.name)) } " "
            span { (inline(claim)) }
        }
    }
}

fn experiment(number: usize, of: &Experiment) -> Markup {
    let result = html! {
        @for (index, plot) in (1..).zip(&of.plots) { (figure(&format!("e{number}p{index}"), plot)) }
        @for table in &of.tables {
            @if !table.title.is_empty() { h4 { (printable(&table.title)) } }
            (scrollable(table, "table"))
        }
        @if !of.notes.is_empty() {
            ul.notes { @for note in &of.notes { li { (inline(note)) } } }
        }
        (raw(&of.raw))
    };
    html! {
        article id={ "e" (number) } aria-labelledby={ "e" (number) "-h" } {
            h2 id={ "e" (number) "-h" } {
                span.number { (number) } " " (printable(&of.name))
            }
            (part("claim", "Claim", &of.claim))
            (part("how", "How", &of.how))
            section.result {
                h3 { "Result" }
                @if result.0.is_empty() { p.muted { "Nothing was measured." } }
                (result)
            }
        }
    }
}

fn part(class: &str, name: &str, text: &str) -> Markup {
    let paragraphs = text.split("\n\n").map(str::trim);
    let paragraphs: Vec<&str> = paragraphs.filter(|text| !text.is_empty()).collect();
    html! {
        @if !paragraphs.is_empty() {
            section class=(class) {
                h3 { (name) }
                div { @for text in paragraphs { p { (inline(text)) } } }
            }
        }
    }
}

/// Text whose parts between backticks are code. A backtick without a partner stays.
pub(super) fn inline(text: &str) -> Markup {
    let parts: Vec<&str> = text.split('`').collect();
    let last = parts.len() - 1;
    html! {
        @for (index, part) in parts.into_iter().enumerate() {
            @if index % 2 == 0 { (printable(part)) }
            @else if index < last { code { (printable(part)) } }
            @else { "`" (printable(part)) }
        }
    }
}

fn figure(id: &str, plot: &Plot) -> Markup {
    let numbers = plot::table(plot);
    let is_wide = table::column_count(&numbers) > 4;
    html! {
        figure class=[is_wide.then_some("wide")] {
            figcaption { (printable(plot.title())) }
            div.drawing { (svg::draw(plot, id)) }
            (scrollable(&numbers, "numbers"))
        }
    }
}

/// A table in a frame that scrolls if the page is too narrow, by keyboard too.
fn scrollable(table: &Table, class: &str) -> Markup {
    let columns = table::column_count(table);
    html! {
        @if table.rows.is_empty() {
            p.muted { "No rows." }
        } @else {
            div class=(class) role="region" tabindex="0" aria-label=(printable(&table.title)) {
                table {
                    thead { tr { @for column in 0..columns { (header_cell(table, column)) } } }
                    tbody { @for cells in &table.rows { (row(table, cells, columns)) } }
                }
            }
        }
    }
}

fn header_cell(table: &Table, column: usize) -> Markup {
    let name = table.columns.get(column).map_or("", String::as_str);
    let class = table::is_numeric(table, column).then_some("n");
    let unit = table::shared_unit(table, column);
    let unit = unit.filter(|unit| !table::names_unit(name, unit));
    html! {
        @if name.is_empty() && unit.is_none() {
            td {}
        } @else {
            th scope="col" class=[class] {
                (printable(name))
                @if let Some(unit) = unit { (in_unit(unit)) }
            }
        }
    }
}

fn in_unit(unit: &str) -> Markup {
    html! { " " span.unit { (printable(unit)) } }
}

fn row(table: &Table, cells: &[Cell], columns: usize) -> Markup {
    let is_ours =
        matches!(cells.first().map(Cell::shown), Some(Cell::Text(name)) if plot::is_ours(name));
    // The same reason in a row of cells is one reason.
    let spans = std::iter::successors(Some((0, span(cells))), |&(column, span)| {
        let next = column + span;
        Some((next, self::span(&cells[next.min(cells.len())..])))
    });
    html! {
        tr class=[is_ours.then_some("ours")] {
            @for (column, span) in spans.take_while(|(column, _)| *column < columns) {
                @let unit_above = table::shared_unit(table, column).is_some();
                @let content = cell(cells.get(column), unit_above);
                @let class = (span > 1 || table::is_numeric(table, column)).then_some("n");
                @let colspan = (span > 1).then_some(span);
                @if column == 0 {
                    th scope="row" colspan=[colspan] class=[class] { (content) }
                } @else {
                    td colspan=[colspan] class=[class] { (content) }
                }
            }
        }
    }
}

/// How many cells from the first on are missing for the same stated reason; 1 if it is not.
fn span(cells: &[Cell]) -> usize {
    let Some(Cell::Missing(reason)) = cells.first().map(Cell::shown) else {
        return 1;
    };
    let same = |cell: &&Cell| matches!(cell.shown(), Cell::Missing(other) if other == reason);
    let count = cells.iter().take_while(same).count();
    if reason.is_empty() { 1 } else { count }
}

fn cell(of: Option<&Cell>, unit_above: bool) -> Markup {
    match of {
        None => html! {},
        Some(Cell::Measured { shown, mark, .. }) => html! {
            (cell(Some(shown), unit_above))
            @if !mark.is_empty() { " " strong { (printable(mark)) } }
        },
        Some(Cell::Text(text)) => inline(text),
        Some(Cell::Number {
            value,
            unit,
            digits,
        }) => html! {
            (fixed(*value, *digits, NARROW_SPACE))
            @if !unit_above && !unit.is_empty() { (in_unit(unit)) }
        },
        Some(Cell::Missing(reason)) => html! {
            span.muted { "—" @if !reason.is_empty() { " " (printable(reason)) } }
        },
    }
}

fn raw(raw: &serde_json::Value) -> Markup {
    let text = format!("{raw:#}");
    // Line breaks are kept here alone; a JSON text holds no other control character.
    let lines = || text.lines().map(printable).collect::<Vec<_>>().join("\n");
    html! {
        @if text.len() > RAW_BYTES_MAX {
            p.muted { "Raw data: " (text.len() / 1_024) " KiB, in the JSON file of this run." }
        } @else if !raw.is_null() {
            details {
                summary { "Raw data" }
                pre tabindex="0" { (lines()) }
            }
        }
    }
}

fn machine(machine: &Machine) -> Markup {
    html! {
        article #machine aria-labelledby="machine-h" {
            h2 #machine-h { "The machine" }
            dl { @for (name, value) in machine.facts() {
                dt { (name) } dd { (printable(&value)) }
            } }
        }
    }
}
