//! System calls that fail, as with a broken device or in a container that forbids them.
//!
//! The kernel itself refuses them (seccomp), so nothing between the test and the system is
//! replaced. The refusal is permanent for the calling thread and the threads that it starts, so
//! [`where_refused`] runs a test on a thread of its own.
#![allow(unsafe_code, reason = "seccomp is called in C")]

use std::io;
use std::mem::offset_of;

/// A call that fails.
#[derive(Clone, Copy)]
pub(crate) struct Refusal {
    /// Its number.
    pub(crate) call: i64,
    /// Fails only with this as its first argument.
    pub(crate) descriptor: Option<i32>,
    /// The error it fails with.
    pub(crate) error: i32,
}

/// Runs `body` with these calls failing. If the kernel cannot do that, says so and does nothing.
pub(crate) fn where_refused(refusals: &[Refusal], body: impl FnOnce() + Send) {
    std::thread::scope(|scope| {
        let run = scope.spawn(|| match refuse(refusals) {
            Ok(()) => body(),
            Err(error) => eprintln!("skipped: no call can be made to fail here: {error}"),
        });
        if let Err(panic) = run.join() {
            std::panic::resume_unwind(panic);
        }
    });
}

fn refuse(refusals: &[Refusal]) -> io::Result<()> {
    let mut filter: Vec<libc::sock_filter> = refusals.iter().flat_map(steps).collect();
    filter.push(step(
        libc::BPF_RET | libc::BPF_K,
        libc::SECCOMP_RET_ALLOW,
        0,
    ));
    let program = libc::sock_fprog {
        len: filter.len().try_into().map_err(io::Error::other)?,
        filter: filter.as_mut_ptr(),
    };
    // SAFETY: the call takes only numbers.
    if unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let mode = libc::SECCOMP_MODE_FILTER;
    // SAFETY: the program and its filter live until the call, which copies them, has returned.
    if unsafe { libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const program) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// The steps for one refusal, which jump to the next refusal if the call is another one.
fn steps(refusal: &Refusal) -> Vec<libc::sock_filter> {
    let load = |at: usize| step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, at as u32, 0);
    let skip_unless = |value: u32, steps: u8| {
        let compare = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
        step(compare, value, steps)
    };
    let fail = libc::SECCOMP_RET_ERRNO | refusal.error as u32;
    let mut steps = vec![load(offset_of!(libc::seccomp_data, nr))];
    let call = refusal.call as u32;
    match refusal.descriptor {
        None => steps.push(skip_unless(call, 1)),
        Some(descriptor) => {
            let low = if cfg!(target_endian = "big") { 4 } else { 0 };
            steps.push(skip_unless(call, 3));
            steps.push(load(offset_of!(libc::seccomp_data, args) + low));
            steps.push(skip_unless(descriptor as u32, 1));
        }
    }
    steps.push(step(libc::BPF_RET | libc::BPF_K, fail, 0));
    steps
}

fn step(code: u32, value: u32, otherwise: u8) -> libc::sock_filter {
    libc::sock_filter {
        code: code as u16,
        jt: 0,
        jf: otherwise,
        k: value,
    }
}
