//! Tests of what the report says of the machine.

use crate::report::Machine;
use crate::report::machine::{cpu_model, cpu_quota, date, load_average, memory_gib, steal_percent};

#[test]
fn dates_are_those_of_the_calendar() {
    assert_eq!(date(0), "1970-01-01 00:00 UTC");
    assert_eq!(date(951_782_399), "2000-02-28 23:59 UTC");
    assert_eq!(date(951_782_400), "2000-02-29 00:00 UTC");
    assert_eq!(date(1_795_254_240), "2026-11-21 09:44 UTC");
    assert_eq!(
        date(4_107_542_400),
        "2100-03-01 00:00 UTC",
        "2100 is no leap year"
    );
}

#[test]
fn the_kernel_is_understood() {
    let cpuinfo = "processor\t: 0\nmodel name\t: AMD  EPYC   9R14\nflags\t\t: fpu hypervisor\n";
    assert_eq!(cpu_model(cpuinfo).as_deref(), Some("AMD EPYC 9R14"));
    assert_eq!(
        memory_gib("MemTotal:        8388608 kB\nMemFree: 1 kB"),
        Some(8.0)
    );
    assert_eq!(cpu_quota("max 100000"), None);
    assert_eq!(cpu_quota("150000 100000"), Some(1.5));
    assert_eq!(
        load_average("0.52 0.58 0.59 1/467 12345"),
        Some([0.52, 0.58, 0.59])
    );
    // The guest's 400 are within the user's count already.
    assert_eq!(
        steal_percent("cpu  500 0 100 300 50 0 0 50 400 0\ncpu0 1"),
        Some(5.0)
    );
}

#[test]
fn what_makes_no_sense_is_not_said() {
    for text in ["", "cpu", "cpu  ", "x y", ":::"] {
        assert_eq!(cpu_model(text), None);
        assert_eq!(memory_gib(text), None);
        assert_eq!(cpu_quota(text), None);
        assert_eq!(load_average(text), None);
        assert_eq!(steal_percent(text), None);
    }
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
