//! The command line of the examples: arguments, help, and errors.

use std::env;
use std::fmt::Display;
use std::process::ExitCode;

/// The arguments in order; missing ones are taken from `defaults`.
///
/// # Errors
///
/// The exit code, after a message was printed: for `--help`, an option, or too many arguments.
pub(crate) fn arguments<const COUNT: usize>(
    help: &str,
    defaults: [&str; COUNT],
) -> Result<[String; COUNT], ExitCode> {
    let mut arguments = defaults.map(str::to_owned);
    let mut places = arguments.iter_mut();
    for given in env::args_os().skip(1) {
        let given = given.to_string_lossy().into_owned();
        if given == "--help" || given == "-h" {
            print!("{help}");
            return Err(ExitCode::SUCCESS);
        }
        match places.next() {
            Some(place) if !given.starts_with('-') => *place = given,
            _ => return Err(fail(format!("`{given}` is not expected; see `--help`"))),
        }
    }
    Ok(arguments)
}

/// The exit code of the program; an error is printed in one line.
pub(crate) fn end(result: Result<(), String>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(error),
    }
}

fn fail(error: impl Display) -> ExitCode {
    eprintln!("error: {error}");
    ExitCode::FAILURE
}
