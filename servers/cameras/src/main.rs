//! The program.

use std::process::ExitCode;

/// Groups of pictures come and go by the hundred, and what a burst took is to be given back.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    cameras::cli::main()
}
