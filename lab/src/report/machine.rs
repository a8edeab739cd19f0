//! Where a report was made, and what there may have disturbed it.

use std::env;
use std::fs;
use std::thread;

use chrono::{DateTime, Utc};
use procfs::{CpuInfo, CpuTime, Current, CurrentSI, KernelStats, LoadAverage, Meminfo};
use serde::Serialize;

/// The machine, as far as it says; what it does not say is `None`.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Machine {
    /// When the report was made, in UTC.
    pub date: String,
    pub kernel: String,
    pub cpu_model: String,
    /// Cores that this process may use.
    pub cores: usize,
    pub memory_gib: Option<f64>,
    /// What the kernel reads the time from: anything but `tsc` makes every timestamp dear.
    pub clocksource: Option<String>,
    /// Processor flaws that the kernel spends time on, or is open to.
    pub mitigations: Vec<String>,
    /// How the processor's frequency is chosen.
    pub governor: Option<String>,
    pub virtual_machine: bool,
    /// CPUs that the control group may use at a time, if it has a quota.
    pub cpu_quota: Option<f64>,
    /// Part of CPU time since boot that the hypervisor gave to others, in percent.
    pub steal_percent: Option<f64>,
    /// Over 1, 5 and 15 minutes.
    pub load_average: Option<[f64; 3]>,
    /// The compiler that built the lab.
    pub rustc: String,
    /// The profile it was built in.
    pub profile: String,
    /// What of the above may disturb results: read it before the numbers.
    pub noise: Vec<String>,
}

