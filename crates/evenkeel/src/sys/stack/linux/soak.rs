//! Many questions to threads that do all sorts of things.

use std::hint::{black_box, spin_loop};
use std::panic;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use crate::sync::Arc;
use crate::sys::stack::{Ends, Stack};
use crate::sys::thread::{ThreadId, current};

use super::{ask, read_blocked};

const QUESTIONS: usize = 10_000;
/// Of so many questions one is answered. The others are left before, as when a poll ends.
const ONE_IN: u64 = 100;
/// One of so many is to a thread that ends.
const ENDS: u64 = 100;
/// Of which numbers the order of the questions is drawn.
const SEED: u64 = 0x5eed_0f57_ac75;

struct Poll(AtomicU64);

impl Ends for Poll {
    fn number(&self) -> &AtomicU64 {
        &self.0
    }
}

/// Marsaglia's xorshift with 64 bits (G. Marsaglia, "Xorshift RNGs", 2003).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        // The upper bits are the better ones.
        (self.0 >> 32) % limit
    }
}

/// What a thread does again and again. It keeps its mark on its stack.
type Habit = fn(mark: u64);

fn allocates(_: u64) {
    let boxes: Vec<_> = (1..64).map(|size| vec![7_u8; size * 97]).collect();
    black_box(boxes);
}

fn panics(_: u64) {
    drop(panic::catch_unwind(|| panic::resume_unwind(Box::new(7))));
}

fn starts_a_thread_that_ends(_: u64) {
    std::thread::spawn(|| black_box(7)).join().unwrap();
}

fn is_in_a_call(_: u64) {
    // The call must not fail because of a question.
    std::fs::read_to_string("/proc/self/stat").unwrap();
    let (send, receive) = channel::<()>();
    drop(send);
    receive.recv().unwrap_err();
    // Nor must the question change why another one failed.
    std::fs::File::open("/proc/self/nothing").unwrap_err();
    let reason = || std::io::Error::last_os_error().raw_os_error();
    let before = reason();
    (0..5_000).for_each(|_| assert_eq!(reason(), before));
}

/// So deep that a copy of the stack does not reach down to where the thread began: each level keeps
/// the mark.
fn goes_deep(mark: u64) {
    fn down(mark: u64, level: u32) -> u64 {
        let frame = black_box([mark; 64]);
        if level == 0 {
            return frame[0];
        }
        down(mark, level - 1) ^ frame[63]
    }
    black_box(down(mark, 200));
}

const HABITS: [Habit; 5] = [
    allocates,
    panics,
    starts_a_thread_that_ends,
    is_in_a_call,
    goes_deep,
];

/// What the thread with this habit keeps on its stack, and no other. Behind the last habit there is
/// the thread that ends.
fn mark_of(habit: usize) -> u64 {
    0x5eed_0bad_cafe_f00d ^ ((habit as u64 + 1) << 17)
}

fn live(habit: usize, done: &AtomicBool, told: &Sender<ThreadId>, may_end: &Receiver<()>) {
    let marks = [mark_of(habit); 4];
    black_box(&marks);
    told.send(current()).unwrap();
    // Relaxed: nothing else is shared by it.
    while !done.load(Ordering::Relaxed) {
        HABITS[habit](marks[0]);
    }
    // It must exist while it is asked.
    let _ = may_end.recv();
    black_box(&marks);
}

/// Asks a thread that ends as soon as it has been asked: its answer comes, or never does.
fn ask_one_that_ends(poll: &Arc<Poll>, random: &mut Random) -> Option<Stack> {
    let may_end = Arc::new(AtomicBool::new(false));
    let (tell, told) = channel();
    let ends = Arc::clone(&may_end);
    let thread = std::thread::spawn(move || {
        let marks = [mark_of(HABITS.len()); 4];
        black_box(&marks);
        tell.send(current()).unwrap();
        // Relaxed: nothing else is shared by it.
        while !ends.load(Ordering::Relaxed) {
            spin_loop();
        }
        black_box(&marks);
    });
    let id = told.recv().unwrap();
    let question = ask(id, Arc::<Poll>::clone(poll), 7).unwrap();
    (0..random.below(2_000)).for_each(|_| spin_loop());
    may_end.store(true, Ordering::Relaxed);
    read_blocked(id);
    thread.join().unwrap();
    // The question is taken back, whether it was answered or not.
    question.collect().flatten()
}

/// Asks until there is an answer. While an earlier question is on its way, the system takes no
/// other to that thread.
fn answer_of(thread: ThreadId, poll: &Arc<Poll>, give_up: Instant) -> Stack {
    let (mut answer, mut patience) = (None, Duration::from_millis(2));
    while answer.is_none() && Instant::now() < give_up {
        let question = ask(thread, Arc::<Poll>::clone(poll), 7).unwrap();
        let leave = Instant::now() + patience;
        while answer.is_none() && Instant::now() < leave {
            std::thread::yield_now();
            answer = question.collect();
        }
        // The thread may have to wait for a processor, too.
        patience *= 2;
    }
    answer.flatten().expect("the number stays")
}

/// The stack is that of the thread with this habit, and of no other.
fn assert_stack_of(habit: usize, stack: &Stack) {
    assert!(stack.registers.instruction > 0 && stack.registers.frame.is_some());
    for other in 0..=HABITS.len() {
        let mark = mark_of(other).to_ne_bytes();
        let has = stack.bytes.windows(mark.len()).any(|word| word == mark);
        assert!(has == (other == habit), "habit {habit}, mark of {other}");
    }
}

#[test]
fn questions_at_any_moment_do_no_harm() {
    let done = Arc::new(AtomicBool::new(false));
    let (end, started): (Vec<_>, Vec<_>) = (0..HABITS.len())
        .map(|habit| {
            let done = Arc::clone(&done);
            let ((tell, told), (end, may_end)) = (channel(), channel());
            let thread = std::thread::spawn(move || live(habit, &done, &tell, &may_end));
            (end, (told.recv().unwrap(), thread))
        })
        .unzip();
    let poll = Arc::new(Poll(AtomicU64::new(7)));
    let mut random = Random(SEED);
    let (mut answers, mut read) = ([0; HABITS.len() + 1], 0);
    let give_up = Instant::now() + Duration::from_secs(60);
    for _ in 0..QUESTIONS {
        if random.below(ENDS) == 0 {
            if let Some(stack) = ask_one_that_ends(&poll, &mut random) {
                assert_stack_of(HABITS.len(), &stack);
                answers[HABITS.len()] += 1;
            }
            continue;
        }
        let habit = random.below(HABITS.len() as u64) as usize;
        let thread = started[habit].0;
        read += usize::from(read_blocked(thread).is_some());
        if random.below(ONE_IN) != 0 {
            drop(ask(thread, Arc::<Poll>::clone(&poll), 7));
            continue;
        }
        assert_stack_of(habit, &answer_of(thread, &poll, give_up));
        answers[habit] += 1;
    }
    // Relaxed: as above.
    done.store(true, Ordering::Relaxed);
    drop(end);
    let joined = started.into_iter().map(|(_, thread)| thread.join());
    joined.for_each(|ended| ended.unwrap());
    let enough = answers.iter().all(|&count| count > 5);
    assert!(enough, "{answers:?} answers by habit, {read} read");
}
