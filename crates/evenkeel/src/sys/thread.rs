//! System calls for the scheduler: threads' processor time and priority, and a memory barrier in
//! all of them.

use std::io;
use std::time::Duration;

/// A thread of this process.
///
/// The kernel may reuse the id once the thread has ended, so it is used only while the thread is
/// known to exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ThreadId {
    #[cfg(target_os = "linux")]
    tid: libc::pid_t,
}

impl ThreadId {
    /// Its number, as the system's calls take it.
    #[cfg(target_os = "linux")]
    #[cfg_attr(
        any(not(feature = "hog-stacks"), evenkeel_preempt, evenkeel_tsan),
        allow(dead_code, reason = "no stacks are taken in these builds")
    )]
    pub(crate) fn number(self) -> libc::pid_t {
        self.tid
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usage {
    pub(crate) cpu: Duration,
    /// How often it blocked: voluntary context switches.
    pub(crate) blocked: u64,
}

/// How many nice levels below the workers a poll in the heavy pool begins. A worker, and any other
/// program at its level, then has 2.4 times the weight of the poll's thread. That is enough for a
/// worker that wakes to go first, and a request that computes for some milliseconds beside other
/// programs takes at most 2.4 times as long.
pub(crate) const STEPS_BRIEF: i32 = 4;
/// The same for a long poll: a worker then has nine times the weight, and at [`STEPS_MAX`] 68
/// times.
pub(crate) const STEPS_LONG: i32 = 10;
/// The most levels below the workers.
pub(crate) const STEPS_MAX: i32 = 19;
/// The real-time levels of workers and of the monitor, which has to get a processor even if workers
/// have all of them. They are the lowest, so all other real-time threads of the machine go first.
pub(crate) const REAL_TIME_WORKER: i32 = 1;
pub(crate) const REAL_TIME_MONITOR: i32 = 2;
/// The lowest kernel priority of the ordinary policies.
pub(crate) const NICE_MAX: i32 = 19;

/// Processor time used by the calling thread so far.
pub(crate) fn own_cpu_time() -> Duration {
    read_clock(libc::CLOCK_THREAD_CPUTIME_ID).unwrap_or_default()
}

fn read_clock(clock: libc::clockid_t) -> Option<Duration> {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the pointer is to a live `timespec`.
    let result = unsafe { libc::clock_gettime(clock, &raw mut time) };
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanos = u32::try_from(time.tv_nsec).unwrap_or(0);
    (result == 0).then(|| Duration::new(seconds, nanos))
}

#[cfg(target_os = "linux")]
mod imp {
    use super::*;

    pub(crate) fn current() -> ThreadId {
        // SAFETY: no arguments, no failure, and nothing of ours is touched.
        let tid = unsafe { libc::gettid() };
        ThreadId { tid }
    }

    /// Processor time used by a thread so far; `None` if it is gone.
    pub(crate) fn cpu_time(thread: ThreadId) -> Option<Duration> {
        // The kernel's encoding of a thread's processor-time clock, as `clock_getcpuclockid(3)`
        // makes it for a process: the complement of the id in the upper bits, and below the flag
        // for "thread" and the type "scheduler".
        let clock = (!thread.tid << 3) | 0b110;
        read_clock(clock)
    }

    pub(crate) fn usage() -> Usage {
        let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
        // SAFETY: the pointer is to memory of the right size, and all zeroes is a valid `rusage`.
        let usage = unsafe {
            libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr());
            usage.assume_init()
        };
        Usage {
            cpu: own_cpu_time(),
            blocked: u64::try_from(usage.ru_nvcsw).unwrap_or(0),
        }
    }

    pub(crate) fn nice() -> i32 {
        // SAFETY: arguments by value. It cannot fail for the calling thread.
        unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) }
    }

    /// Gives the calling thread a nice level, if the system lets it.
    pub(crate) fn set_nice(nice: i32) {
        // SAFETY: arguments by value.
        let _ = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, nice) };
    }

    /// Lowers a thread's kernel priority to a nice level, and gives it the policy `SCHED_BATCH`.
    pub(crate) fn lower(thread: ThreadId, nice: i32) -> io::Result<()> {
        debug_assert!(
            (-20..=NICE_MAX).contains(&nice),
            "{nice} is not a nice level"
        );
        let id = libc::id_t::try_from(thread.tid).unwrap_or(0);
        // SAFETY: arguments by value.
        let result = unsafe { libc::setpriority(libc::PRIO_PROCESS, id, nice) };
        if result != 0 {
            return Err(io::Error::last_os_error());
        }
        let parameter = libc::sched_param { sched_priority: 0 };
        // SAFETY: the pointer is to a live `sched_param`. A failure does not matter: the policy
        // only keeps a waking thread from preempting others.
        unsafe {
            // With the flag that a worker may have, which cannot be cleared without privilege.
            let policy = libc::SCHED_BATCH | libc::SCHED_RESET_ON_FORK;
            libc::sched_setscheduler(thread.tid, policy, &raw const parameter);
        }
        Ok(())
    }

    /// Gives the calling thread real-time priority. `inherited` says whether threads that it starts
    /// inherit it.
    pub(crate) fn set_real_time(level: i32, inherited: bool) -> io::Result<()> {
        let reset = if inherited {
            0
        } else {
            libc::SCHED_RESET_ON_FORK
        };
        set_policy(current(), libc::SCHED_RR | reset, level)
    }

    /// Takes real-time priority from the calling thread, if it has any.
    pub(crate) fn set_ordinary() -> io::Result<()> {
        // With the flag, which cannot be cleared without privilege.
        set_policy(current(), libc::SCHED_OTHER | libc::SCHED_RESET_ON_FORK, 0)
    }

    /// Takes real-time priority from another thread, and gives it the policy `SCHED_BATCH`.
    pub(crate) fn demote(thread: ThreadId) -> io::Result<()> {
        // With the flag, as above.
        let policy = libc::SCHED_BATCH | libc::SCHED_RESET_ON_FORK;
        set_policy(thread, policy, 0)
    }

    fn set_policy(thread: ThreadId, policy: libc::c_int, level: i32) -> io::Result<()> {
        let parameter = libc::sched_param {
            sched_priority: level,
        };
        // SAFETY: the pointer is to a live `sched_param`.
        let result = unsafe { libc::sched_setscheduler(thread.tid, policy, &raw const parameter) };
        if result == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    }

    /// Whether the thread runs or is ready to run, and is not blocked. `None` if unknown.
    pub(crate) fn is_runnable(thread: ThreadId) -> Option<bool> {
        let path = format!("/proc/self/task/{}/stat", thread.tid);
        let stat = std::fs::read_to_string(path).ok()?;
        // The name, in parentheses, may contain anything; the state follows the last `)`.
        let state = stat.rsplit_once(')')?.1.trim_start().chars().next()?;
        Some(state == 'R')
    }

    /// Asks the kernel to run the calling thread in slices of a tenth of a millisecond, so that it
    /// is picked early when it wakes (`sched_setattr(2)`; older kernels ignore or refuse it).
    /// Threads that it starts are not to inherit that, but the flag for it also resets a raised
    /// priority. So a thread that has one, or another policy, is left alone.
    pub(crate) fn prefer_short_slices() {
        let mut attributes = Attributes::default();
        let size = std::mem::size_of::<Attributes>() as u32;
        // SAFETY: the pointer is to a live structure of the given size. A refusal leaves `size` at
        // 0.
        unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, size, 0) };
        let ordinary = attributes.policy == libc::SCHED_OTHER as u32 && attributes.nice >= 0;
        if attributes.size == 0 || !ordinary {
            return;
        }
        attributes.size = size;
        attributes.flags |= libc::SCHED_FLAG_RESET_ON_FORK as u64;
        attributes.runtime = 100_000;
        // SAFETY: the pointer is to a live structure of the size it states. A refusal changes
        // nothing, and the thread works as before.
        unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
    }

    #[repr(C)]
    #[derive(Default)]
    struct Attributes {
        size: u32,
        policy: u32,
        flags: u64,
        nice: i32,
        priority: u32,
        runtime: u64,
        deadline: u64,
        period: u64,
    }

    /// Makes every running thread of the process execute a full memory barrier. Returns false if
    /// the system cannot; [`register_barrier`] finds this out beforehand.
    pub(crate) fn barrier_everywhere() -> bool {
        membarrier(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED)
    }

    /// Whether [`barrier_everywhere`] works here.
    pub(crate) fn register_barrier() -> bool {
        membarrier(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED)
    }

    fn membarrier(command: libc::c_int) -> bool {
        // SAFETY: arguments by value.
        unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
    }
}

