//! All lanes of a runtime: the general one, those of devices, and the user's.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::clock::Clock;
use crate::sched::config::Config;
use crate::sched::shared::Shared;
use crate::sync::{Arc, Mutex};

use super::core::{Core, CoreStats, Running, Settings};
use super::misses::{Backend, Misses};
use super::turns::Turns;

/// How many dumps may wait until one that is being made is done.
const DUMPS_QUEUED_MAX: usize = 4;
/// How many devices have lanes of their own. All others share one set of lanes.
const DEVICES_MAX: usize = 64;
pub(crate) const NAMED_MAX: usize = 256;
/// Threads for operations on names and attributes, for each device.
const NAME_THREADS: usize = 8;
/// Threads for files that may wait for a peer (FIFOs, terminals), for each device.
const SPECIAL_THREADS: usize = 16;
/// The least number of turns, for each device and class: one file is copied while another is
/// written.
const TURNS_MIN: usize = 2;
/// Threads that find out which device a directory is on.
const PATH_THREADS: usize = 8;

#[derive(Debug)]
pub(crate) struct Device {
    /// Names and attributes: open, stat, rename.
    pub(crate) names: Arc<Core>,
    pub(crate) data: Arc<Core>,
    /// Syncs, one at a time.
    pub(crate) syncs: Arc<Core>,
    /// FIFOs, terminals and other files that wait for a peer and not for the device.
    pub(crate) special: Arc<Core>,
    pub(crate) misses: Misses,
    /// The turns of long writers, for each class.
    pub(crate) turns: Box<[Arc<Turns>]>,
}

impl Device {
    fn lanes(&self) -> [&Arc<Core>; 4] {
        [&self.names, &self.data, &self.syncs, &self.special]
    }

    fn is_empty(&self) -> bool {
        self.lanes().iter().all(|core| core.is_empty())
    }
}

#[derive(Debug)]
pub(crate) struct Lanes {
    pub(crate) general: Arc<Core>,
    pub(crate) paths: Arc<Core>,
    pub(crate) backend: Arc<Backend>,
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    devices: HashMap<u64, Arc<Device>>,
    /// For devices beyond [`DEVICES_MAX`].
    others: Option<Arc<Device>>,
    named: Vec<Arc<Core>>,
    /// For dumps of tasks; made for the first one.
    dumps: Option<Arc<Core>>,
    closed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unnamed {
    Taken,
    TooMany,
    Closed,
}

impl Lanes {
    pub(crate) fn of(shared: &Shared) -> &Self {
        shared.extensions.get()
    }

    pub(crate) fn new(config: &Config, clock: Clock) -> Self {
        let general = Settings {
            name: "blocking".into(),
            thread_suffix: "blocking".into(),
            threads: config.max_blocking_threads,
            queue: config.blocking_queue_limit,
            wait: None,
            keep_alive: config.blocking_keep_alive,
        };
        let paths = disk(config, "disk paths".into(), "disk-p", PATH_THREADS);
        Self {
            general: Arc::new(Core::new(general, config, clock)),
            paths: Arc::new(Core::new(paths, config, clock)),
            backend: Arc::new(Backend::new(config)),
            table: Mutex::default(),
        }
    }

    pub(crate) fn device(&self, shared: &Arc<Shared>, number: u64) -> Arc<Device> {
        let mut table = self.table.lock();
        if let Some(device) = table.devices.get(&number) {
            return Arc::clone(device);
        }
        if table.devices.len() >= DEVICES_MAX {
            // Devices without open files, work and threads make room.
            (table.devices).retain(|_, device| Arc::strong_count(device) > 1 || !device.is_empty());
        }
        let closed = table.closed;
        let make = |label: &str| {
            let device = new_device(shared, label);
            if closed {
                device.lanes().iter().for_each(|core| core.close(shared));
                device.misses.close();
            }
            Arc::new(device)
        };
        if table.devices.len() >= DEVICES_MAX {
            let others = table.others.get_or_insert_with(|| make("others"));
            return Arc::clone(others);
        }
        let device = make(&label_of(number));
        table.devices.insert(number, Arc::clone(&device));
        debug_assert!(table.devices.len() <= DEVICES_MAX);
        device
    }

    pub(crate) fn add(
        &self,
        shared: &Arc<Shared>,
        settings: Settings,
    ) -> Result<Arc<Core>, Unnamed> {
        let mut table = self.table.lock();
        if table.closed {
            return Err(Unnamed::Closed);
        }
        // Lanes that were dropped and have no work and no threads left make room.
        (table.named).retain(|core| Arc::strong_count(core) > 1 || !core.is_empty());
        if (table.named.iter()).any(|core| **core.name() == *settings.name) {
            return Err(Unnamed::Taken);
        }
        if table.named.len() >= NAMED_MAX {
            return Err(Unnamed::TooMany);
        }
        let core = Arc::new(Core::new(settings, &shared.config, shared.clock));
        table.named.push(Arc::clone(&core));
        debug_assert!(table.named.len() <= NAMED_MAX);
        Ok(core)
    }

