//! The tests on a machine that takes processors away, as a busy host does of its guests: in random
//! bursts, which no thread of the tests can push aside. What hangs or fails there has waited for
//! something that nobody promised, or shows a defect that needs just such a moment.

use std::io::Read as _;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::cargo::Cargo;

/// How often all tests are run, if not said otherwise.
pub(crate) const ROUNDS: u32 = 1;

/// Builds the tests, then runs them so many times beside bursts on each processor.
pub(crate) fn run(rounds: u32) -> Result<()> {
    let tests = || Cargo::new("test --workspace --all-features --no-fail-fast");
    tests().arg("--no-run").run()?;
    let processors = thread::available_parallelism().map_or(1, usize::from);
    let bursts: Vec<Burst> = (0..processors).map(Burst::start).collect::<Result<_>>()?;
    let mut failed = 0;
    for round in 1..=rounds {
        println!("== round {round} of {rounds}, beside bursts on {processors} processors");
        failed += u32::from(tests().run().is_err());
    }
    for burst in bursts {
        burst.end()?;
    }
    ensure!(failed == 0, "tests failed in {failed} of {rounds} rounds");
    Ok(())
}

/// A process that takes one processor, which ends when this one does.
struct Burst(Child);

impl Burst {
    fn start(processor: usize) -> Result<Self> {
        let program = std::env::current_exe().context("cannot tell where this program is")?;
        // Real-time priority: no other thread can push it aside. It takes a privilege.
        let child = Command::new("chrt")
            .args(["--fifo", "50", "taskset", "--cpu-list"])
            .arg(processor.to_string())
            .arg(program)
            .args(["burst", &processor.to_string()])
            .stdin(Stdio::piped())
            .spawn();
        child
            .map(Self)
            .context("cannot run `chrt` and `taskset`, which util-linux has on Linux")
    }

    fn end(mut self) -> Result<()> {
        if let Some(status) = self.0.try_wait().context("cannot look at a burst")? {
            bail!("a burst has ended with {status}; real-time priority takes root or CAP_SYS_NICE");
        }
        drop(self.0.stdin.take());
        self.0.wait().context("cannot wait for a burst")?;
        Ok(())
    }
}

/// What such a process does: takes its processor for 0.1 to 60 ms, now and then for 300, and lets
/// it go for a third of that to three times as long, until its standard input is closed.
pub(crate) fn burst(seed: u64) -> Result<()> {
    let input = thread::spawn(|| std::io::stdin().read_to_end(&mut Vec::new()));
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    while !input.is_finished() {
        let length = match random.below(100) {
            0..2 => Duration::from_millis(300),
            2..30 => Duration::from_micros(20_000 + random.below(40_000)),
            _ => Duration::from_micros(100 + random.below(10_000)),
        };
        let began = Instant::now();
        while began.elapsed() < length {
            std::hint::spin_loop();
        }
        let percent = 30 + random.below(250) as u32;
        thread::sleep(length * percent / 100);
    }
    Ok(())
}

/// Xorshift: which bursts there are has to be varied, and not unforeseeable.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_numbers_reach_every_kind_of_burst() {
        let mut random = Random(1);
        let kinds: Vec<u64> = (0..1_000).map(|_| random.below(100)).collect();
        for range in [0..2, 2..30, 30..100] {
            assert!(kinds.iter().any(|kind| range.contains(kind)), "{range:?}");
        }
        assert!(kinds.iter().all(|&kind| kind < 100));
    }
}
