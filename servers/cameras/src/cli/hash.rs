//! `evenkeel-cameras hash-password`.

use std::io::BufRead;
use std::process::ExitCode;

use crate::rtsp::auth::{Algorithm, digest_of};
use crate::rtsp::server::REALM;
use crate::users;

use super::{HashArguments, Outcome};

/// A longer line is no password.
const LINE_BYTES_MAX: u64 = 512;

pub(super) fn run(arguments: &HashArguments) -> Outcome {
    let mut line = String::new();
    let mut input = std::io::Read::take(std::io::stdin().lock(), LINE_BYTES_MAX);
    input.read_line(&mut line)?;
    let password = line.trim_end_matches(['\r', '\n']);
    if password.is_empty() {
        return Err("the first line of the standard input is the password, and it is empty".into());
    }
    let name = &arguments.name;
    println!("[[user]]");
    println!("name = {name:?}");
    println!("password_hash = {:?}", users::hash(password)?);
    if arguments.digest {
        let digest = digest_of(Algorithm::Md5, name, REALM, password);
        println!("digest = {digest:?}");
    }
    println!("role = \"viewer\"");
    Ok(ExitCode::SUCCESS)
}
