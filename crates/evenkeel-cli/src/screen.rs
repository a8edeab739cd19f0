//! The screen of `top`.

mod draw;

use std::io;
use std::time::{Duration, Instant};

use evenkeel::stats::TaskInfo;
use evenkeel_admin::Snapshot;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};

use crate::asker::{Answer, Asker, Looked};
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
    source: Source,
    interval: Duration,
    first: Option<Snapshot>,
) -> Result<(), TopError> {
    let asker = Asker::start(source)?;
    let mut terminal = ratatui::try_init().map_err(TopError::Terminal)?;
    let ran = watch(&mut terminal, asker, interval, first);
    ratatui::try_restore().map_err(TopError::Terminal)?;
    ran
}

fn watch(
    terminal: &mut DefaultTerminal,
    mut asker: Asker,
    interval: Duration,
    first: Option<Snapshot>,
) -> Result<(), TopError> {
    let mut shown = Shown {
        name: asker.name().to_owned(),
        ..Shown::default()
    };
    let mut before = first;
    let mut due = Instant::now() + interval;
    loop {
        let drawn = terminal.draw(|frame| draw::screen(frame, &shown));
        drawn.map_err(TopError::Terminal)?;
        match next(&mut asker, due).map_err(TopError::Terminal)? {
            Next::Key(key) => {
                let shares = shown.view.iter().flat_map(|view| &view.classes);
                let shares: Vec<_> = shares.map(|class| class.share).collect();
                match shown.choices.take(key, &shares) {
                    Action::Quit => return Ok(()),
                    Action::Share(share) => change(&mut asker, &mut shown, share),
                    Action::Nothing => {}
                }
            }
            Next::Answer(Answer::Look(looked)) => {
                take(*looked, asker.is_changing(), &mut shown, &mut before);
            }
            Next::Answer(Answer::Share(Err(error))) => shown.trouble = Some(error.to_string()),
            Next::Answer(Answer::Share(Ok(()))) | Next::Size => {}
            Next::Due => {
                due = Instant::now() + interval;
                // What is recorded has no gaps.
                if (!shown.choices.paused || asker.is_recording()) && !shown.over {
                    asker.look(shown.choices.tasks && !shown.choices.paused);
                }
            }
        }
    }
}

/// What happens next.
enum Next {
    Key(event::KeyEvent),
    /// Such as a new size of the terminal, after which the screen has to be drawn.
    Size,
    Answer(Answer),
    /// It is time for the next look.
    Due,
}

/// How often answers are looked for while one is to come.
const LOOKS_FOR_ANSWERS: Duration = Duration::from_millis(10);

fn next(asker: &mut Asker, due: Instant) -> io::Result<Next> {
    loop {
        if let Some(answer) = asker.answer() {
            return Ok(Next::Answer(answer));
        }
        let left = due.saturating_duration_since(Instant::now());
        // Keys first: a process that is stuck is due again and again.
        let within = if asker.is_looking() {
            left.clamp(Duration::from_millis(1), LOOKS_FOR_ANSWERS)
        } else {
            left
        };
        if event::poll(within)? {
            return Ok(match event::read()? {
                Event::Key(key) if key.kind != KeyEventKind::Release => Next::Key(key),
                _ => Next::Size,
            });
        }
        if Instant::now() >= due {
            return Ok(Next::Due);
        }
    }
}

/// A process that does not answer may do so again: the last figures stay, with the reason. So do
/// they in a pause, in which snapshots are only recorded. While shares are being changed, the ones
/// that keys have made stay: this look may have been begun before.
fn take(looked: Looked, is_changing: bool, shown: &mut Shown, before: &mut Option<Snapshot>) {
    match looked.snapshot {
        Ok(Some(now)) => {
            shown.trouble = None;
            if !shown.choices.paused {
                if let Some(mut view) = before.as_ref().and_then(|before| View::new(before, &now)) {
                    if let Some(old) = shown.view.as_ref().filter(|_| is_changing) {
                        view.keep_shares(old);
                    }
                    shown.view = Some(view);
                }
                take_tasks(looked.tasks, shown);
            }
            *before = Some(now);
        }
        Ok(None) => shown.over = true,
        Err(error) => shown.trouble = Some(error.to_string()),
    }
}

fn take_tasks(found: Option<Result<Option<Vec<TaskInfo>>, TopError>>, shown: &mut Shown) {
    let tasks = &mut shown.tasks;
    match found {
        Some(Ok(Some(now))) => {
            tasks.busy = tasks.before.as_ref().map(|before| busiest(before, &now));
            tasks.before = Some(now);
        }
        Some(Ok(None)) => tasks.are_unknown = true,
        Some(Err(error)) => shown.trouble = Some(error.to_string()),
        // A difference over a longer time would not fit the other figures.
        None => *tasks = Tasks::default(),
    }
}

/// Shows the share at once, so that the next key goes by it. If it is refused, the next look has
/// the one that stayed.
fn change(asker: &mut Asker, shown: &mut Shown, share: u32) {
    let mut classes = shown.view.iter_mut().flat_map(|view| &mut view.classes);
    let Some(class) = classes.nth(shown.choices.class) else {
        return;
    };
    if asker.is_live() {
        class.share = share;
        asker.set_share(class.name.clone(), share);
    } else {
        shown.trouble = Some("a recording cannot be changed".to_owned());
    }
}
