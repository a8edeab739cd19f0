//! Drawing: pure, so that a test can look at what is drawn.

use evenkeel::stats::LaneStats;
use evenkeel::stats::show::{AtMost, Count, Percent, Time};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Row, Table};

use super::Shown;
use crate::view::{ClassRow, Rates, STATES, View};

const COLORS: [Color; STATES.len()] = [
    Color::Blue,
    Color::Green,
    Color::Yellow,
    Color::Magenta,
    Color::LightRed,
    Color::DarkGray,
];
/// A letter for each state, so that colours are not needed.
const MARKS: [char; STATES.len()] = ['#', '=', '~', '?', '+', '.'];
const KEYS: &str = "q quit  space pause  s sort hogs  t tasks/hogs  up/down class  +/- share";

pub(super) fn screen(frame: &mut Frame<'_>, shown: &Shown) {
    let Some(view) = &shown.view else {
        let text = shown
            .trouble
            .as_deref()
            .unwrap_or("waiting for the first figures");
        frame.render_widget(
            Paragraph::new(format!("{}: {text}", shown.name)),
            frame.area(),
        );
        return;
    };
    // Workers get at most a third, as their number is that of the processors.
    let height = frame.area().height;
    let rows = |count: usize| u16::try_from(count).unwrap_or(u16::MAX).min(height);
    let workers = rows(view.workers.len()).min(height / 3) + 1;
    // So do classes, of which there may be many: those around the chosen one are shown.
    let classes_shown = rows(view.classes.len()).min((height / 3).max(CLASSES_MIN));
    let [head, bars, io, classes, hogs, lanes, foot] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(workers),
        Constraint::Length(3),
        Constraint::Length(classes_shown.saturating_add(2)),
        Constraint::Min(3),
        Constraint::Length(rows(lanes_used(view).count()).min(5) + 2),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    frame.render_widget(title(shown, view), head);
    frame.render_widget(Paragraph::new(worker_bars(view, bars)), bars);
    frame.render_widget(Paragraph::new(io_lines(&view.rates)), io);
    let table = class_table(view, shown.choices.class, classes_shown.into());
    frame.render_widget(table, classes);
    if shown.choices.tasks {
        frame.render_widget(task_table(view, shown), hogs);
    } else {
        frame.render_widget(hog_table(view, shown), hogs);
    }
    frame.render_widget(lane_table(view), lanes);
    frame.render_widget(footer(shown), foot);
}

/// So many classes are shown in the lowest terminal.
const CLASSES_MIN: u16 = 4;

fn title(shown: &Shown, view: &View) -> Line<'static> {
    let rates = &view.rates;
    let cpu = rates.cpu.map_or_else(String::new, |cpu| {
        format!(", {} of a processor", Percent(cpu))
    });
    let memory = rates
        .memory
        .map_or_else(String::new, |bytes| format!(", {}B", Count(bytes)));
    let name = Span::styled(shown.name.clone(), Modifier::BOLD);
    let rest = format!(
        "  up {}, utilisation {}, occupancy {}{cpu}{memory}",
        Time::of(view.up),
        Percent(view.utilisation),
        Percent(view.occupancy)
    );
    Line::from(vec![name, Span::raw(rest)])
}

fn footer(shown: &Shown) -> Line<'static> {
    let alarm = Style::new().fg(Color::Red);
    match &shown.trouble {
        Some(trouble) => Line::styled(trouble.clone(), alarm),
        None if shown.over => Line::raw(format!("the end of the recording   {KEYS}")),
        None if shown.choices.paused => Line::styled(format!("PAUSED   {KEYS}"), Modifier::BOLD),
        None => Line::styled(KEYS, Style::new().fg(Color::DarkGray)),
    }
}

fn worker_bars(view: &View, area: Rect) -> Vec<Line<'static>> {
    let width = usize::from(area.width).saturating_sub(16);
    let legend = STATES.iter().zip(MARKS).zip(COLORS);
    let legend = legend.flat_map(|((state, mark), color)| {
        [
            Span::styled(mark.to_string(), Style::new().fg(color)),
            Span::raw(format!(" {state}  ")),
        ]
    });
    let mut lines = vec![Line::from_iter(
        [Span::raw("workers  ")].into_iter().chain(legend),
    )];
    let rows = view.workers.iter().enumerate();
    lines.extend(rows.map(|(index, states)| worker_bar(index, states, width)));
    lines
}

