//! The copies with Tokio's unstable interfaces, of which a part is our own code: whether they
//! compile.

use std::fs;
use std::path::Path;
use std::process::Command;

use cargo_evenkeel::copy::Copy;
use cargo_evenkeel::upstream;
use serde::{Deserialize, Serialize};

use crate::Error;

const FLAGS: &str = "--cfg tokio_unstable";
/// All that is stable, and what only the flag makes a difference for.
const FEATURES: &str = "full,test-util,tracing";

/// A version of Tokio, and whether its copy compiles.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Checked {
    pub(crate) version: String,
    pub(crate) compiles: bool,
}

/// Has cargo check the copy of each version.
pub(crate) fn run(target: &Path, json: Option<&Path>) -> Result<bool, Error> {
    fs::create_dir_all(target)?;
    let target = target.canonicalize()?;
    let mut all = Vec::new();
    for upstream in upstream::supported() {
        upstream.fetch(&target)?;
        let copy = Copy::prepare(&upstream, &target)?;
        let mut command = Command::new("cargo");
        command
            .args(["check", "--lib", "--features", FEATURES, "--manifest-path"])
            .arg(copy.package("tokio").join("Cargo.toml"))
            .env("CARGO_TARGET_DIR", target.join("unstable"))
            .env("RUSTFLAGS", FLAGS)
            .env_remove("CARGO_ENCODED_RUSTFLAGS");
        let compiles = command.status()?.success();
        let version = upstream.version.to_string();
        let says = if compiles {
            "compiles"
        } else {
            "DOES NOT COMPILE"
        };
        println!("tokio {version} with {FLAGS}: {says}");
        all.push(Checked { version, compiles });
    }
    if let Some(path) = json {
        fs::write(path, serde_json::to_string_pretty(&all)?)?;
    }
    Ok(all.iter().all(|checked| checked.compiles))
}
