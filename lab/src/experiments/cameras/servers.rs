//! The two servers: how each is found, started and asked.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use evenkeel_measure::cameras::{Wanted, of_mediamtx, of_ours};

use crate::error::{Error, Result};
use crate::process::{self, Process};
use crate::trial::Lab;

/// The variable that says where MediaMTX is.
const MEDIAMTX: &str = "EVENKEEL_LAB_MEDIAMTX";

/// Which server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum By {
    Ours,
    MediaMtx,
}

impl By {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Ours => "evenkeel-cameras",
            Self::MediaMtx => "MediaMTX",
        }
    }

    /// Where a camera's state is asked for.
    pub(super) fn state(self) -> &'static str {
        match self {
            Self::Ours => "/api/cameras/cam0",
            Self::MediaMtx => "/v3/paths/get/cam0",
        }
    }

    /// Why it cannot take part, as a line.
    pub(super) fn missing(self) -> Option<String> {
        let program = mediamtx();
        let is_there =
            self == Self::Ours || process::answers(&program.to_string_lossy(), "--version");
        (!is_there).then(|| {
            format!(
                "MediaMTX: left out, {} does not run; take one of its releases, and say where its \
                 program is by {MEDIAMTX}",
                program.display()
            )
        })
    }

    /// Starts it; its configuration goes into this directory.
    pub(super) fn start(self, lab: &Lab, directory: &Path, wanted: Wanted<'_>) -> Result<Process> {
        let file = directory.join("configuration");
        let (text, mut command) = match self {
            Self::Ours => {
                let mut command = lab.lineup.lab();
                command.args(["evenkeel-cameras", "run"]);
                let process = format!("workers = {}", lab.workers);
                (of_ours(wanted, &process), command)
            }
            Self::MediaMtx => (of_mediamtx(wanted), Command::new(mediamtx())),
        };
        std::fs::write(&file, text).map_err(Error::write(&file))?;
        lab.server_tool(self.name(), command.arg(&file).stdout(Stdio::null()))
    }
}

fn mediamtx() -> PathBuf {
    std::env::var_os(MEDIAMTX).map_or_else(|| "mediamtx".into(), PathBuf::from)
}
