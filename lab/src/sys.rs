//! The system calls for which no safe wrapper is at hand: the only unsafe code of the lab.
#![allow(unsafe_code, reason = "this is where the system is called in C")]

use std::fs::File;
use std::io;
use std::os::fd::FromRawFd;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Descriptors per process that the lab asks for: enough for every experiment, and few enough to be
/// polite.
const DESCRIPTORS_MAX: libc::rlim_t = 20_000;

/// Makes the kernel kill the child of `command` when the thread that starts it ends, so that even a
/// lab that was killed outright leaves no process behind. Also puts the child into a process group
/// of its own, so that all it starts can be ended together, and onto `cpus` when there are any.
pub(crate) fn tie_to_parent(command: &mut Command, cpus: &[usize]) {
    let parent = std::process::id();
    let set = (!cpus.is_empty()).then(|| cpu_set(cpus));
    command.process_group(0);
    // SAFETY: the closure runs between fork and exec and makes only async-signal-safe system calls
    // on values that were computed before the fork; it allocates nothing and takes no lock.
    unsafe {
        command.pre_exec(move || {
            if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) != 0 {
                return Err(io::Error::last_os_error());
            }
            // The parent may have ended before the call above took effect.
            if libc::getppid() as u32 != parent {
                return Err(io::Error::from_raw_os_error(libc::ESRCH));
            }
            if let Some(set) = &set
                && libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), set) != 0
            {
                return Err(io::Error::last_os_error());
            }
            Ok(())
        });
    }
}

/// Asks for SIGKILL when the thread that started this process ends (`--exit-with-parent`).
pub(crate) fn die_with_parent() -> io::Result<()> {
    // SAFETY: prctl with PR_SET_PDEATHSIG takes a signal number and touches no memory of ours.
    check(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) })
}

/// Keeps the calling thread, and all that it starts later, on `cpus`.
pub(crate) fn pin(cpus: &[usize]) -> io::Result<()> {
    let set = cpu_set(cpus);
    // SAFETY: `set` is an initialised cpu_set_t, its size is the one passed, and it outlives the
    // call.
    check(unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set) })
}

/// Ends every process of the group that `leader` leads. An error means that none is left.
pub(crate) fn kill_group(leader: u32, signal: i32) -> io::Result<()> {
    let Ok(leader) = libc::pid_t::try_from(leader) else {
        return Err(io::Error::from_raw_os_error(libc::ESRCH));
    };
    // SAFETY: kill takes two numbers and touches no memory of ours.
    check(unsafe { libc::kill(-leader, signal) })
}

/// Waits until the child `pid` has ended, and leaves it to be reaped.
pub(crate) fn wait_unreaped(pid: u32) -> io::Result<()> {
    loop {
        // SAFETY: siginfo_t is plain data for which all zeroes is a value; the pointer is to a
        // local that outlives the call.
        let ended = check(unsafe {
            let mut info: libc::siginfo_t = std::mem::zeroed();
            libc::waitid(
                libc::P_PID,
                pid,
                &raw mut info,
                libc::WEXITED | libc::WNOWAIT,
            )
        });
        match ended {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

/// The processor time that all threads of process `pid` have used so far, to the nanosecond.
pub(crate) fn process_cpu_time(pid: u32) -> io::Result<Duration> {
    let mut clock = 0;
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: both pointers are to initialised locals that outlive the calls.
    let (found, read) = unsafe {
        let found = libc::clock_getcpuclockid(pid as libc::pid_t, &raw mut clock);
        (
            found,
            if found == 0 {
                libc::clock_gettime(clock, &raw mut time)
            } else {
                0
            },
        )
    };
    if found != 0 {
        return Err(io::Error::from_raw_os_error(found));
    }
    check(read)?;
    Ok(Duration::new(time.tv_sec as u64, time.tv_nsec as u32))
}

/// Raises this process's limit of open descriptors as far as it may, at most to
/// [`DESCRIPTORS_MAX`].
pub(crate) fn raise_descriptor_limit() -> io::Result<()> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the pointer is to an initialised local that outlives the call.
    check(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) })?;
    let wanted = limit.rlim_max.min(DESCRIPTORS_MAX);
    if limit.rlim_cur < wanted {
        limit.rlim_cur = wanted;
        // SAFETY: as above; setrlimit only reads.
        check(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) })?;
    }
    Ok(())
}

