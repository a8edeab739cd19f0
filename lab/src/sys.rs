//! What the lab asks of the kernel, and the only unsafe code of the lab: calls for which no safe
//! wrapper is at hand.
#![allow(unsafe_code, reason = "this is where the system is called in C")]

use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::{Duration, Instant};

use nix::time::ClockId;
use nix::unistd::{SysconfVar, sysconf};
use rustix::process::{Pid, Resource, Signal, WaitId, WaitIdOptions};
use rustix::thread::{CpuSet, sched_setaffinity};
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec};
use rustix::{process, time};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Descriptors per process that the lab asks for: enough for every experiment, and few enough to be
/// polite.
const DESCRIPTORS_MAX: u64 = 20_000;

/// Makes the kernel kill the child of `command` when the thread that starts it ends, so that even a
/// lab that was killed outright leaves no process behind. Also puts the child into a process group
/// of its own, so that all it starts can be ended together, and onto `cpus` when there are any.
pub(crate) fn tie_to_parent(command: &mut Command, cpus: &[usize]) {
    let parent = pid(std::process::id()).ok();
    let set = (!cpus.is_empty()).then(|| cpu_set(cpus));
    command.process_group(0);
    let tie = move || {
        die_with_parent()?;
        // The parent may have ended before the call above took effect.
        if process::getppid() != parent {
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
        Ok(set
            .iter()
            .try_for_each(|set| sched_setaffinity(None, set))?)
    };
    // SAFETY: the closure runs between fork and exec and makes only async-signal-safe system calls
    // on values that were computed before the fork; it allocates nothing and takes no lock.
    unsafe { command.pre_exec(tie) };
}

/// Asks for SIGKILL when the thread that started this process ends (`--exit-with-parent`).
pub(crate) fn die_with_parent() -> io::Result<()> {
    Ok(process::set_parent_process_death_signal(Some(
        Signal::KILL,
    ))?)
}

/// Keeps the calling thread, and all that it starts later, on `cpus`.
pub(crate) fn pin(cpus: &[usize]) -> io::Result<()> {
    Ok(sched_setaffinity(None, &cpu_set(cpus))?)
}

/// Ends every process of the group that `leader` leads. An error means that none is left.
pub(crate) fn kill_group(leader: u32, signal: i32) -> io::Result<()> {
    let unknown = || io::Error::from_raw_os_error(libc::EINVAL);
    let signal = Signal::from_named_raw(signal).ok_or_else(unknown)?;
    Ok(process::kill_process_group(pid(leader)?, signal)?)
}

/// Waits until that child has ended, and leaves it to be reaped.
pub(crate) fn wait_unreaped(child: u32) -> io::Result<()> {
    let child = WaitId::Pid(pid(child)?);
    let ended = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    rustix::io::retry_on_intr(|| process::waitid(child.clone(), ended))?;
    Ok(())
}

fn pid(id: u32) -> io::Result<Pid> {
    let pid = i32::try_from(id).ok().and_then(Pid::from_raw);
    pid.ok_or_else(|| io::Error::from_raw_os_error(libc::ESRCH))
}

/// The processor time that all threads of process `pid` have used so far, to the nanosecond.
pub(crate) fn process_cpu_time(pid: u32) -> io::Result<Duration> {
    let clock = ClockId::pid_cpu_clock_id(nix::unistd::Pid::from_raw(pid as i32))?;
    Ok(clock.now()?.into())
}

/// Raises this process's limit of open descriptors as far as it may, at most to
/// [`DESCRIPTORS_MAX`].
pub(crate) fn raise_descriptor_limit() -> io::Result<()> {
    let mut limit = process::getrlimit(Resource::Nofile);
    let wanted = limit
        .maximum
        .map_or(DESCRIPTORS_MAX, |most| most.min(DESCRIPTORS_MAX));
    if limit.current.is_some_and(|current| current < wanted) {
        limit.current = Some(wanted);
        process::setrlimit(Resource::Nofile, limit)?;
    }
    Ok(())
}

/// A timer for tasks of the Tokio runtime in which this is called: it becomes readable at `start`
/// plus each multiple of `period`, or right after; read 8 bytes to rearm it. Unlike the runtime's
/// own it has nanoseconds for a unit, and no slack.
pub(crate) fn awaited_timer(start: Instant, period: Duration) -> io::Result<AsyncFd<File>> {
    let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
    let timer = time::timerfd_create(TimerfdClockId::Monotonic, flags)?;
    // SAFETY: what is registered has to own its descriptor until it is dropped, as a `File` does.
    let timer = unsafe { AsyncFd::register_with_interest(timer.into(), Interest::READABLE)? };
    let timespec =
        |nanos| Timespec::try_from(Duration::from_nanos(nanos)).map_err(io::Error::other);
    let period = period.as_nanos() as u64;
    let past = start.elapsed().as_nanos() as u64 % period;
    let setting = Itimerspec {
        it_interval: timespec(period)?,
        it_value: timespec(period - past)?,
    };
    time::timerfd_settime(timer.get_ref(), TimerfdTimerFlags::empty(), &setting)?;
    Ok(timer)
}

/// Makes this process give way to others by `nice` more than it does already.
pub(crate) fn give_way(nice: i32) -> io::Result<()> {
    process::nice(nice)?;
    Ok(())
}

/// Asks the kernel to let this thread in before all others on its processor, or at least soon:
/// without the privilege for a place in the real-time class, it asks for short turns. A kernel that
/// knows of no such thing, or refuses, changes nothing.
pub(crate) fn ask_to_go_first() {
    if !takes_real_time(1) {
        ask_for_short_turns();
    }
}

/// Gives this thread a higher priority than anything that the lab starts has. Returns whether it
/// may have it.
pub(crate) fn goes_before_all() -> bool {
    takes_real_time(3)
}

/// Whether this process is root's.
pub(crate) fn is_root() -> bool {
    process::geteuid().is_root()
}

/// How many processors the machine may have, those included that are switched off.
pub(crate) fn processors() -> usize {
    let processors = sysconf(SysconfVar::_NPROCESSORS_CONF).ok().flatten();
    processors.map_or(1, |processors| processors as usize)
}

/// Gives this thread a real-time priority. Returns whether it may have one.
fn takes_real_time(level: libc::c_int) -> bool {
    let parameter = libc::sched_param {
        sched_priority: level,
    };
    // SAFETY: sched_setscheduler reads a value that is initialised and outlives the call.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameter) == 0 }
}

/// Whether this process may have the real-time priorities that a runtime's workers and monitor
/// would: a thread tries.
pub(crate) fn allows_real_time() -> bool {
    let tried = std::thread::spawn(|| takes_real_time(2)).join();
    tried.unwrap_or(false)
}

fn ask_for_short_turns() {
    const SHORTEST_NS: u64 = 100_000;
    // SAFETY: getpriority takes two numbers, and sched_setattr reads a value that is initialised,
    // says its own size and outlives the call; all zeroes are a value of it. Niceness is left as it
    // is.
    unsafe {
        let mut attributes: libc::sched_attr = std::mem::zeroed();
        attributes.size = size_of::<libc::sched_attr>() as u32;
        attributes.sched_nice = libc::getpriority(libc::PRIO_PROCESS, 0);
        attributes.sched_runtime = SHORTEST_NS;
        libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0);
    }
}

fn cpu_set(cpus: &[usize]) -> CpuSet {
    let mut set = CpuSet::new();
    for &cpu in cpus.iter().filter(|&&cpu| cpu < CpuSet::MAX_CPU) {
        set.set(cpu);
    }
    set
}