#[cfg(not(target_os = "linux"))]
mod imp {
    use super::*;

    pub(crate) fn current() -> ThreadId {
        ThreadId {}
    }

    pub(crate) fn cpu_time(_: ThreadId) -> Option<Duration> {
        None
    }

    pub(crate) fn usage() -> Usage {
        Usage {
            cpu: own_cpu_time(),
            blocked: 0,
        }
    }

    pub(crate) fn nice() -> i32 {
        0
    }

    pub(crate) fn set_nice(_: i32) {}

    pub(crate) fn lower(_: ThreadId, _: i32) -> io::Result<()> {
        Err(io::Error::from(io::ErrorKind::Unsupported))
    }

    pub(crate) fn set_real_time(_: i32, _: bool) -> io::Result<()> {
        Err(io::Error::from(io::ErrorKind::Unsupported))
    }

    pub(crate) fn set_ordinary() -> io::Result<()> {
        Err(io::Error::from(io::ErrorKind::Unsupported))
    }

    pub(crate) fn demote(_: ThreadId) -> io::Result<()> {
        Err(io::Error::from(io::ErrorKind::Unsupported))
    }

    pub(crate) fn is_runnable(_: ThreadId) -> Option<bool> {
        None
    }

    pub(crate) fn prefer_short_slices() {}

