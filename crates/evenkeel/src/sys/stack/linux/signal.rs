//! The stack of a thread that computes: a signal's handler copies it there.

use std::io;
use std::ptr;

use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Arc, Mutex, OnceLock, thread};
use crate::sys::thread::ThreadId;

use super::super::{Ends, Registers, Stack};
use super::STACK_MAX;
use super::copy::copy_memory;
use super::slots::{Slot, Slots, Ticket};

/// At most so many threads are asked at once, in the whole process. Each slot that was ever used
/// keeps the memory for a copy.
const SLOTS: usize = 8;
/// The system ignores it unless somebody handles it, so a late one does no harm. Go's runtime
/// interrupts its threads by this one for that reason (its proposal 24543 on preemption).
const SIGNAL: libc::c_int = libc::SIGURG;
/// What tells our signals from those of others: a code that neither the kernel nor libc gives.
const CODE: libc::c_int = -0x45;

const NO_REGISTERS: Registers = Registers {
    instruction: 0,
    stack: 0,
    frame: None,
    link: 0,
};

static COPIES: Slots<StackCopy, SLOTS> = Slots([const { Slot::new(StackCopy::new()) }; SLOTS]);
/// Who handled the signal before this module did.
static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();
static IS_HANDLED: Mutex<bool> = Mutex::new(false);

/// A question to a thread.
pub(crate) struct Asked {
    ticket: Ticket,
    /// The handler looks at it.
    _watched: Arc<dyn Ends>,
}

/// What a handler is told, and what it leaves.
#[derive(Debug)]
struct StackCopy {
    watched: *const AtomicU64,
    number: u64,
    registers: Registers,
    /// Of [`STACK_MAX`] bytes once the slot has been used.
    buffer: Vec<u8>,
    len: usize,
    /// What was watched was over.
    is_over: bool,
}

// SAFETY: the pointer is to a part of what `Asked` keeps alive, and is used only while it does.
unsafe impl Send for StackCopy {}

impl StackCopy {
    const fn new() -> Self {
        Self {
            watched: ptr::null(),
            number: 0,
            registers: NO_REGISTERS,
            buffer: Vec::new(),
            len: 0,
            is_over: false,
        }
    }

    fn prepare(&mut self, watched: &AtomicU64, number: u64) {
        self.watched = watched;
        self.number = number;
        self.buffer.resize(STACK_MAX, 0);
    }

    /// For the handler.
    fn fill(&mut self, registers: Registers) {
        // SAFETY: the asker keeps what is watched alive until it has the slot back.
        let number = unsafe { &*self.watched };
        // Relaxed: this thread stores it, and no other.
        self.is_over = number.load(Ordering::Relaxed) != self.number;
        self.registers = registers;
        self.len = copy_memory(registers.stack, &mut self.buffer);
    }

    fn take(&self) -> Option<Stack> {
        (!self.is_over).then(|| Stack {
            registers: self.registers,
            bytes: self.buffer[..self.len].to_vec(),
        })
    }
}

/// Asks a thread that computes for its stack, to be taken only while the number of `watched` is
/// this one. The caller knows that the thread exists.
///
/// # Errors
///
/// The system refuses, or too many threads were asked and have not answered yet.
pub(crate) fn ask(thread: ThreadId, watched: Arc<dyn Ends>, number: u64) -> io::Result<Asked> {
    handle_signals()?;
    let ticket = COPIES
        .ask(|copy| copy.prepare(watched.number(), number))
        .ok_or(io::ErrorKind::WouldBlock)?;
    let asked = Asked {
        ticket,
        _watched: watched,
    };
    send(thread, ticket)?;
    Ok(asked)
}

impl Asked {
    /// The stack, when it is there; within, `None` if what was watched was over by then.
    pub(crate) fn collect(&self) -> Option<Option<Stack>> {
        COPIES.collect(self.ticket, |copy| copy.take())
    }

