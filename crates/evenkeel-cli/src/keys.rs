//! What keys do.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use crate::view::Sort;

/// What the user has chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Choices {
    pub(crate) paused: bool,
    pub(crate) sort: Sort,
    /// The busiest tasks are shown instead of the hogs.
    pub(crate) tasks: bool,
    /// The index of the class whose share `+` and `-` change.
    pub(crate) class: usize,
}

/// What is to be done besides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Nothing,
    Quit,
    /// Changes the chosen class's share.
    Share(u32),
}

/// The largest share.
const SHARE_MAX: u32 = 10_000;

impl Choices {
    /// `shares` are those of the classes.
    pub(crate) fn take(&mut self, key: KeyEvent, shares: &[u32]) -> Action {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        let share = shares.get(self.class).copied();
        // A tenth, so that a share of any size is soon another.
        let step = share.map_or(0, |share| (share / 10).max(1));
        match key.code {
            KeyCode::Char('c') if control => return Action::Quit,
            KeyCode::Char('q') | KeyCode::Esc => return Action::Quit,
            KeyCode::Char(' ' | 'p') => self.paused = !self.paused,
            KeyCode::Char('s') => self.sort = self.sort.next(),
            KeyCode::Char('t') => self.tasks = !self.tasks,
            KeyCode::Up => self.class = self.class.saturating_sub(1),
            KeyCode::Down => self.class = (self.class + 1).min(shares.len().saturating_sub(1)),
            KeyCode::Char('+' | '=') => {
                if let Some(share) = share {
                    return Action::Share((share + step).min(SHARE_MAX));
                }
            }
            KeyCode::Char('-') => {
                if let Some(share) = share {
                    return Action::Share((share - step.min(share)).max(1));
                }
            }
            _ => {}
        }
        Action::Nothing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn press(choices: &mut Choices, code: KeyCode) -> Action {
        choices.take(KeyEvent::from(code), &[30, 50, 1])
    }

    #[test]
    fn keys_pause_sort_choose_and_change() {
        let mut choices = Choices::default();
        assert_eq!(press(&mut choices, KeyCode::Char(' ')), Action::Nothing);
        assert!(choices.paused);
        press(&mut choices, KeyCode::Char('s'));
        assert_eq!(choices.sort, Sort::Count);
        press(&mut choices, KeyCode::Char('t'));
        assert!(choices.tasks);
        press(&mut choices, KeyCode::Char('t'));
        assert!(!choices.tasks);
        assert_eq!(press(&mut choices, KeyCode::Char('+')), Action::Share(33));
        assert_eq!(press(&mut choices, KeyCode::Char('-')), Action::Share(27));
        for _ in 0..5 {
            press(&mut choices, KeyCode::Down);
        }
        assert_eq!(choices.class, 2, "the last");
        assert_eq!(press(&mut choices, KeyCode::Char('-')), Action::Share(1));
        for _ in 0..5 {
            press(&mut choices, KeyCode::Up);
        }
        assert_eq!(choices.class, 0);
        assert_eq!(press(&mut choices, KeyCode::Char('q')), Action::Quit);
        let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(choices.take(interrupt, &[]), Action::Quit);
        assert_eq!(
            choices.take(KeyEvent::from(KeyCode::Char('+')), &[]),
            Action::Nothing
        );
    }
}
