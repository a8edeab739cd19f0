//! `evenkeel-cameras hash-password`.

use std::io::{BufRead, IsTerminal, Write};
use std::process::ExitCode;

use crate::config::account::is_user_name;
use crate::rtsp::auth::{Algorithm, digest_of};
use crate::rtsp::server::REALM;
use crate::users;

use super::{HashArguments, Outcome};

/// A longer line is no password.
const LINE_BYTES_MAX: u64 = 512;

pub(super) fn run(arguments: &HashArguments) -> Outcome {
    let name = &arguments.name;
    if !is_user_name(name) {
        let why = "is no name for a user: it has letters, without `:`, `\\` and quotes";
        return Err(format!("{name:?} {why}").into());
    }
    let password = &password()?;
    // As TOML writes it: accents that stand alone are letters there.
    let quoted = |text: &str| toml::Value::from(text).to_string();
    let hash = quoted(&users::hash(password)?);
    let mut user = format!(
        "[[user]]\nname = {}\npassword_hash = {hash}\n",
        quoted(name)
    );
    if arguments.digest {
        let digest = digest_of(Algorithm::Md5, name, REALM, password);
        user += &format!("digest = {}\n", quoted(&digest));
    }
    user += "role = \"viewer\"\n";
    std::io::stdout().write_all(user.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// Asks for it without showing it; from a pipe or a file it is the first line.
fn password() -> Result<String, Box<dyn std::error::Error + Send + Sync>> {
    if std::io::stdin().is_terminal() {
        let password = rpassword::prompt_password("password: ")?;
        if password.is_empty() {
            return Err("the password is empty".into());
        }
        if rpassword::prompt_password("once more: ")? != password {
            return Err("these were two different passwords; nothing was printed".into());
        }
        return Ok(password);
    }
    let mut line = String::new();
    let mut input = std::io::Read::take(std::io::stdin().lock(), LINE_BYTES_MAX);
    input.read_line(&mut line)?;
    let password = line.trim_end_matches(['\r', '\n']);
    if password.is_empty() {
        return Err("the first line of the standard input is the password, and it is empty".into());
    }
    Ok(password.to_owned())
}
