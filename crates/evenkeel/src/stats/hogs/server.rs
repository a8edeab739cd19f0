//! The thread that makes names of stacks.
//!
//! It starts when there is a stack, has the lowest priority, and ends when none has come for a
//! while. What it has learned, such as the symbols of addresses, is dropped then: it takes tens of
//! megabytes.

use std::collections::HashMap;
use std::panic::Location;
use std::sync::Weak;
use std::time::Duration;

use crate::blocking;
use crate::class::Class;
use crate::sched::HogReport;
use crate::sched::desk::Ended;
use crate::sched::shared::Shared;
use crate::sched::stacks::{Caught, Event, PollId, Stacks};
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
    polls: HashMap<PollId, Named>,
}

/// A poll whose stack was taken.
struct Named {
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
            polls: HashMap::new(),
        }
    }
}

/// What the thread holds. It keeps nothing alive that has to end with the runtime, such as
/// descriptors.
struct Server {
    stacks: Arc<Stacks>,
    names: Arc<Names>,
    runtime: Weak<Shared>,
}

/// Starts the thread. If the system refuses, the reports that wait are delivered without names.
pub(crate) fn start(shared: &Arc<Shared>) {
    let name = format!("{}-names", shared.config.thread_name);
    let server = Server {
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
        if server.stacks.is_closed() || thread::panicking() {
            server.deliver(server.stacks.give_up_serving());
        }
    }
}

impl Server {
    fn run(&self) {
        let _ = lower(current(), NICE_MAX);
        // Also after a panic in what reads the program's tables.
        let _done = GivesUp(self);
        let mut tools = Some(Tools::new());
        let mut looks = 0;
        while !self.stacks.is_closed() {
            if let Some(event) = self.stacks.next(tools.is_none()) {
                looks = 0;
                self.take_in(tools.get_or_insert_with(Tools::new), event);
            } else if let Some(known) = &tools {
                let rests = looks >= LOOKS_MAX;
                self.deliver_late(known, rests);
                looks += 1;
                if !rests {
                    thread::sleep(LOOK);
                } else if !self.stacks.linger(LINGERS) {
                    tools = None;
                    self.give_back();
                }
            } else {
                return;
            }
        }
        // The runtime ends, and waits for this a while.
        self.deliver(self.stacks.rest_of_reports());
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
                let poll = caught.poll;
                tools.name(&self.stacks, &self.names, *caught);
                reports.extend(self.stacks.reports_of(poll));
            }
            Event::Ended { end, rest } => match tools.polls.remove(&end.poll) {
                Some(named) => self.end(named, &end, rest),
                None => self.stacks.unnamed(&end),
            },
            Event::Report(poll, report) => {
                let is_named = tools.polls.contains_key(&poll);
                let ready = if is_named {
                    Some(report)
                } else {
                    self.stacks.put_off(poll, report)
                };
                reports.extend(ready.map(|report| (poll, report)));
            }
        }
        let reports: Vec<_> = reports.into_iter().map(|it| tools.filled(it)).collect();
        self.deliver(reports);
    }

    /// A poll has ended, of whose cycles its stacks do not stand for the rest.
    fn end(&self, named: Named, end: &Ended, rest: u64) {
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
    fn deliver_late(&self, tools: &Tools, all: bool) {
        let late = self.stacks.late_reports(all).into_iter();
        self.deliver(late.map(|it| tools.filled(it)).collect());
    }

    fn deliver(&self, reports: Vec<HogReport>) {
        for report in reports {
            if let Some(shared) = self.runtime.upgrade() {
                (shared.on_hog.deliver)(&shared, report);
            }
        }
    }
}

impl Tools {
    fn name(&mut self, stacks: &Stacks, names: &Names, caught: Caught) {
        self.own.learn(&caught.kind);
        let addresses = self.frames.of(&caught.stack);
        let frames = self.symbols.frames(&addresses);
        let Some(name) = self
            .own
            .name(&frames, caught.kind.future.name(), caught.blocked)
        else {
            // It has no frame.
            return;
        };
        let folded = fold(caught.kind.future.name(), &frames);
        let mut table = names.table.lock();
        table.add(&folded, stacks.to_duration(caught.weight));
        if let Some(named) = self.polls.get_mut(&caught.poll) {
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
        if self.polls.len() >= POLLS_MAX {
            self.polls.clear();
        }
        let named = Named {
            name,
            within: caught.within,
            folded,
            class,
            spawned_at,
        };
        self.polls.insert(caught.poll, named);
    }

    fn filled(&self, (poll, report): (PollId, HogReport)) -> HogReport {
        // A poll that has ended meanwhile was named by its kind's spawn site as well.
        let Some(named) = self.polls.get(&poll) else {
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
