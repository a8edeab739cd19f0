//! Tasks of every class that compute, and readings of who got how much.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::args::SplitArgs;
use crate::error::{Error, Result};
use crate::serve::{
    Done, Evenkeel, HogPoll, HogYield, Platform, RuntimeArgs, RuntimeName, Tokio, hogs,
};
use crate::sys;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Readings {
    pub(crate) runtime: String,
    pub(crate) workers: usize,
    pub(crate) weights: Vec<u32>,
    pub(crate) readings: Vec<Reading>,
}

/// Who had had how much at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Reading {
    pub(crate) at_us: u64,
    /// Processor time of each class since the start, by the runtime's own accounts; `None` where it
    /// has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) run_us: Option<Vec<u64>>,
    /// What the tasks of each class computed since then, as they counted it themselves.
    pub(crate) work_us: Vec<u64>,
}

/// From one reading to the next.
const PERIOD: Duration = Duration::from_millis(100);

/// Runs the contest, prints its readings as one line of JSON, and ends the process: tasks that
/// never return would keep a runtime from ending.
///
/// # Errors
/// When a flag does not fit, or the runtime does not start.
pub(crate) fn run(args: &SplitArgs) -> Result<()> {
    let classes = args.weights.0.len();
    if let Some(class) = args.hogs_in.filter(|class| *class >= classes) {
        let there_are = format!("there are {classes} classes, counted from 0");
        return Err(Error::new(format!("--hogs-in {class}: {there_are}")));
    }
    crate::serve::calibrate();
    let readings = match args.runtime {
        RuntimeName::Tokio => contest::<Tokio>(args),
        RuntimeName::Evenkeel => contest::<Evenkeel>(args),
        RuntimeName::OsThread => Err(Error::new(
            "`split os-thread` has no runtime whose split could be measured",
        )),
    }?;
    let text = serde_json::to_string(&readings);
    println!("{}", text.expect("numbers and words can be written"));
    std::process::exit(0);
}

fn contest<P: Platform>(args: &SplitArgs) -> Result<Readings> {
    let shares = args.weights.shares();
    let settings = RuntimeArgs {
        workers: args.workers,
        shares: P::HAS_CLASSES.then(|| shares.clone()),
        ..RuntimeArgs::default()
    };
    let (workers, cores) = (settings.workers(), RuntimeArgs::default().workers());
    // As many processors as workers: the heavy pool would have any further one to itself, which is
    // time that no other class could use.
    if workers < cores {
        let pinned = sys::pin(&(0..workers).collect::<Vec<_>>());
        let what = "cannot keep to as many processors as workers";
        pinned.map_err(Error::system(what))?;
    }
    let platform = P::start(&settings)?;
    let done: Vec<Done> = shares.0.iter().map(|_| Done::default()).collect();
    platform.block_on(async {
        for (index, (name, _)) in shares.0.iter().enumerate() {
            let class = platform.class(name);
            for task in 0..args.tasks.get() {
                let poll = HogPoll::Micros(args.polls.length_us(index, task));
                hogs::spawn::<P>(1, poll, HogYield::Runtime, class, &done[index]);
            }
        }
        let hogs_in = args.hogs_in.unwrap_or(done.len() - 1);
        let class = platform.class(&shares.0[hogs_in].0);
        let (poll, how) = (args.hog_poll_us, HogYield::Runtime);
        hogs::spawn::<P>(args.hogs, poll, how, class, &done[hogs_in]);
    });
    std::thread::sleep(args.warmup);
    let start = Instant::now();
    let mut readings = vec![read(&platform, &done, start)];
    while start.elapsed() < args.seconds {
        std::thread::sleep(PERIOD);
        readings.push(read(&platform, &done, start));
    }
    // Its tasks may never return: the end of the process is theirs.
    std::mem::forget(platform);
    Ok(Readings {
        runtime: P::NAME.to_owned(),
        workers,
        weights: args.weights.0.clone(),
        readings,
    })
}

/// A reading: the accounts' own time lies in the middle of it.
fn read(platform: &impl Platform, done: &[Done], start: Instant) -> Reading {
    let stats = platform.stats();
    let at = start.elapsed();
    let run_us: Vec<u64> = stats.classes.iter().map(|class| class.run_us).collect();
    Reading {
        at_us: at.as_micros() as u64,
        run_us: (run_us.len() >= done.len()).then(|| run_us[..done.len()].to_vec()),
        work_us: done.iter().map(Done::micros).collect(),
    }
}
