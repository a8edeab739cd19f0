//! The program.

use std::process::ExitCode;

fn main() -> ExitCode {
    proxy::cli::main()
}
