//! The screen of `top`.

mod draw;

use std::io;
use std::time::{Duration, Instant};

use evenkeel::stats::TaskInfo;
use evenkeel_admin::Snapshot;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};

use crate::busy::{Busy, busiest};
use crate::error::TopError;
use crate::keys::{Action, Choices};
use crate::source::Source;
use crate::view::View;

/// What is on the screen.
#[derive(Debug, Default)]
pub(crate) struct Shown {
    pub(crate) name: String,
    pub(crate) view: Option<View>,
    pub(crate) choices: Choices,
    pub(crate) tasks: Tasks,
    /// Why there are no newer figures, or what could not be changed.
    pub(crate) trouble: Option<String>,
    /// The last snapshot of a file is shown.
    pub(crate) over: bool,
}

/// What is known of the tasks.
#[derive(Debug, Default)]
pub(crate) struct Tasks {
    /// As they were at the last look.
    before: Option<Vec<TaskInfo>>,
    /// What they did between the last two looks; `None` if there were none.
    pub(crate) busy: Option<Vec<Busy>>,
    /// Neither a recording nor an older server has them.
    pub(crate) are_unknown: bool,
}

pub(crate) fn run(
    source: &mut Source,
    interval: Duration,
    first: Option<Snapshot>,
) -> Result<(), TopError> {
    let mut terminal = ratatui::try_init().map_err(TopError::Terminal)?;
    let ran = watch(&mut terminal, source, interval, first);
    ratatui::try_restore().map_err(TopError::Terminal)?;
    ran
}

fn watch(
    terminal: &mut DefaultTerminal,
    source: &mut Source,
    interval: Duration,
    first: Option<Snapshot>,
) -> Result<(), TopError> {
    let mut shown = Shown {
        name: source.name().to_owned(),
        ..Shown::default()
    };
    let mut before = first;
    let mut due = Instant::now() + interval;
    loop {
        let drawn = terminal.draw(|frame| draw::screen(frame, &shown));
        drawn.map_err(TopError::Terminal)?;
        let left = due.saturating_duration_since(Instant::now());
        if let Some(key) = next_key(left).map_err(TopError::Terminal)? {
            let shares = shown.view.iter().flat_map(|view| &view.classes);
            let shares: Vec<_> = shares.map(|class| class.share).collect();
            match shown.choices.take(key, &shares) {
                Action::Quit => return Ok(()),
                Action::Share(share) => change(source, &mut shown, share),
                Action::Nothing => {}
            }
        }
        if Instant::now() >= due {
            due = Instant::now() + interval;
            if !shown.choices.paused && !shown.over {
                refresh(source, &mut shown, &mut before);
            }
        }
    }
}

/// The next key, if one is pressed in time. `None` also for other events, such as a new size of the
/// terminal, after which the screen has to be drawn.
fn next_key(within: Duration) -> io::Result<Option<event::KeyEvent>> {
    if !event::poll(within)? {
        return Ok(None);
    }
    Ok(match event::read()? {
        Event::Key(key) if key.kind != KeyEventKind::Release => Some(key),
        _ => None,
    })
}

/// A process that does not answer may do so again: the last figures stay, with the reason.
fn refresh(source: &mut Source, shown: &mut Shown, before: &mut Option<Snapshot>) {
    match source.next() {
        Ok(Some(now)) => {
            if let Some(view) = before.as_ref().and_then(|before| View::new(before, &now)) {
                shown.view = Some(view);
            }
            shown.trouble = None;
            *before = Some(now);
            if shown.choices.tasks {
                refresh_tasks(source, shown);
            } else {
                // A difference over a longer time would not fit the other figures.
                shown.tasks = Tasks::default();
            }
        }
        Ok(None) => shown.over = true,
        Err(error) => shown.trouble = Some(error.to_string()),
    }
}

fn refresh_tasks(source: &Source, shown: &mut Shown) {
    let tasks = &mut shown.tasks;
    match source.tasks() {
        Ok(Some(now)) => {
            tasks.busy = tasks.before.as_ref().map(|before| busiest(before, &now));
            tasks.before = Some(now);
        }
        Ok(None) => tasks.are_unknown = true,
        Err(error) => shown.trouble = Some(error.to_string()),
    }
}

fn change(source: &Source, shown: &mut Shown, share: u32) {
    let Some(view) = &mut shown.view else {
        return;
    };
    let Some(class) = view.classes.get_mut(shown.choices.class) else {
        return;
    };
    match source.set_share(&class.name, share) {
        Ok(()) if source.is_live() => class.share = share,
        Ok(()) => shown.trouble = Some("a recording cannot be changed".to_owned()),
        Err(error) => shown.trouble = Some(error.to_string()),
    }
}