fn worker_bar(index: usize, states: &[f64; STATES.len()], width: usize) -> Line<'static> {
    let mut spans = vec![Span::raw(format!("{index:>4} "))];
    // By where each state ends, so that the rounding of one does not shift the others.
    let (mut end, mut drawn) = (0.0, 0);
    for (state, part) in states.iter().enumerate() {
        end += part;
        let until = ((end * width as f64).round() as usize).clamp(drawn, width);
        let text = MARKS[state].to_string().repeat(until - drawn);
        spans.push(Span::styled(text, Style::new().fg(COLORS[state])));
        drawn = until;
    }
    let pad = " ".repeat(width - drawn);
    spans.push(Span::raw(format!("{pad} {:>8}", Percent(states[0]))));
    Line::from(spans)
}

fn io_lines(rates: &Rates) -> Vec<Line<'static>> {
    let count = |value: f64| Count(value.round() as u64);
    vec![
        Line::default(),
        Line::raw(format!(
            "in {}/s, {}B/s   out {}/s, {}B/s   checks {}/s, {} apart   events {}/s",
            count(rates.inputs),
            count(rates.bytes_in),
            count(rates.outputs),
            count(rates.bytes_out),
            count(rates.checks),
            Time(rates.loop_time),
            count(rates.events),
        )),
        Line::raw(format!(
            "polls {}/s   ready {}   tasks {}   timers {}   descriptors {}",
            count(rates.polls),
            Count(rates.ready as u64),
            Count(rates.tasks as u64),
            Count(rates.timers as u64),
            Count(rates.descriptors as u64),
        )),
    ]
}

fn head<const N: usize>(cells: [&'static str; N]) -> Row<'static> {
    Row::new(cells)
        .style(Style::new().add_modifier(Modifier::UNDERLINED))
        .top_margin(1)
}

/// The classes of which as many are shown as fit, up to the chosen one.
fn class_table(view: &View, chosen: usize, fit: usize) -> Table<'static> {
    let classes = view.classes.iter().enumerate();
    let shown = classes.skip((chosen + 1).saturating_sub(fit)).take(fit);
    let rows = shown.map(|(index, class)| {
        let style = if index == chosen {
            Style::new().add_modifier(Modifier::REVERSED)
        } else {
            Style::new()
        };
        Row::new([
            class.name.clone(),
            class.share.to_string(),
            Percent(class.wanted).to_string(),
            Percent(class.got).to_string(),
            Count(class.polls.round() as u64).to_string(),
            Count(class.ready as u64).to_string(),
            Time(class.oldest).to_string(),
            Time(class.wait_half).to_string(),
            Time(class.wait_most).to_string(),
            AtMost(class.longest_poll).to_string(),
            hogs_of(class),
        ])
        .style(style)
    });
    let widths = [12, 6, 8, 8, 8, 8, 8, 8, 8, 10, 16].map(Constraint::Length);
    let names = [
        "class", "share", "wanted", "got", "polls/s", "ready", "oldest", "wait p50", "wait p99",
        "longest", "hogs",
    ];
    Table::new(rows, widths).header(head(names))
}

/// How many, and if one is under way, for how long.
fn hogs_of(class: &ClassRow) -> String {
    let count = Count(class.hogs);
    match class.hogging {
        0 => count.to_string(),
        _ => format!("{count}, {}..", Time::of(class.oldest_hog)),
    }
}

fn hog_table(view: &View, shown: &Shown) -> Table<'static> {
    let (mut hogs, mut functions) = (view.hogs.clone(), view.functions.clone());
    shown.choices.sort.sort(&mut hogs, &mut functions);
    let functions = functions.iter().map(|it| {
        let class = view.names.get(it.class.index());
        let callee = it.callee.iter().map(|callee| format!(" > {callee}"));
        let within = it.within().map(|within| format!(", within {within}"));
        let doing: String = callee.chain(within).collect();
        Row::new([
            Count(it.count).to_string(),
            Time::of(it.mean()).to_string(),
            Time::of(it.longest).to_string(),
            class.cloned().unwrap_or_else(|| it.class.to_string()),
            format!("in {}{doing}", it.function),
        ])
    });
    let kinds = hogs.iter().map(|hog| {
        let mean = hog
            .total
            .checked_div(u32::try_from(hog.count).unwrap_or(u32::MAX));
        let class = view.names.get(hog.class.index());
        Row::new([
            Count(hog.count).to_string(),
            Time(mean).to_string(),
            Time::of(hog.longest).to_string(),
            class.cloned().unwrap_or_else(|| hog.class.to_string()),
            match &hog.name {
                Some(name) => format!("{name} {}", hog.spawned_at),
                None => format!("{} {}", hog.spawned_at, hog.future),
            },
        ])
    });
    let widths = [
        Constraint::Length(8),
        Constraint::Length(8),
        Constraint::Length(8),
        Constraint::Length(10),
        Constraint::Min(20),
    ];
    let rows = functions.chain(kinds);
    let names = ["hogs", "mean", "longest", "class", "spawned at"];
    let caption = format!("by {}", shown.choices.sort.name());
    let table = Table::new(rows, widths).header(head(names));
    // The last column is wide enough for it.
    let footer = ["", "", "", "", caption.as_str()].map(str::to_owned);
    table.footer(Row::new(footer).style(Style::new().fg(Color::DarkGray)))
}

