//! What `--help` says after the options.

use crate::{crowd, idle, memory, network, scheduler};

/// How to read it, and what is measured. The rows are named by the parts themselves.
pub(crate) fn text() -> String {
    let network: Vec<_> = network::ROWS.iter().map(|(name, ..)| *name).collect();
    let crowd: Vec<_> = crowd::ROWS.iter().map(|(name, _)| *name).collect();
    let memory: Vec<_> = memory::ROWS.iter().map(|(name, _)| *name).collect();
    TEXT.replace("{scheduler}", &list(&scheduler::rows()))
        .replace("{network}", &list(&network))
        .replace("{crowd}", &list(&crowd))
        .replace("{memory}", &list(&memory))
        .replace("{tasks}", &idle::TASKS.to_string())
        .replace("{connections}", &idle::CONNECTIONS.to_string())
}

fn list(names: &[&str]) -> String {
    let lines: Vec<_> = names.iter().map(|name| format!("      {name}")).collect();
    lines.join("\n")
}

const TEXT: &str = "\
HOW TO READ A TABLE
  Each figure is the median over the rounds. In a round each contender is measured once, on a
  runtime made for it and ended after it; the order changes from round to round, so that heat and
  caches fall on all alike.
  `ratio` is made of the two medians, and so turned that above 1 evenkeel is better than Tokio,
  whether more or less of the figure is better. `spread` is the least and the greatest ratio of
  any one round: where it has 1 inside, the row decides nothing. The geometric mean is of the
  ratios of all rows above it.
  --json writes the same tables for programs. Name the file by its whole path: cargo starts a
  benchmark in its package's folder.

SCHEDULER: microseconds for one iteration
  The loads by which Tokio judges changes to its own scheduler, with 4 workers:
{scheduler}

NETWORK: requests per second of the server's processor time, latency, requests per second
  A client on a thread of its own, which stands on no runtime, has one request at a time under
  way on each connection: 64 bytes that are sent back (echo), or a small HTTP/1.1 request
  answered by the hyper library (hello). It has the machine's last processor, the server all
  others, with one worker for each; a machine with a single processor shares it.
{network}
  Requests per processor second count the server's threads only. They say what a request costs,
  and are the ones to judge by: requests per second are also the client's limit, and with all
  processors in use they follow from the cost.
  `bare` is the kernel's own limit for echo: one thread, one readiness queue, one receive and
  one send for each request; no runtime, no tasks. `bare:tokio` is its ratio to Tokio, with its
  own spread, formed likewise: about what is attainable at all for that load. A ratio of
  evenkeel's that is close to it leaves little to gain. Bare has each connection served in its
  turn: with many connections, a server that serves some of them several times as often as
  others may surpass it in requests, and pays with the 99th percentile. With more than one
  processor for the server it can be passed in requests per second, as it has one thread only.
  `ring` is the same without readiness: one thread, one completion queue of the kernel's
  (io_uring), which receives unasked into buffers that it picks, and is told all the sends of a
  turn in one system call. It awaits as many requests as lately came together, for 50 us at the
  longest, so that it makes few such calls. The time of the kernel's threads that work for it is
  counted too. Where there is no such queue, a line below the table says why.
  There is neither for hello, whose answers need the HTTP library.

CROWD: microseconds until an answer
  A client asks for a byte every millisecond, of a server with one worker. Beside it, as many
  tasks as the row says stand in a circle and pass on bytes over TCP, so that the kernel always
  has events for many of them:
{crowd}
  The one is served in evenkeel's class URGENT; Tokio has no classes.

MEMORY: resident bytes
{memory}
  The growth of the process's resident memory that is no file's, from before to after it holds
  {tasks} tasks that were polled once and await forever, or {connections} TCP connections that were
  answered once and await the next request, divided by their number. The other ends of the
  connections are in another process, and each measurement has a fresh process; always 5 of them,
  in turn. A task is a future without size, and a connection has a buffer of 64 bytes, so nearly
  all is the runtime's. What the kernel keeps for a socket is not in it.

HOW LONG IT TAKES
  About 3 minutes and the crowd: scheduler 50 s, network 2 1/2 minutes, memory 6 s; --quick 50 s.
  The crowd takes longer the longer its answers do, as a round has a hundred at least.
  On a machine where others work too, the spread grows; what it decides then is less.
";