    /// Makes dumps of tasks, one at a time. A lane of its own, as the general one may be full: that
    /// is one of the things that a dump has to show.
    pub(crate) fn dumps(&self, shared: &Arc<Shared>) -> Arc<Core> {
        let mut table = self.table.lock();
        let closed = table.closed;
        let dumps = table.dumps.get_or_insert_with(|| {
            let settings = Settings {
                name: "dump".into(),
                thread_suffix: "dump".into(),
                threads: 1,
                queue: DUMPS_QUEUED_MAX,
                wait: None,
                keep_alive: shared.config.blocking_keep_alive,
            };
            let core = Arc::new(Core::new(settings, &shared.config, shared.clock));
            if closed {
                core.close(shared);
            }
            core
        });
        Arc::clone(dumps)
    }

    fn devices(&self) -> Vec<Arc<Device>> {
        let table = self.table.lock();
        let devices = table.devices.values().chain(&table.others);
        devices.map(Arc::clone).collect()
    }

    pub(crate) fn reads_by_ring(&self) -> u64 {
        let done = |device: &Arc<Device>| device.misses.done();
        self.devices().iter().map(done).sum()
    }

    fn all(&self) -> Vec<Arc<Core>> {
        let table = self.table.lock();
        let mut devices: Vec<_> = table.devices.iter().collect();
        devices.sort_by_key(|(number, _)| **number);
        let devices = devices.into_iter().map(|(_, device)| device);
        let of_devices = devices
            .chain(&table.others)
            .flat_map(|device| device.lanes());
        [&self.general, &self.paths]
            .into_iter()
            .chain(of_devices)
            .chain(&table.dumps)
            .chain(&table.named)
            .map(Arc::clone)
            .collect()
    }

    /// Refuses work from now on, and cancels queued work.
    pub(crate) fn close(&self, shared: &Arc<Shared>) {
        self.table.lock().closed = true;
        self.all().iter().for_each(|core| core.close(shared));
        self.devices()
            .iter()
            .for_each(|device| device.misses.close());
    }

    /// Waits for running work. Returns false if some has not ended by the deadline.
    pub(crate) fn wait(&self, deadline: Instant) -> bool {
        // One after the other: all have the same deadline.
        self.all().iter().all(|core| core.wait(deadline))
            && (self.devices().iter()).all(|device| device.misses.wait(deadline))
    }

    /// The work that is under way, with the names of its threads.
    pub(crate) fn running(&self) -> Vec<(String, Running)> {
        let lanes = self.all();
        let of_lane = |core: &Arc<Core>| {
            let suffix = core.thread_suffix().to_owned();
            core.running()
                .into_iter()
                .map(move |running| (suffix.clone(), running))
        };
        lanes.iter().flat_map(of_lane).collect()
    }

    pub(crate) fn stats(&self) -> Vec<CoreStats> {
        self.all().iter().map(|core| core.stats()).collect()
    }
}

fn disk(config: &Config, name: Arc<str>, suffix: &str, threads: usize) -> Settings {
    Settings {
        name,
        thread_suffix: suffix.into(),
        threads,
        queue: config.disk_queue_limit,
        wait: Some(config.disk_wait_limit).filter(|wait| *wait != Duration::MAX),
        keep_alive: config.blocking_keep_alive,
    }
}

fn new_device(shared: &Arc<Shared>, label: &str) -> Device {
    let config = &shared.config;
    let core = |what: &str, suffix: &str, threads: usize| {
        let name = format!("disk {label} {what}").into();
        let settings = disk(config, name, suffix, threads);
        Arc::new(Core::new(settings, config, shared.clock))
    };
    Device {
        names: core("names", "disk-n", NAME_THREADS),
        data: core("data", "disk", config.disk_threads),
        syncs: core("sync", "disk-s", 1),
        special: core("special", "disk-x", SPECIAL_THREADS),
        misses: Misses::new(Arc::clone(&Lanes::of(shared).backend)),
        turns: (0..config.classes.len())
            .map(|_| Arc::new(Turns::new(config.workers.max(TURNS_MIN))))
            .collect(),
    }
}

/// A device in the notation of the system's tools: `major:minor`.
#[cfg(target_os = "linux")]
fn label_of(number: u64) -> String {
    format!("{}:{}", libc::major(number), libc::minor(number))
}

#[cfg(not(target_os = "linux"))]
fn label_of(number: u64) -> String {
    number.to_string()
}

#[cfg(all(test, not(evenkeel_loom)))]
mod tests {
    use std::panic::Location;

    use crate::blocking::new_work;
    use crate::runtime::Runtime;

    use super::*;

    #[test]
    fn lanes_of_a_device_that_comes_after_the_end_are_closed() {
        let runtime = Runtime::new().unwrap();
        let handle = runtime.handle().clone();
        let shared = handle.shared();
        let lanes = Lanes::of(shared);
        // All devices that may have lanes of their own, but one.
        let numbers = 1..DEVICES_MAX as u64;
        let mut used: Vec<_> = numbers.map(|number| lanes.device(shared, number)).collect();
        runtime.shutdown(Duration::from_secs(60)).unwrap();
        for what in ["its own", "those of all others"] {
            let device = lanes.device(shared, used.len() as u64 + 1);
            used.push(Arc::clone(&device));
            let (task, join) = new_work(&device.data, Location::caller(), None, || ());
            device.data.submit(shared, task, false);
            let result = handle.block_on(join);
            assert!(result.is_err_and(|error| error.is_cancelled()), "{what}");
        }
    }
}
