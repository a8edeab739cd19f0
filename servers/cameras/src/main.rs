//! The program.

use std::process::ExitCode;

/// Groups of pictures come and go by the hundred, and what a burst took is to be given back.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Has the kernel give pages of 4 KiB. The allocator asks for those of 2 MiB, of which parts stay
/// unused, and which are filled with zeros in the midst of a poll: see
/// `docs/decisions/small-pages.md`.
fn take_small_pages() {
    // A kernel without large pages refuses, and has nothing to switch off.
    _ = nix::sys::prctl::set_thp_disable(true);
}

fn main() -> ExitCode {
    take_small_pages();
    cameras::cli::main()
}
