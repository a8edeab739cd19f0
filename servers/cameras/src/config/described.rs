//! Cameras as requests describe them, and the file in which they are kept.
//!
//! The program never writes into the configuration, which is the operator's, with comments and an
//! order of its own. The file is the program's alone, and has the same form, so that a camera can
//! be moved into the configuration by hand.

use std::collections::BTreeMap;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;
use std::{fs, io};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use servers_common::config::Found;
use servers_common::values;
use toml::Spanned;

use super::{Camera, ConfigError, Record, Transport, camera_url, delivery, name_problem};
use crate::tls::Fingerprint;

/// A camera that a request has added.
#[derive(Clone, Debug, PartialEq)]
pub struct Added {
    /// As it is received and recorded.
    pub camera: Camera,
    /// As it was described.
    described: Value,
}

impl Added {
    /// Reads a description.
    ///
    /// # Errors
    ///
    /// What is wrong with it.
    pub fn read(mut described: Value) -> Result<Self, String> {
        if let Value::Object(keys) = &mut described {
            // Left out and nothing are the same, and TOML has no nothing.
            keys.retain(|_, value| !value.is_null());
        }
        let read = Described::deserialize(&described).map_err(|error| error.to_string())?;
        Ok(Self {
            camera: read.camera()?,
            described,
        })
    }
}

/// A camera as a request describes it: as in the configuration, but without places in a text.
#[derive(Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "an object, as {\"url\": \"rtsp://HOST/PATH\"}"
)]
struct Described {
    url: Option<String>,
    user: Option<String>,
    password: Option<String>,
    onvif: Option<String>,
    profile: Option<String>,
    fingerprint: Option<Fingerprint>,
    #[serde(default)]
    transport: Transport,
    #[serde(default, deserialize_with = "values::optional_time")]
    delivery: Option<Duration>,
    record: Option<Record>,
}

impl Described {
    fn camera(self) -> Result<Camera, String> {
        let url = match self.url {
            None => None,
            Some(text) => Some(Spanned::new(0..0, camera_url(&text)?)),
        };
        if self.user.is_some() != self.password.is_some() {
            return Err("`user` and `password` go together".to_owned());
        }
        let onvif = match self.onvif {
            None => None,
            Some(text) => {
                let address = crate::onvif::device::address(&text);
                Some(Spanned::new(
                    0..0,
                    address.map_err(|error| error.to_string())?,
                ))
            }
        };
        let camera = Camera {
            url,
            onvif,
            profile: self.profile,
            user: self.user,
            password: self.password,
            fingerprint: self.fingerprint,
            transport: self.transport,
            delivery: (self.delivery).map_or_else(delivery, |time| Spanned::new(0..0, time)),
            record: self.record.map(|record| Spanned::new(0..0, record)),
        };
        match camera.address_problem() {
            Some(problem) => Err(problem.to_owned()),
            None => Ok(camera),
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kept {
    #[serde(default)]
    camera: BTreeMap<String, Spanned<Value>>,
}

/// Reads the file; makes one that only its owner can read, if there is none.
///
/// # Errors
///
/// [`ConfigError`]: it cannot be read or made, or what is wrong with it.
pub fn read_kept(path: &Path) -> Result<BTreeMap<String, Added>, ConfigError> {
    let mut options = fs::OpenOptions::new();
    // It has the passwords of cameras.
    let made = options.append(true).create(true).mode(0o600).open(path);
    made.map_err(|error| ConfigError::Read {
        file: path.display().to_string(),
        error,
    })?;
    let mut cameras = BTreeMap::new();
    servers_common::config::read(path, |kept: &mut Kept| {
        let mut found = Vec::new();
        for (name, described) in std::mem::take(&mut kept.camera) {
            let at = described.span();
            let problem = name_problem(&name);
            match problem.map_or_else(|| Added::read(described.into_inner()), Err) {
                Ok(added) => _ = cameras.insert(name, added),
                Err(why) => found.push(Found::new(at, why)),
            }
        }
        found
    })?;
    Ok(cameras)
}

#[derive(Serialize)]
struct Written<'a> {
    camera: BTreeMap<&'a str, &'a Value>,
}

/// Writes the file anew, all of it or nothing.
///
/// # Errors
///
/// The system's.
pub async fn write_kept(path: &Path, cameras: &BTreeMap<String, Added>) -> io::Result<()> {
    let cameras = cameras.iter();
    let written = Written {
        camera: cameras.map(|(name, it)| (&**name, &it.described)).collect(),
    };
    let text = toml::to_string(&written).map_err(io::Error::other)?;
    let text = format!(
        "# Written by evenkeel-cameras: cameras that requests have added. What is changed here\n\
         # while it runs is lost.\n\n{text}"
    );
    evenkeel::fs::replace(path, text).await
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_written_is_read_again_and_others_cannot_read_it() {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("added.toml");
        assert!(read_kept(&path).unwrap().is_empty());
        let described = [
            json!({ "url": "rtsp://192.0.2.7/a?b=\"c\"", "user": "u", "password": "p\\\n'" }),
            json!({ "url": null, "delivery": "20ms", "transport": "udp",
                "record": { "volume": "disk", "keep": "7d", "size": "3GiB" } }),
        ];
        let read = |described: Value| Added::read(described).unwrap();
        let cameras: BTreeMap<String, Added> = ["a.b", "c"]
            .map(str::to_owned)
            .into_iter()
            .zip(described.map(read))
            .collect();
        let runtime = evenkeel::runtime::Runtime::new().unwrap();
        runtime.block_on(write_kept(&path, &cameras)).unwrap();
        assert_eq!(read_kept(&path).unwrap(), cameras);
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("added.toml");
        for (text, why) in [
            (
                "[camera.a]\nurl = \"http://x/\"\n",
                "no address of a camera",
            ),
            ("[camera.\"../a\"]\n", "no name for a camera"),
            ("[camera.a]\nuser = \"u\"\n", "go together"),
            ("[camera.a]\ndelivery = \"5\"\n", "no time here"),
            ("[camera.a]\nrtsp = 1\n", "unknown field"),
        ] {
            fs::write(&path, format!("# a comment\n{text}")).unwrap();
            let error = read_kept(&path).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
            assert!(error.contains("added.toml:2:"), "{error}");
        }
    }
}
