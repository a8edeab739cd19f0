//! Settings that can be seen and changed while the runtime runs.

use std::time::Duration;

use axum::http::StatusCode;
use evenkeel::ClassConfig;
use evenkeel::runtime::Handle;
use serde::{Deserialize, Serialize};

/// What can be changed.
#[derive(Debug, Serialize)]
pub(crate) struct Settings {
    classes: Vec<ClassSettings>,
}

#[derive(Debug, Serialize)]
pub(crate) struct ClassSettings {
    name: String,
    share: u32,
    latency_target_us: u64,
}

/// A change to a class; what is left out stays.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ClassChange {
    share: Option<u32>,
    latency_target_us: Option<u64>,
}

impl Settings {
    pub(crate) fn of(runtime: &Handle) -> Self {
        let classes = runtime.classes().into_iter().map(|info| ClassSettings {
            name: info.name,
            share: info.share,
            latency_target_us: u64::try_from(info.latency_target.as_micros()).unwrap_or(u64::MAX),
        });
        Self {
            classes: classes.collect(),
        }
    }
}

/// Changes a class, wholly or not at all.
pub(crate) fn change_class(
    runtime: &Handle,
    name: &str,
    change: ClassChange,
) -> Result<Settings, (StatusCode, String)> {
    let unknown = || {
        let message = format!("there is no class {name:?}; GET /settings lists them");
        (StatusCode::NOT_FOUND, message)
    };
    let class = runtime.class(name).ok_or_else(unknown)?;
    let mut config = ClassConfig::new();
    if let Some(share) = change.share {
        config = config.share(share);
    }
    if let Some(target) = change.latency_target_us {
        config = config.latency_target(Duration::from_micros(target));
    }
    let refused = |error: evenkeel::ClassError| (StatusCode::BAD_REQUEST, error.to_string());
    runtime.set_class(class, config).map_err(refused)?;
    Ok(Settings::of(runtime))
}
