//! Tests of what the report says of the machine.

use chrono::DateTime;
use procfs::{CpuInfo, CurrentSI, FromRead, KernelStats};

use crate::report::Machine;
use crate::report::machine::{cpu_model, cpu_quota, date, steal_percent};

#[test]
fn dates_are_those_of_the_calendar() {
    let of = |seconds| date(DateTime::from_timestamp_secs(seconds).expect("a moment"));
    assert_eq!(of(0), "1970-01-01 00:00 UTC");
    assert_eq!(of(951_782_400), "2000-02-29 00:00 UTC");
    assert_eq!(of(1_795_254_240), "2026-11-21 09:44 UTC");
}

#[test]
fn the_kernel_is_understood() {
    let cpuinfo = "processor\t: 0\nmodel name\t: AMD  EPYC   9R14\nflags\t\t: fpu hypervisor\n";
    let cpus = CpuInfo::from_read(cpuinfo.as_bytes()).expect("as a kernel says it");
    assert_eq!(cpu_model(&cpus).as_deref(), Some("AMD EPYC 9R14"));
    assert_eq!(cpu_quota("max 100000"), None);
    assert_eq!(cpu_quota("150000 100000"), Some(1.5));
    for text in ["", "cpu", "x y", ":::"] {
        assert_eq!(cpu_quota(text), None);
    }
}

#[test]
fn what_guests_had_is_not_counted_twice() {
    // The guest's 400 are within the user's count already.
    let mut stat = KernelStats::current().expect("/proc is there");
    (stat.total.user, stat.total.nice, stat.total.system) = (500, 0, 100);
    (stat.total.idle, stat.total.iowait) = (300, Some(50));
    (stat.total.irq, stat.total.softirq) = (Some(0), Some(0));
    (stat.total.steal, stat.total.guest) = (Some(50), Some(400));
    assert_eq!(steal_percent(&stat.total), Some(5.0));
    stat.total.steal = None;
    assert_eq!(steal_percent(&stat.total), None);
}

#[test]
fn this_machine_can_be_asked() {
    let machine = Machine::detect();
    assert!(machine.cores >= 1);
    assert!(
        machine.date.starts_with("20") && machine.date.ends_with(" UTC"),
        "{}",
        machine.date
    );
    assert!(machine.rustc.starts_with("rustc "), "{}", machine.rustc);
    assert!(machine.facts().iter().all(|(_, value)| !value.is_empty()));
}
