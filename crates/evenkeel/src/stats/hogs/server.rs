//! The thread that makes names of stacks.
//!
//! It starts when there is a stack, has the lowest priority, and ends when none has come for a
//! while. What it has learned, such as the symbols of addresses, is dropped then.
//!
//! Who says in the end what was done waits for the names. Another thread, of ordinary priority,
//! then takes over from the one that may not get on, and ends when it is done.

use std::collections::HashMap;
use std::panic::Location;
use std::sync::Weak;
use std::time::Duration;

use crate::blocking;
use crate::class::Class;
use crate::sched::HogReport;
use crate::sched::desk::Ended;
use crate::sched::shared::Shared;
#[cfg(feature = "drop-in")]
use crate::sched::stacks::TakeOver;
use crate::sched::stacks::{Caught, Event, PollId, ServerId, Stacks};
use crate::stats::dump::DumpFrame;
use crate::stats::symbols::{Symbols, without_closures};
use crate::sync::Arc;
use crate::sync::thread::{self, Builder};
use crate::sys::memory;
use crate::sys::thread::{NICE_MAX, current, lower};

use super::frames::Frames;
use super::naming::{Name, OwnCrates, cut};
use super::{HogNames, Names};

/// How often it looks for events, and after how many looks in vain it waits to be called.
const LOOK: Duration = Duration::from_millis(10);
const LOOKS_MAX: u32 = 20;
/// How often who waits for names looks whether they are there.
#[cfg(feature = "drop-in")]
const LOOK_AGAIN: Duration = Duration::from_millis(1);
/// How long it waits until it drops what it has learned, and ends. To read the program's tables
/// again takes some tenths of a second at low priority, so this is not done for each of hogs that
/// come every few seconds.
const LINGERS: Duration = Duration::from_secs(10);
/// How many polls are remembered at most. One whose end is never told is forgotten some time.
const POLLS_MAX: usize = 1024;

/// What it keeps while it goes on.
struct Tools {
    frames: Frames,
    symbols: Symbols,
    own: OwnCrates,
}

/// Polls whose stacks have names.
pub(super) type Polls = HashMap<PollId, Named>;

/// A poll whose stack was taken.
pub(super) struct Named {
    name: Name,
    within: Option<String>,
    /// Its last stack, for the time that is left when it ends.
    folded: String,
    class: Class,
    spawned_at: super::Site,
}

impl Tools {
    fn new() -> Self {
        Self {
            frames: Frames::new(),
            symbols: Symbols::default(),
            own: OwnCrates::default(),
        }
    }
}

/// What the thread holds. It keeps nothing alive that has to end with the runtime, such as
/// descriptors.
struct Server {
    id: ServerId,
    /// It took over, and ends as soon as all have names.
    hurries: bool,
    stacks: Arc<Stacks>,
    names: Arc<Names>,
    runtime: Weak<Shared>,
}

/// Starts the thread. If the system refuses, the reports that wait are delivered without names.
pub(crate) fn start(shared: &Arc<Shared>, id: ServerId) {
    start_one(shared, id, false);
}

/// Waits until all stacks have names that were taken so far, at most until then. A thread of
/// ordinary priority makes them, from where the usual one is.
#[cfg(feature = "drop-in")]
pub(crate) fn finish(shared: &Arc<Shared>, until: std::time::Instant) {
    while crate::clock::now() < until {
        match shared.stacks.take_over() {
            TakeOver::Done(id) => start_one(shared, id, true),
            TakeOver::NothingToDo => return,
            TakeOver::Busy => thread::sleep(LOOK_AGAIN),
        }
    }
}

fn start_one(shared: &Arc<Shared>, id: ServerId, hurries: bool) {
    let name = format!("{}-names", shared.config.thread_name);
    let server = Server {
        id,
        hurries,
        stacks: Arc::clone(&shared.stacks),
        names: Arc::clone(&shared.extensions.get::<HogNames>().0),
        runtime: Arc::downgrade(shared),
    };
    if Builder::new()
        .name(name)
        .spawn(move || server.run())
        .is_err()
    {
        let reports = shared.stacks.refuse_serving();
        reports
            .into_iter()
            .for_each(|it| (shared.on_hog.deliver)(shared, it));
    }
}

/// Says that nobody takes the events any more, unless another thread has begun to.
struct GivesUp<'a>(&'a Server);

impl Drop for GivesUp<'_> {
    fn drop(&mut self) {
        let Self(server) = self;
        let gives_up = server.stacks.is_closed() || thread::panicking();
        if gives_up && server.stacks.is_server(server.id) {
            server.deliver(server.stacks.give_up_serving());
        }
    }
}

impl Server {
    fn run(&self) {
        if !self.hurries {
            let _ = lower(current(), NICE_MAX);
        }
        // Also after a panic in what reads the program's tables.
        let _done = GivesUp(self);
        let mut tools = Some(Tools::new());
        let mut looks = 0;
        while !self.stacks.is_closed() && self.stacks.is_server(self.id) {
            let ends = self.hurries || tools.is_none();
            if let Some(event) = self.stacks.next(self.id, ends) {
                looks = 0;
                self.take_in(tools.get_or_insert_with(Tools::new), event);
            } else if ends {
                return;
            } else {
                let rests = looks >= LOOKS_MAX;
                self.deliver_late(rests);
                looks += 1;
                if !rests {
                    thread::sleep(LOOK);
                } else if !self.stacks.linger(LINGERS) {
                    tools = None;
                    // Unless another thread goes on with them.
                    let polls = &self.names.polls;
                    self.stacks.put_down(self.id, || polls.lock().clear());
                    self.give_back();
                }
            }
        }
        if self.stacks.is_server(self.id) {
            // The runtime ends, and waits for this a while.
            self.deliver(self.stacks.rest_of_reports());
        }
    }

