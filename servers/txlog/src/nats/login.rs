//! Who logs in to NATS, and whom the connection trusts.

use std::path::Path;

use async_nats::{ConnectOptions, ServerAddr};

use super::config::{NatsConfig, NatsLogin};
use super::error::NatsError;

/// The longest secret that is read from a file, in bytes.
const SECRET_BYTES_MAX: usize = 64 * 1024;

/// Host and port; also after `nats://` or `tls://`. A user in it would be seen in the list of
/// processes, and the client would ignore it.
pub(super) fn checked_address(address: &str) -> Result<ServerAddr, NatsError> {
    let refused = || NatsError::Address {
        address: address.to_owned(),
        example: "127.0.0.1:4222 (users and passwords: --nats-user)",
    };
    let parsed: ServerAddr = address.parse().map_err(|_| refused())?;
    let known = ["nats", "tls"].contains(&parsed.scheme());
    if parsed.host().is_empty() || parsed.has_user_pass() || !known {
        return Err(refused());
    }
    Ok(parsed)
}

/// Adds the login and TLS. The files are read now.
pub(super) async fn with_login(
    options: ConnectOptions,
    config: &NatsConfig,
) -> Result<ConnectOptions, NatsError> {
    let mut options = options.require_tls(config.tls || config.ca.is_some());
    if let Some(ca) = &config.ca {
        // The client would only say that there is no such file, and not which.
        let read = evenkeel::fs::read(ca).await;
        read.map_err(|error| NatsError::of_secret("the certificates", ca, &error))?;
        options = options.add_root_certificates(ca.clone());
    }
    Ok(match &config.login {
        NatsLogin::None => options,
        NatsLogin::User { name, password } => {
            let password = secret("the password", password).await?;
            options.user_and_password(name.clone(), password)
        }
        NatsLogin::Token(file) => options.token(secret("the token", file).await?),
        NatsLogin::Credentials(file) => {
            let credentials = secret("the credentials", file).await?;
            // The client only knows the last line by its end.
            let taken = options.credentials(&format!("{credentials}\n"));
            taken.map_err(|error| NatsError::of_secret("the credentials", file, &error))?
        }
    })
}

async fn secret(what: &'static str, file: &Path) -> Result<String, NatsError> {
    let failed = |reason: &str| NatsError::Secret {
        what,
        path: file.to_owned(),
        reason: reason.to_owned(),
    };
    let bytes = evenkeel::fs::read(file).await;
    let bytes = bytes.map_err(|error| NatsError::of_secret(what, file, &error))?;
    if bytes.len() > SECRET_BYTES_MAX {
        return Err(failed("the file is too long to be one; take another file"));
    }
    let text = String::from_utf8(bytes).map_err(|_| failed("it is no text; take another file"))?;
    let text = text.trim_end_matches(['\r', '\n']);
    match text.is_empty() {
        true => Err(failed("the file is empty; write it there")),
        false => Ok(text.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_no_secrets_and_is_one_of_nats() {
        for good in ["127.0.0.1:4222", "localhost", "nats://a:1", "tls://a.b:2"] {
            checked_address(good).unwrap();
        }
        for bad in [
            "",
            "a:b@c:4222",
            "nats://token@c",
            "ws://a",
            "http://a",
            "a:99999",
        ] {
            let error = checked_address(bad).unwrap_err();
            assert!(matches!(error, NatsError::Address { .. }), "{bad}: {error}");
        }
    }
}
