//! The lab: evenkeel's experiments, run beside its peers.
//!
//! `evenkeel-lab` runs all of them in some three and a half minutes and writes a report;
//! `evenkeel-lab NAME` runs one; `serve` and `load` are the two sides of every experiment, for
//! anyone's own use, and `split` is the one that needs no load. Each side is a process of its own:
//! what is measured and what measures share no thread, no runtime and no allocator.

mod cli;
mod error;
mod experiments;
mod frames;
mod load;
mod peers;
mod process;
mod report;
mod serve;
mod split;
mod sys;
mod trial;

fn main() -> std::process::ExitCode {
    let asked = cli::Cli::read(std::env::args_os()).unwrap_or_else(|error| error.exit());
    match asked.run() {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("evenkeel-lab: {error}");
            std::process::ExitCode::FAILURE
        }
    }
}
