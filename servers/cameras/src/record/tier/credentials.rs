//! Who we are to a store: from a file, or from the environment.

use std::path::Path;

use rusty_s3::Credentials;
use serde::Deserialize;

use super::store::SettingsError;

/// No such file is longer.
const FILE_BYTES_MAX: u64 = 64 << 10;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    access_key: String,
    secret_key: String,
    session_token: Option<String>,
}

/// Reads them. This blocks.
pub(super) fn read(file: Option<&Path>) -> Result<Credentials, SettingsError> {
    let Some(path) = file else {
        return Credentials::from_env().ok_or(SettingsError::NoCredentials);
    };
    let wrong = |why: String| SettingsError::Credentials {
        file: path.display().to_string(),
        why,
    };
    let length = std::fs::metadata(path).map_err(|error| wrong(error.to_string()))?;
    if length.len() > FILE_BYTES_MAX {
        return Err(wrong(format!("it has more than {FILE_BYTES_MAX} bytes")));
    }
    let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    // What is wrong is said without the text, which has the secret.
    let written: Written = toml::from_str(&text).map_err(|error| wrong(error.message().into()))?;
    let Written {
        access_key,
        secret_key,
        session_token,
    } = written;
    Ok(match session_token {
        Some(token) => Credentials::new_with_token(access_key, secret_key, token),
        None => Credentials::new(access_key, secret_key),
    })
}
