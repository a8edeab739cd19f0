//! Making a dump. It blocks, and reads debug information for a while: not for a worker.

use std::collections::HashMap;
use std::time::Duration;

use crate::clock;
use crate::sched::shared::Shared;
use crate::sched::task::cell::Reference;
use crate::sched::task::state::Phase;
use crate::sched::task::trace::{Noted, Place, Trace};

use super::super::symbols::Symbols;
use super::super::tasks::{self, Row, TaskInfo, TaskOrder, TaskState};
use super::{DumpGroup, DumpOptions, DumpOutcome, DumpedTask, TaskDump, Wait};

/// What the tasks of a group have in common.
#[derive(PartialEq, Eq, Hash)]
struct Key {
    outcome: DumpOutcome,
    places: Vec<(Vec<usize>, Option<std::mem::Discriminant<Noted>>)>,
    spawned_at: usize,
    future: std::borrow::Cow<'static, str>,
}

/// What was found out about a task.
struct Found {
    outcome: DumpOutcome,
    info: TaskInfo,
    places: Vec<Place>,
    within: Option<String>,
    spawned_at: usize,
}

/// One at a time in each runtime.
pub(crate) fn take(shared: &Shared, options: DumpOptions) -> TaskDump {
    let began = clock::now();
    let deadline = began.checked_add(options.timeout);
    // A limit too long for the clock to add is as good as a year.
    let deadline = deadline.unwrap_or(began + Duration::from_secs(365 * 24 * 3600));
    let rows = tasks::first(shared, TaskOrder::Since, options.limit);
    // Others may have come or gone meanwhile.
    let tasks = shared.registry.len().max(rows.len());
    let is_there = |row: Row| Some((row, shared.registry.reference(row.key, row.id)?));
    let (rows, references): (Vec<Row>, Vec<Reference>) =
        rows.into_iter().filter_map(is_there).unzip();
    let mut traces = shared.dumps.ask(shared, &references, deadline);
    let all = rows.iter().zip(&references);
    let found = all.map(|(row, task)| look(shared, row, task, traces.remove(&row.id)));
    let groups = gather(found);
    // Their last references may end tasks: the user's code, which may use the dump's thread.
    drop(references);
    TaskDump {
        took: clock::now().saturating_duration_since(began),
        tasks,
        groups,
    }
}

/// What has become of a task that was asked.
fn look(shared: &Shared, before: &Row, task: &Reference, trace: Option<Trace>) -> Found {
    let header = task.header();
    let spawned_at = std::ptr::from_ref(header.spawned_at()).addr();
    let now = Row::read(before.key, header, shared.clock.cycles());
    let outcome = match (now.phase, &trace) {
        (Phase::Complete, _) => DumpOutcome::Completed,
        // It has yielded.
        (_, Some(trace)) if trace.is_woken && trace.places.is_empty() => DumpOutcome::Runs,
        (_, Some(_)) => DumpOutcome::Waits,
        (Phase::Running { .. }, None) => DumpOutcome::Runs,
        (Phase::Ready | Phase::Waiting, None) => DumpOutcome::NotReached,
    };
    let was_waiting = before.phase == Phase::Waiting && outcome == DumpOutcome::Waits;
    let mut info = if was_waiting { before } else { &now }.info(shared);
    match outcome {
        DumpOutcome::Waits => info.state = TaskState::Waiting,
        DumpOutcome::NotReached => info.state = TaskState::Ready,
        DumpOutcome::Runs | DumpOutcome::Completed => {}
    }
    let Trace { places, within, .. } = trace.unwrap_or_default();
    Found {
        outcome,
        info,
        places,
        within,
        spawned_at,
    }
}

fn gather(found: impl Iterator<Item = Found>) -> Vec<DumpGroup> {
    let mut symbols = Symbols::default();
    let mut groups: Vec<DumpGroup> = Vec::new();
    let mut indices: HashMap<Key, usize> = HashMap::new();
    for task in found {
        let (stacks, notes): (Vec<_>, Vec<_>) = task
            .places
            .into_iter()
            .map(|place| (place.stack, place.noted))
            .unzip();
        let kinds = notes
            .iter()
            .map(|noted| noted.as_ref().map(std::mem::discriminant));
        let key = Key {
            outcome: task.outcome,
            places: stacks.iter().cloned().zip(kinds).collect(),
            spawned_at: task.spawned_at,
            future: task.info.future.clone(),
        };
        let index = *indices.entry(key).or_insert_with(|| {
            groups.push(DumpGroup {
                outcome: task.outcome,
                spawned_at: task.info.spawned_at.clone(),
                future: task.info.future.clone(),
                stacks: stacks.iter().map(|stack| symbols.frames(stack)).collect(),
                tasks: Vec::new(),
            });
            groups.len() - 1
        });
        groups[index].tasks.push(DumpedTask {
            task: task.info,
            waits: notes.into_iter().map(|noted| noted.map(wait)).collect(),
            within: task.within,
        });
    }
    groups.sort_by_key(|group| std::cmp::Reverse(group.tasks.len()));
    groups
}

fn wait(noted: Noted) -> Wait {
    match noted {
        Noted::Descriptor {
            fd,
            local,
            peer,
            readable,
            writable,
        } => Wait::Descriptor {
            fd,
            local,
            peer,
            readable,
            writable,
        },
        Noted::Timer(deadline) => Wait::Timer {
            due_in: deadline.saturating_duration_since(clock::now()),
        },
        Noted::Task(id, spawned_at) => Wait::Task {
            id,
            spawned_at: spawned_at.into(),
        },
        Noted::Lane(name) => Wait::Lane {
            name: (*name).to_owned(),
        },
    }
}
