//! `evenkeel-proxy convert`.

use std::io::{Read, Write};
use std::process::ExitCode;

use crate::config;
use crate::convert::{BYTES_MAX, convert};

use super::{ConvertArguments, Outcome};

/// Something was printed, and something of it is missing or wrong.
const PARTIAL: u8 = 3;

pub(super) fn run(arguments: &ConvertArguments) -> Outcome {
    let shown = arguments.file.display().to_string();
    let cannot = |error: std::io::Error| format!("cannot read {shown}: {error}");
    let mut text = String::new();
    let file = std::fs::File::open(&arguments.file).map_err(cannot)?;
    let limit = (BYTES_MAX as u64).saturating_add(1);
    file.take(limit).read_to_string(&mut text).map_err(cannot)?;
    if text.len() > BYTES_MAX {
        return Err(
            format!("{shown} has more than {BYTES_MAX} bytes: convert a part of it").into(),
        );
    }
    let converted = convert(&shown, &text, &|name| std::env::var(name).ok());
    for remark in &converted.remarks {
        if remark.is_error || !arguments.quiet {
            eprintln!("{remark}");
        }
    }
    let is_whole = converted.is_whole();
    if !(is_whole || arguments.lossy) {
        eprintln!("nothing was printed, as something is missing; --lossy prints the rest");
        return Ok(ExitCode::FAILURE);
    }
    std::io::stdout().write_all(converted.toml.as_bytes())?;
    // Files are named from the directory on in which the result will be, which is likely this one.
    if let Err(error) = config::parse("the result", &converted.toml) {
        eprintln!("{error}");
        return Ok(ExitCode::from(PARTIAL));
    }
    Ok(match is_whole {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(PARTIAL),
    })
}
