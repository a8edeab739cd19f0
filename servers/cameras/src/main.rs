//! The program.

use std::process::ExitCode;

fn main() -> ExitCode {
    cameras::cli::main()
}
