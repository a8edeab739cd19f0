//! Where a report was made, and what there may have disturbed it.

use std::env;
use std::fs;
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

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
        let cpuinfo = read("/proc/cpuinfo").unwrap_or_default();
        let seconds = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |d| d.as_secs());
        let mut machine = Machine {
            date: date(seconds),
            kernel: read("/proc/sys/kernel/osrelease").map_or_else(
                || env::consts::OS.to_owned(),
                |release| format!("Linux {release}"),
            ),
            cpu_model: cpu_model(&cpuinfo).unwrap_or_else(|| env::consts::ARCH.to_owned()),
            cores: thread::available_parallelism().map_or(1, usize::from),
            memory_gib: read("/proc/meminfo").and_then(|text| memory_gib(&text)),
            clocksource: read("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
            mitigations: mitigations(),
            governor: read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
            virtual_machine: is_virtual(&cpuinfo),
            cpu_quota: read("/sys/fs/cgroup/cpu.max").and_then(|text| cpu_quota(&text)),
            steal_percent: read("/proc/stat").and_then(|text| steal_percent(&text)),
            load_average: read("/proc/loadavg").and_then(|text| load_average(&text)),
            rustc: env!("LAB_RUSTC_VERSION").to_owned(),
            profile: env!("LAB_BUILD_PROFILE").to_owned(),
            noise: Vec::new(),
        };
        machine.noise = machine.disturbances();
        machine
    }

    /// The machine as names and values, in the order of reading.
    pub(super) fn facts(&self) -> Vec<(&'static str, String)> {
        let unsaid = || "not said".to_owned();
        let said = |value: &Option<String>| value.clone().unwrap_or_else(unsaid);
        let number = |value: Option<f64>, unit: &str| {
            value.map_or_else(unsaid, |value| format!("{value:.1} {unit}"))
        };
        let quota = |cpus: f64| format!("{cpus:.2} CPUs");
        let load = |[one, five, fifteen]: [f64; 3]| format!("{one:.2}  {five:.2}  {fifteen:.2}");
        let is_virtual = if self.virtual_machine {
            "yes"
        } else {
            "no sign of one"
        };
        let mitigations = match &self.mitigations[..] {
            [] => "none said".to_owned(),
            some => some.join("; "),
        };
        vec![
            ("date", self.date.clone()),
            (
                "processor",
                format!("{}, {} cores", self.cpu_model, self.cores),
            ),
            ("memory", number(self.memory_gib, "GiB")),
            ("kernel", self.kernel.clone()),
            ("clock source", said(&self.clocksource)),
            ("frequency governor", said(&self.governor)),
            ("virtual machine", is_virtual.to_owned()),
            (
                "CPU quota",
                self.cpu_quota.map_or_else(|| "none".to_owned(), quota),
            ),
            ("steal since boot", number(self.steal_percent, "%")),
            ("load average", self.load_average.map_or_else(unsaid, load)),
            (
                "compiler",
                format!("{}, {} profile", self.rustc, self.profile),
            ),
            ("mitigations", mitigations),
        ]
    }

    fn disturbances(&self) -> Vec<String> {
        let mut noise = Vec::new();
        if self.profile != "release" {
            noise.push("The lab was built without optimisation: its numbers mean little.".into());
        }
        if self.virtual_machine {
            noise.push(
                "A virtual machine: its host may take time away unseen, so compare ratios, not \
                 absolute numbers."
                    .into(),
            );
        }
        if let Some([one, ..]) = self.load_average
            && one > 0.3
        {
            noise.push(format!(
                "The load average was {one:.2} on {} cores when this was written: some of it may \
                 be the experiments' own, some another's.",
                self.cores
            ));
        }
        if let Some(steal) = self.steal_percent.filter(|percent| *percent >= 0.1) {
            noise.push(format!(
                "{steal:.1} % of CPU time since boot went to other machines."
            ));
        }
        if let Some(clock) = self.clocksource.as_deref().filter(|clock| *clock != "tsc") {
            noise.push(format!(
                "Time is read from {clock}, which costs a system call or worse."
            ));
        }
        if self
            .governor
            .as_deref()
            .is_some_and(|governor| governor != "performance")
        {
            noise.push("The frequency governor may slow an idle core: latency includes it.".into());
        }
        if let Some(cpus) = self.cpu_quota {
            noise.push(format!(
                "A quota of {cpus:.2} CPUs: a process over it is stopped a while."
            ));
        }
        noise
    }
}

fn read(path: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

/// `2026-11-21 09:05 UTC` of a count of seconds since 1970.
pub(super) fn date(seconds: u64) -> String {
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // Days are counted from 1 March of year 0, so that a leap day ends its year; an era is 400
    // years. This is the usual arithmetic of the proleptic Gregorian calendar.
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 {
        march_month + 3
    } else {
        march_month - 9
    };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute) = (second / 3_600, second % 3_600 / 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02} UTC")
}

pub(super) fn cpu_model(cpuinfo: &str) -> Option<String> {
    field(cpuinfo, "model name").map(|name| name.split_whitespace().collect::<Vec<_>>().join(" "))
}

fn is_virtual(cpuinfo: &str) -> bool {
    field(cpuinfo, "flags").is_some_and(|flags| flags.split(' ').any(|flag| flag == "hypervisor"))
}

fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then_some(value.trim())
    })
}

pub(super) fn memory_gib(meminfo: &str) -> Option<f64> {
    let kib: f64 = field(meminfo, "MemTotal")?
        .split(' ')
        .next()?
        .parse()
        .ok()?;
    Some(kib / (1024.0 * 1024.0))
}

/// From `cpu.max`: "quota period" in microseconds, or "max period".
pub(super) fn cpu_quota(cpu_max: &str) -> Option<f64> {
    let (quota, period) = cpu_max.split_once(' ')?;
    let (quota, period): (f64, f64) = (quota.parse().ok()?, period.parse().ok()?);
    (period > 0.0).then_some(quota / period)
}

/// From the first line of `/proc/stat`, whose eighth count is the time stolen. The two after it
/// are parts of the first two, and must not be counted twice.
pub(super) fn steal_percent(stat: &str) -> Option<f64> {
    let counts = stat.lines().next()?.strip_prefix("cpu ")?;
    let counts: Vec<f64> = counts
        .split_whitespace()
        .take(8)
        .map(|count| count.parse().unwrap_or(0.0))
        .collect();
    let total: f64 = counts.iter().sum();
    (total > 0.0).then_some(100.0 * counts.get(7)? / total)
}

pub(super) fn load_average(loadavg: &str) -> Option<[f64; 3]> {
    let mut parts = loadavg.split(' ').map(str::parse);
    Some([
        parts.next()?.ok()?,
        parts.next()?.ok()?,
        parts.next()?.ok()?,
    ])
}

fn mitigations() -> Vec<String> {
    let Ok(entries) = fs::read_dir("/sys/devices/system/cpu/vulnerabilities") else {
        return Vec::new();
    };
    let mut found: Vec<String> = entries
        .filter_map(|entry| {
            let path = entry.ok()?.path();
            let status = read(path.to_str()?)?;
            let name = path.file_name()?.to_str()?.to_owned();
            // The detail after the first clause changes nothing for a reader of numbers.
            let clause = status.split([';', ',']).next().unwrap_or_default();
            let brief = clause.trim_start_matches("Mitigation: ").trim();
            (status != "Not affected").then(|| format!("{name}: {brief}"))
        })
        .collect();
    found.sort();
    found
}
