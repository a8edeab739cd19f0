//! The program; see the library.

fn main() -> std::process::ExitCode {
    evenkeel_cli::run()
}
