//! The report as one page that stands alone.

use super::number::{NARROW_SPACE, fixed, printable};
use super::verdicts::Summary;
use super::{Cell, Experiment, Machine, Plot, Report, Table, plot, svg, table};

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
    let title = escape(&report.title);
    let contents: String = report
        .experiments
        .iter()
        .enumerate()
        .map(|(i, e)| contents_entry(i + 1, e))
        .collect();
    let experiments: String = report
        .experiments
        .iter()
        .enumerate()
        .map(|(i, e)| experiment(i + 1, e))
        .collect();
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
         <header>\n<h1>{title}</h1>\n{byline}</header>\n{verdicts}\
         <nav aria-label=\"Contents\">\n<h2>Contents</h2>\n<ol>\n{contents}</ol>\n\
         <p><a href=\"#machine\">The machine</a></p>\n</nav>\n\
         <main>\n{experiments}{machine}</main>\n</body>\n</html>\n",
        byline = byline(report),
        verdicts = verdicts(&Summary::of(report)),
        machine = machine(&report.machine),
    )
}

/// `text` made fit for HTML, in elements and in quoted attributes.
pub(super) fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in printable(text).chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            _ => safe.push(c),
        }
    }
    safe
}

fn byline(report: &Report) -> String {
    let machine = &report.machine;
    let mut text = format!(
        "<p class=\"byline\">{} · {}, {} cores · {}</p>\n",
        escape(&machine.date),
        escape(&machine.cpu_model),
        machine.cores,
        escape(&machine.kernel)
    );
    if let Some(rough) = &report.rough {
        text.push_str(&format!(
            "<p class=\"rough\" role=\"note\">{}</p>\n",
            inline(rough)
        ));
    }
    if !machine.noise.is_empty() {
        let noise: String = machine
            .noise
            .iter()
            .map(|noise| format!("<li>{}</li>\n", escape(noise)))
            .collect();
        text.push_str(&format!(
            "<aside class=\"noise\" aria-label=\"What may disturb these results\">\n\
             <ul>\n{noise}</ul>\n</aside>\n"
        ));
    }
    text
}

/// How many verdicts hold, and which do not: before all that they are of.
fn verdicts(summary: &Summary<'_>) -> String {
    let mut text = String::new();
    if let Some(count) = summary.count() {
        text.push_str(&format!("<p class=\"count\">{}</p>\n", escape(&count)));
    }
    let missed = summary.missed_table();
    if !missed.rows.is_empty() {
        text.push_str(&scrollable(&missed, "table"));
    }
    for words in summary.silent() {
        text.push_str(&format!("<p class=\"muted\">{}</p>\n", escape(&words)));
    }
    if let Some(caution) = summary.caution() {
        let commands = summary.commands();
        let commands: String = commands
            .iter()
            .map(|command| format!("<br><code>{}</code>", escape(command)))
            .collect();
        let caution = inline(&caution);
        text.push_str(&format!(
            "<p class=\"rough\" role=\"note\">{caution}{commands}</p>\n"
        ));
    }
    format!(
        "<section class=\"verdicts\" aria-labelledby=\"verdicts-h\">\n\
         <h2 id=\"verdicts-h\">Verdicts</h2>\n{text}</section>\n"
    )
}

fn contents_entry(number: usize, experiment: &Experiment) -> String {
    let claim = experiment.claim.split("\n\n").next().unwrap_or_default();
    format!(
        "<li><a href=\"#e{number}\">{}</a> <span>{}</span></li>\n",
        escape(&experiment.name),
        inline(claim)
    )
}

fn experiment(number: usize, experiment: &Experiment) -> String {
    let plots: String = experiment
        .plots
        .iter()
        .enumerate()
        .map(|(index, plot)| figure(&format!("e{number}p{}", index + 1), plot))
        .collect();
    let tables: String = experiment.tables.iter().map(captioned).collect();
    let notes: String = experiment
        .notes
        .iter()
        .map(|note| format!("<li>{}</li>\n", inline(note)))
        .collect();
    let notes = if notes.is_empty() {
        notes
    } else {
        format!("<ul class=\"notes\">\n{notes}</ul>\n")
    };
    let result = format!("{plots}{tables}{notes}{}", raw(&experiment.raw));
    format!(
        "<article id=\"e{number}\" aria-labelledby=\"e{number}-h\">\n\
         <h2 id=\"e{number}-h\"><span class=\"number\">{number}</span> {}</h2>\n\
         {}{}<section class=\"result\">\n<h3>Result</h3>\n{}</section>\n</article>\n",
        escape(&experiment.name),
        part("claim", "Claim", &experiment.claim),
        part("how", "How", &experiment.how),
        if result.is_empty() {
            "<p class=\"muted\">Nothing was measured.</p>\n"
        } else {
            &result
        },
    )
}

fn part(class: &str, name: &str, text: &str) -> String {
    let paragraphs: String = text
        .split("\n\n")
        .filter(|paragraph| !paragraph.trim().is_empty())
        .map(|paragraph| format!("<p>{}</p>\n", inline(paragraph.trim())))
        .collect();
    if paragraphs.is_empty() {
        return paragraphs;
    }
    format!("<section class=\"{class}\">\n<h3>{name}</h3>\n<div>\n{paragraphs}</div>\n</section>\n")
}

/// Escaped text whose parts between backticks are code. A backtick without a partner stays.
pub(super) fn inline(text: &str) -> String {
    let parts: Vec<&str> = text.split('`').collect();
    let mut html = String::new();
    for (index, part) in parts.iter().enumerate() {
        let is_code = index % 2 == 1;
        match (is_code, index + 1 == parts.len()) {
            (true, false) => html.push_str(&format!("<code>{}</code>", escape(part))),
            (true, true) => html.push_str(&format!("`{}", escape(part))),
            (false, _) => html.push_str(&escape(part)),
        }
    }
    html
}

