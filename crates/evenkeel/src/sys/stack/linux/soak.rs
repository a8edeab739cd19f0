//! Many questions to threads that do all sorts of things.

use std::hint::black_box;
use std::panic;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use crate::sync::Arc;
use crate::sys::stack::Ends;
use crate::sys::thread::{ThreadId, current};

use super::{ask, read_blocked};

const QUESTIONS: usize = 10_000;

struct Poll(AtomicU64);

impl Ends for Poll {
    fn number(&self) -> &AtomicU64 {
        &self.0
    }
}

/// What a thread does again and again.
type Habit = fn();

fn allocates() {
    let boxes: Vec<_> = (1..64).map(|size| vec![7_u8; size * 97]).collect();
    black_box(boxes);
}

fn panics() {
    drop(panic::catch_unwind(|| panic::resume_unwind(Box::new(7))));
}

fn starts_a_thread_that_ends() {
    std::thread::spawn(|| black_box(7)).join().unwrap();
}

fn is_in_a_call() {
    // The call must not fail because of a question.
    std::fs::read_to_string("/proc/self/stat").unwrap();
    let (send, receive) = channel::<()>();
    drop(send);
    receive.recv().unwrap_err();
}

fn goes_deep() {
    fn down(level: u32) -> u64 {
        let frame = black_box([u64::from(level); 64]);
        if level == 0 {
            return frame[0];
        }
        down(level - 1) + frame[63]
    }
    black_box(down(200));
}

const HABITS: [Habit; 5] = [
    allocates,
    panics,
    starts_a_thread_that_ends,
    is_in_a_call,
    goes_deep,
];

fn live(habit: Habit, done: &AtomicBool, told: &Sender<ThreadId>, may_end: &Receiver<()>) {
    told.send(current()).unwrap();
    while !done.load(Ordering::Relaxed) {
        habit();
    }
    // It must exist while it is asked.
    let _ = may_end.recv();
}

#[test]
fn questions_at_any_moment_do_no_harm() {
    let done = Arc::new(AtomicBool::new(false));
    let (tell, told) = channel();
    let (end, threads): (Vec<_>, Vec<_>) = (HABITS.iter())
        .map(|&habit| {
            let (done, tell) = (Arc::clone(&done), tell.clone());
            let (end, may_end) = channel();
            let thread = std::thread::spawn(move || live(habit, &done, &tell, &may_end));
            (end, thread)
        })
        .unzip();
    let asked: Vec<_> = HABITS.iter().map(|_| told.recv().unwrap()).collect();
    let poll = Arc::new(Poll(AtomicU64::new(7)));
    let (mut answers, mut read) = (0, 0);
    let give_up = Instant::now() + Duration::from_secs(60);
    for number in 0..QUESTIONS {
        let thread = asked[number % asked.len()];
        let watched = || -> Arc<dyn Ends> { Arc::<Poll>::clone(&poll) };
        read += usize::from(read_blocked(thread).is_some());
        // Most questions are left before they are answered, as when a poll ends.
        if number % 50 != 0 {
            drop(ask(thread, watched(), 7));
            continue;
        }
        // While such a question is on its way, the system takes no other to that thread.
        let mut answer = None;
        while answer.is_none() && Instant::now() < give_up {
            let question = ask(thread, watched(), 7).unwrap();
            let patience = Instant::now() + Duration::from_millis(2);
            while answer.is_none() && Instant::now() < patience {
                std::thread::yield_now();
                answer = question.collect();
            }
        }
        let stack = answer.flatten().expect("the number stays");
        assert!(!stack.bytes.is_empty());
        answers += 1;
    }
    done.store(true, Ordering::Relaxed);
    drop(end);
    threads.into_iter().for_each(|it| it.join().unwrap());
    assert!(answers == QUESTIONS / 50, "{answers} answers, {read} read");
}