/// As [`periodic_timer`], for tasks of the Tokio runtime in which this is called.
pub(crate) fn awaited_timer(period: Duration) -> io::Result<AsyncFd<File>> {
    let timer = periodic_timer(period)?;
    // SAFETY: what is registered has to own its descriptor until it is dropped, as a `File` does.
    Ok(unsafe { AsyncFd::register_with_interest(timer, Interest::READABLE)? })
}

/// A timer that becomes readable every `period`, from one period after now; read 8 bytes to rearm
/// it. Unlike a timeout of the readiness queue it has nanoseconds for a unit, and no slack.
pub(crate) fn periodic_timer(period: Duration) -> io::Result<File> {
    // SAFETY: timerfd_create takes two numbers; the descriptor it returns is open and owned by
    // nobody else, which is what `File::from_raw_fd` asks for.
    let timer = unsafe {
        let descriptor = libc::timerfd_create(
            libc::CLOCK_MONOTONIC,
            libc::TFD_NONBLOCK | libc::TFD_CLOEXEC,
        );
        check(descriptor.min(0))?;
        File::from_raw_fd(descriptor)
    };
    let interval = libc::timespec {
        tv_sec: period.as_secs() as libc::time_t,
        tv_nsec: period.subsec_nanos().into(),
    };
    let setting = libc::itimerspec {
        it_interval: interval,
        it_value: interval,
    };
    // SAFETY: `setting` is initialised and outlives the call, and a null old value is allowed.
    check(unsafe {
        use std::os::fd::AsRawFd;
        libc::timerfd_settime(
            timer.as_raw_fd(),
            0,
            &raw const setting,
            std::ptr::null_mut(),
        )
    })?;
    Ok(timer)
}

/// Makes this process give way to others by `nice` more than it does already.
pub(crate) fn give_way(nice: i32) -> io::Result<()> {
    // SAFETY: both calls take numbers and touch no memory of ours.
    check(unsafe {
        let so_far = libc::getpriority(libc::PRIO_PROCESS, 0);
        libc::setpriority(libc::PRIO_PROCESS, 0, (so_far + nice).min(19))
    })
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

/// How many processors the machine may have, those included that are switched off.
pub(crate) fn processors() -> usize {
    // SAFETY: sysconf takes a number and touches no memory of ours.
    let processors = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) };
    usize::try_from(processors).unwrap_or(1)
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
    /// As the kernel has it, in its first version.
    #[repr(C)]
    struct Attributes {
        size: u32,
        policy: u32,
        flags: u64,
        nice: i32,
        priority: u32,
        turn_ns: u64,
        deadline_ns: u64,
        period_ns: u64,
    }
    const SHORTEST_NS: u64 = 100_000;
    // SAFETY: getpriority takes two numbers, and sched_setattr reads a value that is initialised,
    // says its own size and outlives the call. Niceness is left as it is.
    unsafe {
        let attributes = Attributes {
            size: size_of::<Attributes>() as u32,
            policy: libc::SCHED_OTHER as u32,
            flags: 0,
            nice: libc::getpriority(libc::PRIO_PROCESS, 0),
            priority: 0,
            turn_ns: SHORTEST_NS,
            deadline_ns: 0,
            period_ns: 0,
        };
        libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0);
    }
}

fn cpu_set(cpus: &[usize]) -> libc::cpu_set_t {
    // SAFETY: cpu_set_t is an array of integers, for which all zeroes is the empty set; CPU_SET is
    // given numbers below CPU_SETSIZE only, so that it writes inside the set.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        for &cpu in cpus.iter().filter(|&&cpu| cpu < libc::CPU_SETSIZE as usize) {
            libc::CPU_SET(cpu, &mut set);
        }
        set
    }
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
