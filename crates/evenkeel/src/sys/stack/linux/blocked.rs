//! The stack of a thread that is blocked in a system call.

use std::fs;

use crate::sys::thread::ThreadId;

use super::super::{Registers, Stack};
use super::STACK_MAX;
use super::copy::copy_memory;

/// The stack of a thread that is blocked and stays so meanwhile. `None` if it runs, or the system
/// does not say where it stands. The caller knows that the thread exists.
pub(crate) fn read_blocked(thread: ThreadId) -> Option<Stack> {
    let before = stands_at(thread)?;
    let mut bytes = vec![0; STACK_MAX];
    let len = copy_memory(before.stack, &mut bytes);
    bytes.truncate(len);
    let stands_still = stands_at(thread)? == before;
    stands_still.then_some(Stack {
        registers: before,
        bytes,
    })
}

/// Where a thread that does not run has left its code (`proc_pid_syscall(5)`).
fn stands_at(thread: ThreadId) -> Option<Registers> {
    let path = format!("/proc/self/task/{}/syscall", thread.number());
    parse(&fs::read_to_string(path).ok()?)
}

/// The last two numbers are the stack pointer and the instruction; before them are the call and its
/// arguments, or -1 outside a call. A thread that runs has `running` instead.
fn parse(text: &str) -> Option<Registers> {
    let mut words = text.split_ascii_whitespace().rev();
    let mut next = || u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok();
    let (instruction, stack) = (next()?, next()?);
    Some(Registers {
        instruction,
        stack,
        frame: None,
        link: 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::thread;

    #[test]
    fn the_kernels_words_are_read() {
        let blocked = "230 0x0 0x0 0x7ffd 0x0 0x8 0x0 0x7ffd3a01 0x7f55e\n";
        let at = parse(blocked).unwrap();
        assert_eq!((at.stack, at.instruction), (0x7ffd_3a01, 0x7_f55e));
        assert_eq!(parse("-1 0x10 0x20\n").unwrap().stack, 0x10);
        for other in ["running\n", "", "0x1", "1 2 3"] {
            assert_eq!(parse(other), None, "{other:?}");
        }
    }

    #[test]
    fn the_stack_of_a_blocked_thread_has_what_it_keeps_there() {
        let (send, receive) = std::sync::mpsc::channel();
        let (done, wait) = std::sync::mpsc::channel::<()>();
        let other = std::thread::spawn(move || {
            let mark = std::hint::black_box([0x5eed_u64.wrapping_mul(0x1234_5678_9abc); 4]);
            send.send(thread::current()).unwrap();
            wait.recv().unwrap();
            std::hint::black_box(mark)[0]
        });
        let thread = receive.recv().unwrap();
        let give_up = std::time::Instant::now() + std::time::Duration::from_secs(10);
        let stack = loop {
            let stack = read_blocked(thread);
            if stack.is_some() || std::time::Instant::now() > give_up {
                break stack.unwrap();
            }
        };
        done.send(()).unwrap();
        let mark = other.join().unwrap().to_ne_bytes();
        assert!(stack.bytes.windows(8).any(|word| word == mark));
    }
}
