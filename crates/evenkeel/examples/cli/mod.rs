//! The command line of the examples: what they say when they are asked for help, are given what
//! they do not understand, or cannot begin.

use std::env;
use std::fmt::Display;
use std::process::ExitCode;

/// The arguments, in their places; those left out are the `defaults`.
///
/// # Errors
///
/// How the program is to end, and what there is to say is said: `help` was asked for, or there is
/// an option or one argument too many.
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

/// How the program ends after its work: if that failed, with one line that says why.
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
