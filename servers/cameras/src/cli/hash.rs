//! `evenkeel-cameras hash-password`.

use std::error::Error;
use std::io::{self, BufRead, IsTerminal, Read, Write};
use std::process::ExitCode;

use nix::sys::signal::{SigSet, Signal};

use crate::config::account::is_user_name;
use crate::rtsp::auth::{Algorithm, digest_of};
use crate::rtsp::server::REALM;
use crate::users;

use super::{HashArguments, Outcome};

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
    io::stdout().write_all(user.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// Asks for it without showing it; from a pipe or a file it is the first line.
fn password() -> Result<String, Box<dyn Error + Send + Sync>> {
    let password = if io::stdin().is_terminal() {
        let password = asked("password: ")?;
        if password.contains(char::REPLACEMENT_CHARACTER) {
            return Err("the terminal does not send UTF-8: use other letters, or a pipe".into());
        }
        if asked("once more: ")? != password {
            return Err("these were two different passwords; nothing was printed".into());
        }
        password
    } else {
        let mut line = Vec::new();
        // With the end of the line, and one byte too many.
        let bytes_max = users::PASSWORD_BYTES_MAX as u64 + 3;
        let mut input = io::stdin().lock().take(bytes_max);
        input.read_until(b'\n', &mut line)?;
        let line = line.strip_suffix(b"\n").unwrap_or(&line);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        within(line.len())?;
        String::from_utf8(line.to_vec()).map_err(|_| "the password is not UTF-8")?
    };
    if password.is_empty() {
        return Err("the password is empty".into());
    }
    within(password.len())?;
    Ok(password)
}

/// A longer one would never let anybody in.
fn within(bytes: usize) -> Result<(), String> {
    match bytes > users::PASSWORD_BYTES_MAX {
        true => Err(format!(
            "the password has more than {} bytes",
            users::PASSWORD_BYTES_MAX
        )),
        false => Ok(()),
    }
}

/// Ctrl-C ends the program when the terminal shows again what is typed.
fn asked(prompt: &str) -> Result<String, Box<dyn Error + Send + Sync>> {
    let mut interrupt = SigSet::empty();
    interrupt.add(Signal::SIGINT);
    interrupt.thread_block()?;
    let typed = rpassword::prompt_password(prompt);
    interrupt.thread_unblock()?;
    typed.map_err(|error| format!("no password was typed: {error}").into())
}