    pub(crate) fn barrier_everywhere() -> bool {
        false
    }

    pub(crate) fn register_barrier() -> bool {
        false
    }
}

pub(crate) use imp::{
    barrier_everywhere, cpu_time, current, demote, is_runnable, lower, nice, prefer_short_slices,
    register_barrier, set_nice, set_ordinary, set_real_time, usage,
};

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_charged_for_what_it_computes_and_not_for_its_sleep() {
        let thread = current();
        let before = (cpu_time(thread).unwrap(), usage());
        std::thread::sleep(Duration::from_millis(30));
        let slept = (cpu_time(thread).unwrap(), usage());
        assert!(slept.0 - before.0 < Duration::from_millis(20));
        assert!(slept.1.blocked > before.1.blocked);
        while usage().cpu < slept.1.cpu + Duration::from_millis(20) {
            std::hint::spin_loop();
        }
        assert!(cpu_time(thread).unwrap() - slept.0 >= Duration::from_millis(20));
    }

    #[test]
    fn another_threads_priority_can_be_lowered_and_read_back() {
        let (send, receive) = std::sync::mpsc::channel();
        let (done, wait) = std::sync::mpsc::channel::<()>();
        let other = std::thread::spawn(move || {
            send.send(current()).unwrap();
            wait.recv().unwrap();
            // SAFETY: arguments by value.
            unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) }
        });
        let thread = receive.recv().unwrap();
        let lowered = lower(thread, NICE_MAX);
        done.send(()).unwrap();
        let nice = other.join().unwrap();
        if lowered.is_ok() {
            assert_eq!(nice, NICE_MAX);
        }
    }

    #[test]
    fn a_blocked_thread_is_told_from_one_that_runs() {
        assert_eq!(is_runnable(current()), Some(true));
        let (send, receive) = std::sync::mpsc::channel();
        let (done, wait) = std::sync::mpsc::channel::<()>();
        let other = std::thread::spawn(move || {
            send.send(current()).unwrap();
            let _ = wait.recv();
        });
        let thread = receive.recv().unwrap();
        let give_up = std::time::Instant::now() + Duration::from_secs(10);
        while is_runnable(thread) != Some(false) && std::time::Instant::now() < give_up {
            std::thread::yield_now();
        }
        assert_eq!(is_runnable(thread), Some(false));
        done.send(()).unwrap();
        other.join().unwrap();
    }
}