impl Machine {
    /// Asks the running system.
    pub(crate) fn detect() -> Machine {
        let cpus = CpuInfo::current().ok();
        let stat = KernelStats::current().ok();
        let load = LoadAverage::current().ok();
        let memory = Meminfo::current().ok();
        let release = read("/proc/sys/kernel/osrelease").map(|release| format!("Linux {release}"));
        let model = cpus.as_ref().and_then(cpu_model);
        let mut machine = Machine {
            date: date(Utc::now()),
            kernel: release.unwrap_or_else(|| env::consts::OS.to_owned()),
            cpu_model: model.unwrap_or_else(|| env::consts::ARCH.to_owned()),
            cores: thread::available_parallelism().map_or(1, usize::from),
            memory_gib: memory.map(|memory| memory.mem_total as f64 / f64::from(1 << 30)),
            clocksource: read("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
            mitigations: mitigations(),
            governor: read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
            virtual_machine: cpus.as_ref().is_some_and(is_virtual),
            cpu_quota: read("/sys/fs/cgroup/cpu.max").and_then(|text| cpu_quota(&text)),
            steal_percent: stat.and_then(|stat| steal_percent(&stat.total)),
            load_average: load.map(|load| [load.one, load.five, load.fifteen].map(f64::from)),
            rustc: env!("LAB_RUSTC_VERSION").to_owned(),
            profile: env!("LAB_BUILD_PROFILE").to_owned(),
            noise: Vec::new(),
        };
        machine.noise = machine.disturbances();
        machine
    }

    /// The machine as names and values, in the order of reading.
    pub(super) fn facts(&self) -> [(&'static str, String); 12] {
        let said = |value: &Option<String>| value.clone().unwrap_or("not said".to_owned());
        let number = |value: Option<f64>, unit| said(&value.map(|of| format!("{of:.1} {unit}")));
        let quota = self.cpu_quota.map(|cpus| format!("{cpus:.2} CPUs"));
        let load = self.load_average;
        let load = load.map(|[one, five, fifteen]| format!("{one:.2}  {five:.2}  {fifteen:.2}"));
        let is_virtual = ["no sign of one", "yes"][usize::from(self.virtual_machine)];
        let mitigations = Some(self.mitigations.join("; ")).filter(|all| !all.is_empty());
        let compiler = format!("{}, {} profile", self.rustc, self.profile);
        let processor = format!("{}, {} cores", self.cpu_model, self.cores);
        [
            ("date", self.date.clone()),
            ("processor", processor),
            ("memory", number(self.memory_gib, "GiB")),
            ("kernel", self.kernel.clone()),
            ("clock source", said(&self.clocksource)),
            ("frequency governor", said(&self.governor)),
            ("virtual machine", is_virtual.to_owned()),
            ("CPU quota", quota.unwrap_or_else(|| "none".to_owned())),
            ("steal since boot", number(self.steal_percent, "%")),
            ("load average", said(&load)),
            ("compiler", compiler),
            ("mitigations", mitigations.unwrap_or("none said".to_owned())),
        ]
    }

    fn disturbances(&self) -> Vec<String> {
        let load = self.load_average.map_or(0.0, |[one, ..]| one);
        let (cores, steal) = (self.cores, self.steal_percent.unwrap_or(0.0));
        let clock = self.clocksource.as_deref().unwrap_or("tsc");
        let governor = self.governor.as_deref().unwrap_or("performance");
        let quota = self.cpu_quota.unwrap_or(f64::INFINITY);
        let unoptimised = "The lab was built without optimisation: its numbers mean little.";
        let is_virtual = "A virtual machine: its host may take time away unseen, so compare \
                          ratios, not absolute numbers.";
        let busy = format!(
            "The load average was {load:.2} on {cores} cores when this was written: some of it \
             may be the experiments' own, some another's."
        );
        let stolen = format!("{steal:.1} % of CPU time since boot went to other machines.");
        let dear = format!("Time is read from {clock}, which costs a system call or worse.");
        let slow = "The frequency governor may slow an idle core: latency includes it.";
        let stopped = format!("A quota of {quota:.2} CPUs: a process over it is stopped a while.");
        let noise = [
            (self.profile != "release", unoptimised.to_owned()),
            (self.virtual_machine, is_virtual.to_owned()),
            (load > 0.3, busy),
            (steal >= 0.1, stolen),
            (clock != "tsc", dear),
            (governor != "performance", slow.to_owned()),
            (quota.is_finite(), stopped),
        ];
        let noise = noise.into_iter().filter(|(is_there, _)| *is_there);
        noise.map(|(_, words)| words).collect()
    }
}

fn read(path: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

/// As in `2026-11-21 09:05 UTC`.
pub(super) fn date(at: DateTime<Utc>) -> String {
    at.format("%F %H:%M UTC").to_string()
}

pub(super) fn cpu_model(cpus: &CpuInfo) -> Option<String> {
    let name = cpus.model_name(0)?;
    Some(name.split_whitespace().collect::<Vec<_>>().join(" "))
}

fn is_virtual(cpus: &CpuInfo) -> bool {
    cpus.flags(0)
        .is_some_and(|flags| flags.contains(&"hypervisor"))
}

/// From `cpu.max`: "quota period" in microseconds, or "max period".
pub(super) fn cpu_quota(cpu_max: &str) -> Option<f64> {
    let (quota, period) = cpu_max.split_once(' ')?;
    let (quota, period): (f64, f64) = (quota.parse().ok()?, period.parse().ok()?);
    (period > 0.0).then_some(quota / period)
}

/// Time stolen, in percent of all. The guests' is in that of users, and must not be counted twice.
pub(super) fn steal_percent(time: &CpuTime) -> Option<f64> {
    let stolen = time.steal?;
    let since = [time.user, time.nice, time.system, time.idle, stolen];
    let waits = [time.iowait, time.irq, time.softirq].into_iter().flatten();
    let total: u64 = since.into_iter().chain(waits).sum();
    (total > 0).then(|| 100.0 * stolen as f64 / total as f64)
}

fn mitigations() -> Vec<String> {
    let entries = fs::read_dir("/sys/devices/system/cpu/vulnerabilities");
    let of = |entry: fs::DirEntry| {
        let status = read(entry.path().to_str()?)?;
        // The detail after the first clause changes nothing for a reader of numbers.
        let clause = status.split([';', ',']).next().unwrap_or_default();
        let brief = clause.trim_start_matches("Mitigation: ").trim();
        let name = entry.file_name().into_string().ok()?;
        (status != "Not affected").then(|| format!("{name}: {brief}"))
    };
    let entries = entries.into_iter().flatten().flatten();
    let mut found: Vec<String> = entries.filter_map(of).collect();
    found.sort();
    found
}
