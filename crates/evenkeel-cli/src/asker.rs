//! Asks the source on a thread of its own: a process that does not answer must not hold up the
//! keys.
//!
//! The thread takes one question after the other, and ends when nobody is left who could ask. The
//! program does not wait for it: who quits beside a process that is stuck has quit.

use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread;

use evenkeel::stats::TaskInfo;
use evenkeel_admin::Snapshot;

use crate::error::TopError;
use crate::source::Source;

/// A question.
#[derive(Clone, Debug)]
enum Ask {
    Look { tasks: bool },
    Share { class: String, share: u32 },
}

/// What came of one.
#[derive(Debug)]
pub(crate) enum Answer {
    Look(Box<Looked>),
    /// A share was changed, or why it was not.
    Share(Result<(), TopError>),
}

/// What came of a look.
#[derive(Debug)]
pub(crate) struct Looked {
    /// `None` after the last snapshot of a file.
    pub(crate) snapshot: Result<Option<Snapshot>, TopError>,
    /// If they were asked for, and the snapshot came; within, `None` if they are not known.
    pub(crate) tasks: Option<Result<Option<Vec<TaskInfo>>, TopError>>,
}

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Asker {
    asks: Sender<Ask>,
    answers: Receiver<Answer>,
    /// The answer to a look is not there yet. Only one is under way at a time.
    looks: bool,
    /// How many answers to changes of shares are not there yet.
    changes: usize,
    name: String,
    is_live: bool,
    is_recording: bool,
}

impl Asker {
    pub(crate) fn start(source: Source) -> Result<Self, TopError> {
        let (name, is_live) = (source.name().to_owned(), source.is_live());
        let is_recording = source.is_recording();
        let ((asks, asked), (answer, answers)) = (channel(), channel());
        let thread = thread::Builder::new().name("asker".to_owned());
        let started = thread.spawn(move || answer_all(source, &asked, &answer));
        started.map_err(TopError::Thread)?;
        Ok(Self {
            asks,
            answers,
            looks: false,
            changes: 0,
            name,
            is_live,
            is_recording,
        })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn is_live(&self) -> bool {
        self.is_live
    }

    pub(crate) fn is_recording(&self) -> bool {
        self.is_recording
    }

    /// Whether an answer to a look is still to come.
    pub(crate) fn is_looking(&self) -> bool {
        self.looks
    }

    /// Whether shares may be others than a look has found that was begun before.
    pub(crate) fn is_changing(&self) -> bool {
        self.changes > 0
    }

    /// Asks for the next snapshot, unless that is being done.
    pub(crate) fn look(&mut self, tasks: bool) {
        self.looks = self.looks || self.asks.send(Ask::Look { tasks }).is_ok();
    }

    pub(crate) fn set_share(&mut self, class: String, share: u32) {
        let asked = self.asks.send(Ask::Share { class, share });
        // The thread ends before this only if it has panicked, which the terminal shows.
        self.changes += usize::from(asked.is_ok());
    }

    /// The next answer, if there is one.
    pub(crate) fn answer(&mut self) -> Option<Answer> {
        match self.answers.try_recv() {
            Ok(answer) => {
                match answer {
                    Answer::Look(_) => self.looks = false,
                    Answer::Share(_) => self.changes -= 1,
                }
                Some(answer)
            }
            Err(TryRecvError::Empty | TryRecvError::Disconnected) => None,
        }
    }
}

fn answer_all(mut source: Source, asked: &Receiver<Ask>, answers: &Sender<Answer>) {
    for ask in asked {
        let answer = match ask {
            Ask::Look { tasks } => {
                let snapshot = source.next();
                let asks = tasks && matches!(snapshot, Ok(Some(_)));
                let tasks = asks.then(|| source.tasks());
                Answer::Look(Box::new(Looked { snapshot, tasks }))
            }
            Ask::Share { class, share } => Answer::Share(source.set_share(&class, share)),
        };
        if answers.send(answer).is_err() {
            return;
        }
    }
}