fn figure(id: &str, plot: &Plot) -> String {
    let numbers = plot::table(plot);
    let wide = if table::column_count(&numbers) > 4 {
        " class=\"wide\""
    } else {
        ""
    };
    format!(
        "<figure{wide}>\n<figcaption>{}</figcaption>\n\
         <div class=\"drawing\">\n{}</div>\n{}</figure>\n",
        escape(plot.title()),
        svg::draw(plot, id),
        scrollable(&numbers, "numbers"),
    )
}

fn captioned(table: &Table) -> String {
    let title = if table.title.is_empty() {
        String::new()
    } else {
        format!("<h4>{}</h4>\n", escape(&table.title))
    };
    format!("{title}{}", scrollable(table, "table"))
}

/// A table in a frame that scrolls if the page is too narrow, by keyboard too.
fn scrollable(table: &Table, class: &str) -> String {
    if table.rows.is_empty() {
        return "<p class=\"muted\">No rows.</p>\n".to_owned();
    }
    let columns = table::column_count(table);
    let header: String = (0..columns)
        .map(|column| header_cell(table, column))
        .collect();
    let rows: String = table
        .rows
        .iter()
        .map(|cells| row(table, cells, columns))
        .collect();
    format!(
        "<div class=\"{class}\" role=\"region\" tabindex=\"0\" aria-label=\"{}\">\n<table>\n\
         <thead>\n<tr>{header}</tr>\n</thead>\n<tbody>\n{rows}</tbody>\n</table>\n</div>\n",
        escape(&table.title)
    )
}

fn header_cell(table: &Table, column: usize) -> String {
    let name = table.columns.get(column).map_or("", String::as_str);
    let class = if table::is_numeric(table, column) {
        " class=\"n\""
    } else {
        ""
    };
    let unit = table::shared_unit(table, column)
        .filter(|unit| !table::names_unit(name, unit))
        .map_or_else(String::new, |unit| {
            format!(" <span class=\"unit\">{}</span>", escape(unit))
        });
    if name.is_empty() && unit.is_empty() {
        return "<td></td>".to_owned();
    }
    format!("<th scope=\"col\"{class}>{}{unit}</th>", escape(name))
}

fn row(table: &Table, cells: &[Cell], columns: usize) -> String {
    let ours = matches!(cells.first(), Some(Cell::Text(name)) if plot::is_ours(name));
    let class = if ours { " class=\"ours\"" } else { "" };
    let mut text = String::new();
    let mut column = 0;
    while column < columns {
        // The same reason in a row of cells is one reason.
        let span = same_reason(&cells[column.min(cells.len())..]);
        let class = match (table::is_numeric(table, column), span) {
            (_, 2..) => format!(" colspan=\"{span}\" class=\"n\""),
            (true, _) => " class=\"n\"".to_owned(),
            (false, _) => String::new(),
        };
        let (tag, scope) = if column == 0 {
            ("th", " scope=\"row\"")
        } else {
            ("td", "")
        };
        let unit_above = table::shared_unit(table, column).is_some();
        let content = cell(cells.get(column), unit_above);
        text.push_str(&format!("<{tag}{scope}{class}>{content}</{tag}>"));
        column += span;
    }
    format!("<tr{class}>{text}</tr>\n")
}

/// How many cells from the first on are missing for the same stated reason; 1 if it is not.
fn same_reason(cells: &[Cell]) -> usize {
    let Some(Cell::Missing(reason)) = cells.first().filter(|_| cells.len() > 1) else {
        return 1;
    };
    let same = |cell: &&Cell| matches!(cell, Cell::Missing(other) if other == reason);
    if reason.is_empty() {
        1
    } else {
        cells.iter().take_while(same).count()
    }
}

fn cell(cell: Option<&Cell>, unit_above: bool) -> String {
    match cell {
        None => String::new(),
        Some(Cell::Text(text)) => inline(text),
        Some(Cell::Number {
            value,
            unit,
            digits,
        }) => {
            let value = fixed(*value, *digits, NARROW_SPACE);
            if unit_above || unit.is_empty() {
                value
            } else {
                format!("{value} <span class=\"unit\">{}</span>", escape(unit))
            }
        }
        Some(Cell::Missing(reason)) if reason.is_empty() => {
            "<span class=\"muted\">—</span>".to_owned()
        }
        Some(Cell::Missing(reason)) => format!("<span class=\"muted\">— {}</span>", escape(reason)),
    }
}

fn raw(raw: &serde_json::Value) -> String {
    if raw.is_null() {
        return String::new();
    }
    let text = format!("{raw:#}");
    if text.len() > RAW_BYTES_MAX {
        let size = text.len() / 1_024;
        return format!(
            "<p class=\"muted\">Raw data: {size} KiB, in the JSON file of this run.</p>\n"
        );
    }
    // Line breaks are kept here alone; a JSON text holds no other control character.
    let lines: Vec<String> = text.lines().map(escape).collect();
    format!(
        "<details>\n<summary>Raw data</summary>\n<pre tabindex=\"0\">{}</pre>\n</details>\n",
        lines.join("\n")
    )
}

fn machine(machine: &Machine) -> String {
    let facts: String = machine
        .facts()
        .into_iter()
        .map(|(name, value)| format!("<dt>{name}</dt><dd>{}</dd>\n", escape(&value)))
        .collect();
    format!(
        "<article id=\"machine\" aria-labelledby=\"machine-h\">\n\
         <h2 id=\"machine-h\">The machine</h2>\n<dl>\n{facts}</dl>\n</article>\n"
    )
}
