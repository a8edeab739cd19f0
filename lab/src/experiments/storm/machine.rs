//! What the machine is asked for: what others had of the servers' processors, system calls, counted
//! by `perf` where it is installed and may count, and a network of Ethernet's segments.

use std::net::{IpAddr, Ipv4Addr};
use std::process::{Command, Stdio};
use std::time::Duration;

use procfs::{CpuTime, CurrentSI, KernelStats};

use crate::error::{Error, Result};
use crate::process::{Server, Undoing, Usage, run};
use crate::trial::Lab;

/// A beginning, to be held against the end. Others are the kernel's threads, other programs, other
/// machines of the same host. A server that had to wait for them made nobody wait.
pub(super) struct Others<'a> {
    cpus: &'a [usize],
    then: Option<Counts>,
    usage: Usage,
}

/// Ticks of some processors since the machine's start.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Counts {
    busy: u64,
    all: u64,
}

impl<'a> Others<'a> {
    /// `cpus`: where servers run; none if that is anywhere.
    pub(super) fn begin(cpus: &'a [usize], server: &Server) -> Self {
        Others {
            cpus,
            then: ticks(cpus),
            usage: server.process.usage(),
        }
    }

    /// How many processors others had since the beginning. `None` where servers have none of their
    /// own, or where the system does not tell.
    pub(super) fn cores(&self, server: &Server) -> Option<f64> {
        let (then, now) = (self.then?, ticks(self.cpus)?);
        let server = server.process.usage().cores_since(&self.usage);
        let busy = busy_cores(then, now, self.cpus.len())?;
        // Ticks are samples, and the server's time is exact.
        Some((busy - server).max(0.0))
    }
}

fn ticks(cpus: &[usize]) -> Option<Counts> {
    let stat = KernelStats::current().ok()?;
    let times = cpus.iter().map(|cpu| stat.cpu_time.get(*cpu));
    counts(times.collect::<Option<Vec<_>>>()?)
}

/// The guests' time is in that of users already.
fn counts(times: Vec<&CpuTime>) -> Option<Counts> {
    let mut sum = Counts::default();
    for time in &times {
        let interrupts = [time.irq, time.softirq, time.steal].into_iter().flatten();
        let busy = time.user + time.nice + time.system + interrupts.sum::<u64>();
        sum.busy += busy;
        sum.all += busy + time.idle + time.iowait?;
    }
    (!times.is_empty()).then_some(sum)
}

fn busy_cores(then: Counts, now: Counts, cpus: usize) -> Option<f64> {
    let all = now.all.checked_sub(then.all).filter(|all| *all > 0)?;
    let busy = now.busy.saturating_sub(then.busy);
    Some(cpus as f64 * busy as f64 / all as f64)
}

/// All threads that live, and those that they start.
const EVENT: &str = "raw_syscalls:sys_enter";

/// Whether system calls can be counted here.
pub(super) fn can_count(lab: &Lab) -> Result<(), String> {
    let counted = perf(lab, &["--", "true"]);
    counted.map(drop).map_err(|error| error.to_string())
}

/// The note of a report without such counts.
pub(super) fn advice(why: &String) -> String {
    format!(
        "System calls are not counted: {why}. It takes `perf` (lab/setup.sh installs it) and the \
         right to use its event `{EVENT}`."
    )
}

/// System calls of process `pid` within that time.
pub(super) fn count(lab: &Lab, pid: u32, length: Duration) -> Result<u64> {
    let (pid, seconds) = (pid.to_string(), length.as_secs_f64().to_string());
    perf(lab, &["-p", &pid, "--", "sleep", &seconds])
}

fn perf(lab: &Lab, of: &[&str]) -> Result<u64> {
    let mut command = Command::new("perf");
    command.args(["stat", "--log-fd", "1", "-x", ",", "-e", EVENT]);
    command.args(of);
    command.stderr(Stdio::null());
    let output = lab.tool("perf", &mut command)?.output()?;
    let reason = || format!("no count in `{}`", output.trim());
    counted(&output).ok_or_else(|| Error::unreadable("perf", reason()))
}

fn counted(output: &str) -> Option<u64> {
    let line = output.lines().find(|line| line.contains(EVENT))?;
    line.split(',').next()?.parse().ok()
}

/// Of the range that is set aside for measuring networks.
const SERVER: Ipv4Addr = Ipv4Addr::new(198, 18, 71, 1);
const LOAD: Ipv4Addr = Ipv4Addr::new(198, 18, 71, 2);

/// A network of its own: what the loopback device carries in one piece of any size arrives here in
/// segments. A pair of devices: one end here, the other in a namespace. Both go with it.
pub(super) struct Veth {
    pub(super) network: String,
    _undoing: Undoing,
}

impl Veth {
    pub(super) fn open() -> Result<Veth> {
        let network = format!("evenkeel-lab-{}", std::process::id());
        let make = ["ip", "netns", "add", &network];
        let undoing = Undoing::after(&make, &["ip", "netns", "delete", &network])?;
        let veth = Veth {
            network,
            _undoing: undoing,
        };
        veth.set_up()?;
        Ok(veth)
    }

    /// The address that servers have there.
    pub(super) fn host(&self) -> IpAddr {
        SERVER.into()
    }

    fn set_up(&self) -> Result<()> {
        let network = self.network.as_str();
        // Names of devices have at most 15 characters.
        let here = format!("ekl{}", std::process::id());
        let there = "eth0";
        let (server, load) = (format!("{SERVER}/30"), format!("{LOAD}/30"));
        let mtu = ["mtu", "1500", "gso_max_segs", "1", "up"];
        let inside = ["ip", "-n", network];
        run(&[
            "ip", "link", "add", &here, "type", "veth", "peer", "name", there, "netns", network,
        ])?;
        run(&["ip", "address", "add", &server, "dev", &here])?;
        run(&[&inside[..], &["address", "add", &load, "dev", there]].concat())?;
        run(&[&["ip", "link", "set", &here][..], &mtu].concat())?;
        run(&[&inside[..], &["link", "set", there], &mtu].concat())?;
        // With time stamps a segment would have room for 1 448 bytes, not for a frame.
        let stamps = "echo 0 > /proc/sys/net/ipv4/tcp_timestamps";
        run(&["ip", "netns", "exec", network, "sh", "-c", stamps]).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_neither_idle_nor_waiting_is_busy() {
        let mut stat = KernelStats::current().expect("/proc is there");
        let first = &mut stat.total;
        (first.user, first.nice, first.system) = (10, 1, 20);
        (first.idle, first.iowait, first.guest) = (60, Some(5), Some(7));
        (first.irq, first.softirq, first.steal) = (Some(1), Some(2), Some(1));
        let counted = Some(Counts { busy: 35, all: 100 });
        assert_eq!(counts(vec![&stat.total]), counted);
        let both = counts(vec![&stat.total, &stat.total]);
        assert_eq!(both, Some(Counts { busy: 70, all: 200 }));
        assert_eq!((counts(Vec::new()), ticks(&[1 << 20])), (None, None));
        let then = Counts { busy: 10, all: 100 };
        let now = Counts { busy: 60, all: 300 };
        assert_eq!(busy_cores(then, now, 2), Some(0.5));
        assert_eq!(busy_cores(now, now, 2), None);
    }

    #[test]
    fn a_count_is_counted() {
        let output = "# started\n\n144,,raw_syscalls:sys_enter,1205156,100.00,,\n";
        assert_eq!(counted(output), Some(144));
        assert_eq!(
            counted("<not counted>,,raw_syscalls:sys_enter,0,0.00,,"),
            None
        );
        assert_eq!(counted(""), None);
    }
}
