//! Logs of requests.

use serde::Deserialize;

use super::values;
use crate::access_log::{Facility, Format, Target};

/// A log, which listeners name.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Log {
    /// Where lines go.
    pub to: Target,
    /// How they are written.
    #[serde(default)]
    pub format: Format,
    /// Of which kind they are to the system's log.
    #[serde(default)]
    pub facility: Facility,
    /// How many bytes of lines wait at most; more lines are left out.
    #[serde(default = "values::queue_bytes_max")]
    pub queue_bytes_max: usize,
}
