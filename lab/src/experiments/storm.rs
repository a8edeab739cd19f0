//! `storm`: cameras, their recorders and viewers, and an API call in one process.
//!
//! - [`rows`]: who serves, and how cameras send
//! - [`measure`]: one server under one storm
//! - [`machine`]: what others had of the processors meanwhile, system calls, Ethernet's segments
//! - [`work`]: how much computing each delivery costs
//! - [`breeze`]: what being told to adapt costs where there is no storm
//! - [`tables`]: what it comes to, with verdicts

mod breeze;
mod machine;
mod measure;
mod rows;
mod tables;
mod work;

use serde_json::json;

use self::breeze::Breeze;
use self::measure::{Found, MOMENT, Scene};
use self::rows::{Row, Storm};
use crate::error::Result;
use crate::report::Experiment;
use crate::trial::{Lab, Samples};

/// A server under a storm.
type Key = (Storm, Row);

/// All measurements.
struct All {
    storms: Vec<Storm>,
    rows: Vec<Row>,
    samples: Samples<Key, Found>,
    breeze: Breeze,
}

pub(crate) fn run(lab: &Lab) -> Result<Experiment> {
    let lab = lab.apart();
    let mut notes = Vec::new();
    let scene = Scene::open(&lab, &mut notes);
    let work = work::calibrate(&scene, &rows::EVEN);
    let words = work.words();
    lab.progress(&format!("storm: {words}"));
    let rows = rows::rows(&lab.lineup.present, lab.is_brief());
    let storms = storms(&scene, &mut notes);
    // Of storms that have their own.
    let own = storms.iter().find(|storm| storm.own_work);
    let own_work = own.map(|storm| {
        let work = work::calibrate(&scene, storm);
        notes.push(format!("{}: {}", storm.name, work.words()));
        lab.progress(&format!("storm: {}: {}", storm.name, work.words()));
        work
    });
    let one = |(storm, row): Key| {
        let own_work = own_work.as_ref().filter(|_| storm.own_work);
        let us = own_work.unwrap_or(&work).us;
        undisturbed(&lab, || measure::storm(&scene, &row, &storm, us))
    };
    let under = |&storm: &Storm| rows.iter().map(move |row| (storm, *row));
    let keys = storms.iter().flat_map(under);
    let name = |(storm, row): Key| format!("storm: {}, {}", storm.name, row.name);
    let samples = Samples::measure(&lab, lab.rounds(), keys, name, &tables::TOLD, one);
    let breeze = breeze::measure(&scene);
    let all = All {
        storms,
        rows,
        samples,
        breeze,
    };
    notes.extend(all.notes());
    let case = |(storm, row): Key| json!({ "storm": storm.name, "row": row.name });
    let experiment = Experiment {
        how: format!("{words} {}", lab.conditions()),
        tables: all.tables(),
        plots: all.plots(),
        notes,
        raw: json!({
            "work": work,
            "own_work": own_work,
            "storms": all.samples.raw(case, |found| json!({ "found": found })),
            "breeze": all.breeze.raw(),
        }),
        ..Experiment::default()
    };
    Ok(experiment.judged("in", all.verdicts()))
}

/// Measures again where the cameras themselves were late, or others had much of the servers'
/// processors: then the machine had other work, and what was measured was not the storm. What
/// servers do makes no camera late. Of moments nothing is expected.
fn undisturbed(lab: &Lab, measure: impl Fn() -> Result<Found>) -> Result<Found> {
    const LATE_US: f64 = 20_000.0;
    let times = match lab.is_brief() {
        _ if lab.measured(2 * MOMENT) < MOMENT => 1,
        true => 2,
        false => 3,
    };
    let mut found = measure()?;
    for _ in 1..times {
        if found.load.late_p99_us <= LATE_US && !found.is_crowded() {
            break;
        }
        found = measure()?;
    }
    Ok(found)
}

/// In brief the one that says most; in full all, as far as the machine allows.
fn storms(scene: &Scene<'_>, notes: &mut Vec<String>) -> Vec<Storm> {
    if scene.lab.is_brief() {
        notes.push(format!(
            "In brief the storm is an even one, of few servers. `storm --seconds 10` adds the rows \
             {}, the breeze's control, four times the cameras, bursts, and a network of its own.",
            rows::left_out(&scene.lab.lineup.present)
        ));
        return vec![rows::EVEN];
    }
    let mut storms = vec![rows::EVEN, rows::MANY, rows::BURSTS, rows::BUSY_BURSTS];
    storms.extend(scene.veth.is_some().then_some(rows::ETHERNET));
    storms
}