fn task_table(view: &View, shown: &Shown) -> Table<'static> {
    let busy = shown.tasks.busy.as_deref().unwrap_or_default();
    let rows = busy.iter().map(|busy| {
        let task = &busy.task;
        let class = view.names.get(task.class.index());
        Row::new([
            Time::of(busy.run).to_string(),
            Time(Some(busy.blocked).filter(|it| !it.is_zero())).to_string(),
            Count(u64::from(busy.polls)).to_string(),
            Time::of(task.longest).to_string(),
            task.state.to_string(),
            class.cloned().unwrap_or_else(|| task.class.to_string()),
            match &task.name {
                Some(name) => format!("{name} {}", task.spawned_at),
                None => format!("{} {}", task.spawned_at, task.future),
            },
        ])
    });
    let widths = [
        Constraint::Length(8),
        Constraint::Length(8),
        Constraint::Length(8),
        Constraint::Length(8),
        Constraint::Length(8),
        Constraint::Length(10),
        Constraint::Min(20),
    ];
    let last = match &shown.tasks.busy {
        Some(_) => "spawned at; the busiest since the last look first",
        None if shown.tasks.are_unknown => "the list of tasks is not known here",
        None => "waiting for the tasks",
    };
    let names = ["ran", "blocked", "polls", "longest", "state", "class", last];
    Table::new(rows, widths).header(head(names))
}

fn lanes_used(view: &View) -> impl Iterator<Item = &LaneStats> {
    view.lanes
        .iter()
        .filter(|lane| lane.threads > 0 || lane.queued > 0)
}

fn lane_table(view: &View) -> Table<'static> {
    let rows = lanes_used(view).map(|lane| {
        Row::new([
            lane.name.clone(),
            format!("{}/{}", lane.busy, lane.limit),
            Count(lane.queued as u64).to_string(),
            Count((lane.done as f64 / view.seconds).round() as u64).to_string(),
            Count(lane.refused.saturating_add(lane.expired)).to_string(),
            Time(lane.waits.quantile(0.99)).to_string(),
            Time(lane.runs.quantile(0.99)).to_string(),
        ])
    });
    let widths = [20, 10, 8, 8, 8, 8, 8].map(Constraint::Length);
    let names = [
        "lane", "busy", "queued", "done/s", "refused", "wait p99", "run p99",
    ];
    Table::new(rows, widths).header(head(names))
}

#[cfg(test)]
mod tests;