    /// Has the memory that is free now given back to the system: most of it is not on its own, and
    /// the next thread may use another heap. Workers that allocate wait for whoever does it, so it
    /// is a thread of their priority.
    fn give_back(&self) {
        if let (Some(trim), Some(shared)) = (memory::TRIM, self.runtime.upgrade()) {
            drop(blocking::spawn(&shared, Location::caller(), trim));
        }
    }

    fn take_in(&self, tools: &mut Tools, event: Event) {
        let mut reports = Vec::new();
        match event {
            Event::Caught(caught) => {
                if self.name(tools, &caught) {
                    reports.extend(self.stacks.reports_of(caught.poll));
                }
            }
            Event::Ended { end, rest } => {
                self.stacks.put_down(self.id, || self.end(&end, rest));
            }
            Event::Report(poll, report) => {
                let is_named = self.names.polls.lock().contains_key(&poll);
                let ready = if is_named {
                    Some(report)
                } else {
                    self.stacks.put_off(poll, report)
                };
                reports.extend(ready.map(|report| (poll, report)));
            }
        }
        self.deliver(reports.into_iter().map(|it| self.filled(it)).collect());
    }

    /// A poll has ended, of whose cycles its stacks do not stand for the rest.
    fn end(&self, end: &Ended, rest: u64) {
        let named = self.names.polls.lock().remove(&end.poll);
        let Some(named) = named else {
            return self.stacks.unnamed(end);
        };
        let [length, rest] = [end.length, rest].map(|cycles| self.stacks.to_duration(cycles));
        let mut table = self.names.table.lock();
        table.add(&named.folded, rest);
        let row = table.row(named.name, named.class);
        row.ended += 1;
        row.blocked += u64::from(end.blocked);
        row.total += length;
        row.longest = row.longest.max(length);
    }

    /// Delivers reports whose stacks did not come; `all` of them before the thread ends.
    fn deliver_late(&self, all: bool) {
        let late = self.stacks.late_reports(all).into_iter();
        self.deliver(late.map(|it| self.filled(it)).collect());
    }

    fn deliver(&self, reports: Vec<HogReport>) {
        for report in reports {
            if let Some(shared) = self.runtime.upgrade() {
                (shared.on_hog.deliver)(&shared, report);
            }
        }
    }
}

impl Server {
    /// Makes a name of a stack. Returns false if another thread has taken over meanwhile, which
    /// does it again.
    fn name(&self, tools: &mut Tools, caught: &Caught) -> bool {
        tools.own.learn(&caught.kind);
        let addresses = tools.frames.of(&caught.stack);
        let frames = tools.symbols.frames(&addresses);
        let future = caught.kind.future.name();
        let name = tools.own.name(&frames, future, caught.blocked);
        let folded = fold(future, &frames);
        self.stacks.put_down(self.id, || {
            // One without a frame has none.
            if let Some(name) = name {
                self.count(caught, name, folded);
            }
        })
    }

    fn count(&self, caught: &Caught, name: Name, folded: String) {
        let mut table = self.names.table.lock();
        table.add(&folded, self.stacks.to_duration(caught.weight));
        let mut polls = self.names.polls.lock();
        if let Some(named) = polls.get_mut(&caught.poll) {
            named.folded = folded;
            return;
        }
        let class = caught.kind.class;
        let spawned_at = super::Site::from(caught.kind.spawned_at);
        let row = table.row(name.clone(), class);
        row.count += 1;
        row.spawned_at.clone_from(&spawned_at);
        row.future = caught.kind.future.name().into();
        if let Some(within) = &caught.within {
            row.count_spans(within);
        }
        if polls.len() >= POLLS_MAX {
            polls.clear();
        }
        let named = Named {
            name,
            within: caught.within.clone(),
            folded,
            class,
            spawned_at,
        };
        polls.insert(caught.poll, named);
    }

    fn filled(&self, (poll, report): (PollId, HogReport)) -> HogReport {
        let polls = self.names.polls.lock();
        // A poll that has ended meanwhile was named by its kind's spawn site as well.
        let Some(named) = polls.get(&poll) else {
            return report;
        };
        debug_assert!(named.spawned_at == *report.spawned_at, "of the same poll");
        HogReport {
            function: Some(named.name.function.clone()),
            callee: named.name.callee.clone(),
            within: named.within.clone(),
            ..report
        }
    }
}

/// The functions, the outermost first, as tools for flame graphs read them, below that of the
/// task's future. In a row the same function, or unknown ones, are one: closures have the names of
/// functions.
fn fold(future: &str, frames: &[DumpFrame]) -> String {
    let names = frames.iter().rev().map(|frame| match &*frame.function {
        unknown if unknown.starts_with("0x") => "[unknown]",
        name => name,
    });
    let names = std::iter::once(without_closures(future)).chain(names);
    let mut folded: Vec<String> = names.map(|name| cut(name).replace(';', ",")).collect();
    folded.dedup();
    folded.join(";")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stack_is_a_line_below_its_task() {
        let frame = |function: &str| DumpFrame {
            function: function.to_owned(),
            site: None,
            is_internal: false,
        };
        let frames = ["0x1", "f<[u8; 4]>", "app::run", "app::run", "0x2", "0x3"].map(frame);
        let folded = fold("app::serve::{{closure}}", &frames);
        assert_eq!(folded, "app::serve;[unknown];app::run;f<[u8, 4]>;[unknown]");
        assert_eq!(fold("app::run::{{closure}}", &[]), "app::run");
    }
}
