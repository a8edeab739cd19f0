//! What must work however stuck the runtime is: signals, the parent's end, statistics at intervals.
//! All of it runs on plain threads and in signal handlers, never on a worker.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::args::ServeArgs;
use super::stats::RuntimeStats;
use crate::error::{Error, Result};
use crate::sys;

/// Ends the process, successfully, on SIGTERM and ctrl-c, and with its parent when that is asked
/// for.
pub(crate) fn watch(args: &ServeArgs) -> Result<()> {
    for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT] {
        // The handler itself ends the process: no worker has to be free for it.
        let at_once = Arc::new(AtomicBool::new(true));
        signal_hook::flag::register_conditional_shutdown(signal, 0, at_once)
            .map_err(Error::system("cannot install a signal handler"))?;
    }
    if args.exit_with_parent {
        sys::die_with_parent().map_err(Error::system("cannot tie the process to its parent"))?;
        std::thread::spawn(|| {
            // Whatever the parent says is ignored; an error, too, says that it is gone.
            let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
            std::process::exit(0);
        });
    }
    Ok(())
}

/// Keeps the main thread: for ever, or from one line of statistics to the next.
pub(crate) fn keep(args: &ServeArgs, stats: impl Fn() -> RuntimeStats) -> ! {
    loop {
        let Some(seconds) = args.stats_every else {
            std::thread::park();
            continue;
        };
        std::thread::sleep(Duration::from_secs(seconds.get() as u64));
        match serde_json::to_string(&stats()) {
            Ok(line) => print_line(&format!("stats {line}")),
            Err(error) => eprintln!("stats: {error}"),
        }
    }
}

/// Says where a service listens.
pub(crate) fn announce(service: &str, address: SocketAddr) {
    print_line(&format!("{service} {address}"));
}

/// A line on standard output, at once; a reader that is gone is no reason to stop serving.
pub(crate) fn print_line(line: &str) {
    let mut output = io::stdout().lock();
    let _ = writeln!(output, "{line}").and_then(|()| output.flush());
}