    /// Takes the question back. Returns false if a handler is about to answer it: then it has to be
    /// taken back later, or is when it is dropped, which waits for the handler.
    pub(crate) fn give_up(&self) -> bool {
        COPIES.give_up(self.ticket)
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        // A handler that is at it looks at what is watched, and is done soon.
        while !COPIES.give_up(self.ticket) {
            thread::yield_now();
        }
    }
}

/// `siginfo_t` of a signal with a value, as Linux lays it out on 64-bit systems (`sigaction(2)`).
#[repr(C)]
struct Info {
    signal: libc::c_int,
    error: libc::c_int,
    code: libc::c_int,
    _pad: libc::c_int,
    process: libc::pid_t,
    user: libc::uid_t,
    value: u64,
    _rest: [u64; 12],
}

const _: () = assert!(size_of::<Info>() == size_of::<libc::siginfo_t>());

fn send(thread: ThreadId, ticket: Ticket) -> io::Result<()> {
    // SAFETY: system calls without arguments.
    let (process, user) = unsafe { (libc::getpid(), libc::getuid()) };
    let info = Info {
        signal: SIGNAL,
        error: 0,
        code: CODE,
        _pad: 0,
        process,
        user,
        value: ticket.number(),
        _rest: [0; 12],
    };
    let call = libc::SYS_rt_tgsigqueueinfo;
    // SAFETY: the pointer is to a live structure of the layout and the size that the call expects.
    let result = unsafe { libc::syscall(call, process, thread.number(), SIGNAL, &raw const info) };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Installs the handler once. It stays, and passes on what is not ours.
fn handle_signals() -> io::Result<()> {
    let mut is_handled = IS_HANDLED.lock();
    if *is_handled {
        return Ok(());
    }
    // SAFETY: all zeroes is a valid `sigaction`: the default action.
    let mut before: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: asks only; the pointer is to a live structure.
    check(unsafe { libc::sigaction(SIGNAL, ptr::null(), &raw mut before) })?;
    // First, so that the handler finds it.
    let before = BEFORE.get_or_init(|| before);
    let mut action = *before;
    action.sa_sigaction = handler as *const () as usize;
    action.sa_flags = libc::SA_SIGINFO | flags_beside(before);
    // SAFETY: the handler does only what is safe in one, which its functions state.
    check(unsafe { libc::sigaction(SIGNAL, &raw const action, ptr::null_mut()) })?;
    *is_handled = true;
    Ok(())
}

/// What the handler before had is kept, as it is still called: it may need more room than there is
/// on a thread's stack for signals, or interrupt calls on purpose. By ourselves we burden no small
/// stack, where there is one for signals, and interrupt nothing that the system can restart.
fn flags_beside(before: &libc::sigaction) -> libc::c_int {
    match before.sa_sigaction {
        libc::SIG_DFL | libc::SIG_IGN => libc::SA_RESTART | libc::SA_ONSTACK,
        _ => before.sa_flags & (libc::SA_RESTART | libc::SA_ONSTACK | libc::SA_NODEFER),
    }
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

extern "C" fn handler(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the system passes a valid structure to a handler with `SA_SIGINFO`.
    if unsafe { (*info).si_code } != CODE {
        return pass_on(signal, info, context);
    }
    // SAFETY: `errno` is the thread's own. The interrupted code may be about to read it.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    let error = unsafe { *errno };
    // SAFETY: a signal with our code was sent by `send`, whose layout has the value there.
    let ticket = Ticket::of_number(unsafe { (*info.cast::<Info>()).value });
    // SAFETY: with `SA_SIGINFO` the context is a `ucontext_t`.
    let registers = registers(unsafe { &*context.cast::<libc::ucontext_t>() });
    COPIES.fill(ticket, |copy| copy.fill(registers));
    // SAFETY: as above.
    unsafe { *errno = error };
}

/// Calls whoever handled the signal before.
fn pass_on(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let Some(before) = BEFORE.get() else { return };
    match before.sa_sigaction {
        // By default the system ignores it.
        libc::SIG_DFL | libc::SIG_IGN => {}
        handler if before.sa_flags & libc::SA_SIGINFO != 0 => {
            type Handler = extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void);
            // SAFETY: whoever installed it promised a function of this type by the flag.
            let handler: Handler = unsafe { std::mem::transmute(handler) };
            handler(signal, info, context);
        }
        handler => {
            // SAFETY: without the flag it is a function of this type.
            let handler: extern "C" fn(libc::c_int) = unsafe { std::mem::transmute(handler) };
            handler(signal);
        }
    }
}

#[cfg(target_arch = "x86_64")]
fn registers(context: &libc::ucontext_t) -> Registers {
    let general = |register: libc::c_int| context.uc_mcontext.gregs[register as usize] as u64;
    Registers {
        instruction: general(libc::REG_RIP),
        stack: general(libc::REG_RSP),
        frame: Some(general(libc::REG_RBP)),
        link: 0,
    }
}

#[cfg(target_arch = "aarch64")]
fn registers(context: &libc::ucontext_t) -> Registers {
    let machine = &context.uc_mcontext;
    Registers {
        instruction: machine.pc,
        stack: machine.sp,
        frame: Some(machine.regs[29]),
        link: machine.regs[30],
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;
    use std::time::{Duration, Instant};

    use super::*;
    use crate::sys::thread::current;

    struct Poll(AtomicU64);

    impl Ends for Poll {
        fn number(&self) -> &AtomicU64 {
            &self.0
        }
    }

    /// Asks a thread that computes, and waits for the answer.
    fn ask_busy_thread(poll: &Arc<Poll>, number: u64) -> (u64, Option<Stack>) {
        static ENDS: AtomicBool = AtomicBool::new(false);
        ENDS.store(false, Ordering::Relaxed);
        let (send, receive) = std::sync::mpsc::channel();
        let other = std::thread::spawn(move || {
            let mark = std::hint::black_box([0x5eed_u64.wrapping_mul(0x1234_5678_9abc); 4]);
            send.send(current()).unwrap();
            while !ENDS.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
            std::hint::black_box(mark)[0]
        });
        let watched: Arc<dyn Ends> = Arc::<Poll>::clone(poll);
        let asked = ask(receive.recv().unwrap(), watched, number).unwrap();
        let give_up = Instant::now() + Duration::from_secs(10);
        let mut answer = asked.collect();
        while answer.is_none() && Instant::now() < give_up {
            std::thread::yield_now();
            answer = asked.collect();
        }
        ENDS.store(true, Ordering::Relaxed);
        (other.join().unwrap(), answer.unwrap())
    }

    #[test]
    fn a_handler_that_is_called_on_keeps_what_it_was_installed_with() {
        // SAFETY: all zeroes is a valid `sigaction`: the default action.
        let mut before: libc::sigaction = unsafe { std::mem::zeroed() };
        assert_eq!(flags_beside(&before), libc::SA_RESTART | libc::SA_ONSTACK);
        before.sa_sigaction = handler as *const () as usize;
        assert_eq!(
            flags_beside(&before),
            0,
            "its calls are interrupted, on its stack"
        );
        before.sa_flags = libc::SA_RESTART | libc::SA_RESETHAND;
        assert_eq!(flags_beside(&before), libc::SA_RESTART);
    }

    #[test]
    fn a_thread_that_computes_leaves_its_stack_while_it_does_what_was_meant() {
        let poll = Arc::new(Poll(AtomicU64::new(7)));
        let (mark, stack) = ask_busy_thread(&poll, 7);
        let stack = stack.unwrap();
        assert!(stack.registers.instruction > 0 && stack.registers.frame.is_some());
        let mark = mark.to_ne_bytes();
        assert!(stack.bytes.windows(8).any(|word| word == mark));
        let (_, stack) = ask_busy_thread(&poll, 8);
        assert!(stack.is_none(), "that was over");
    }
}
