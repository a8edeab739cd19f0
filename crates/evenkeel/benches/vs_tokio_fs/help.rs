//! What `--help` says after the options.

use crate::cell;

/// How to read it, and the rows that there are.
pub(crate) fn text() -> String {
    let rows: Vec<String> = (cell::all().iter())
        .map(|cell| format!("  {cell}"))
        .collect();
    format!("{TEXT}\nROWS\n{}", rows.join("\n"))
}

const TEXT: &str = "\
HOW TO READ A TABLE
  Each figure is the median over the rounds. In a round each contender is measured once, on a
  runtime made for it and ended after it, with a worker for each processor; the order changes from
  round to round. `ratio` is made of the two medians: above 1 evenkeel is faster. `spread` is the
  least and the greatest ratio of any one round: where it has 1 inside, the row decides nothing.
  --json writes the same tables for programs. Name the file by its whole path: cargo starts a
  benchmark in its package's folder.

WHAT A ROW IS
  So many tasks (x1, x32), each in its own part of one file, do one operation of that size after
  the other for a quarter of a second; what was written in sequence is flushed at the end, within
  the time.
  cached  what is read is in the system's cache; what is written goes there.
  device  what is read is not in the cache, and the system does not read ahead; what is written
          goes to a file opened with O_DSYNC, so each write waits for the device.
  seq     through AsyncRead and AsyncWrite of both.
  at      at an offset: `read_exact_at` and `write_all_at` here; a seek and `read_exact` or
          `write_all` and a flush on Tokio's File, which has no such methods. `by hand` is what its
          users do instead: std's methods within `spawn_blocking`. `no ring` is evenkeel told to
          do without the kernel's completion queue.
";
