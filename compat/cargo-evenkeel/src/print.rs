//! This program's own `println!`, `eprint!` and `eprintln!`.
//!
//! The standard ones panic when their reader has gone, as in `cargo evenkeel doctor | head -1`.
//! Then these print nothing, and the program goes on to its end and its exit code.

use std::fmt;
use std::io::{self, ErrorKind, Write};

macro_rules! println {
    ($($words:tt)*) => { $crate::print::out(format_args!($($words)*)) };
}

macro_rules! eprint {
    ($($words:tt)*) => { $crate::print::err(format_args!($($words)*)) };
}

macro_rules! eprintln {
    ($($words:tt)*) => { $crate::print::err(format_args!("{}\n", format_args!($($words)*))) };
}

/// Prints a line.
pub(crate) fn out(words: fmt::Arguments<'_>) {
    if let Err(error) = writeln!(io::stdout(), "{words}")
        && error.kind() != ErrorKind::BrokenPipe
    {
        eprintln!("warning: cannot print: {error}");
    }
}

/// Says something beside what the program prints.
pub(crate) fn err(words: fmt::Arguments<'_>) {
    // If this fails, there is nobody to tell.
    _ = write!(io::stderr(), "{words}");
}
