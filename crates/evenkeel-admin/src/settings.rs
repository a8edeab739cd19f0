//! Settings that can be seen and changed while the runtime runs.

use std::fmt::Display;
use std::time::Duration;

use axum::http::StatusCode;
use evenkeel::net::Delivery;
use evenkeel::runtime::Handle;
use evenkeel::{BusyWait, ClassConfig};
use serde::{Deserialize, Serialize};

/// What can be changed.
#[derive(Debug, Serialize)]
pub(crate) struct Settings {
    classes: Vec<ClassSettings>,
    busy_wait: String,
    /// `None` if hand-off is off.
    hand_off_after_us: Option<u64>,
    delivery: Mode,
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

/// A change of how long workers without work stay awake.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BusyWaitChange {
    level: String,
}

/// A change of how long a poll may last.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct HandOffChange {
    /// `null` switches hand-off off. That has to be said: what is left out does not.
    #[serde(deserialize_with = "Option::deserialize")]
    after_us: Option<u64>,
}

/// How readers are woken.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(tag = "mode", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Mode {
    Immediate {},
    Coalesce { bytes: usize, delay_us: u64 },
    Adaptive { max_delay_us: u64 },
}

impl From<Delivery> for Mode {
    fn from(delivery: Delivery) -> Self {
        match delivery {
            Delivery::Immediate => Mode::Immediate {},
            Delivery::Coalesce { bytes, delay } => Mode::Coalesce {
                bytes,
                delay_us: micros(delay),
            },
            Delivery::Adaptive { max_delay } => Mode::Adaptive {
                max_delay_us: micros(max_delay),
            },
        }
    }
}

impl From<Mode> for Delivery {
    fn from(mode: Mode) -> Self {
        match mode {
            Mode::Immediate {} => Delivery::Immediate,
            Mode::Coalesce { bytes, delay_us } => Delivery::Coalesce {
                bytes,
                delay: Duration::from_micros(delay_us),
            },
            Mode::Adaptive { max_delay_us } => Delivery::Adaptive {
                max_delay: Duration::from_micros(max_delay_us),
            },
        }
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

impl Settings {
    pub(crate) fn of(runtime: &Handle) -> Self {
        let classes = runtime.classes().into_iter().map(|info| ClassSettings {
            name: info.name,
            share: info.share,
            latency_target_us: micros(info.latency_target),
        });
        Self {
            classes: classes.collect(),
            busy_wait: runtime.busy_wait().to_string(),
            hand_off_after_us: runtime.hand_off_after().map(micros),
            delivery: runtime.delivery().into(),
        }
    }
}

/// The settings after a change; or why it was refused, and then nothing has changed.
pub(crate) type Changed = Result<Settings, (StatusCode, String)>;

fn refused(error: impl Display) -> (StatusCode, String) {
    (StatusCode::BAD_REQUEST, error.to_string())
}

pub(crate) fn change_busy_wait(runtime: &Handle, change: &BusyWaitChange) -> Changed {
    let level: Result<BusyWait, _> = change.level.parse();
    runtime.set_busy_wait(level.map_err(refused)?);
    Ok(Settings::of(runtime))
}

pub(crate) fn change_hand_off(runtime: &Handle, change: HandOffChange) -> Changed {
    let after = change.after_us.map(Duration::from_micros);
    runtime.set_hand_off_after(after).map_err(refused)?;
    Ok(Settings::of(runtime))
}

pub(crate) fn change_delivery(runtime: &Handle, mode: Mode) -> Changed {
    runtime.set_delivery(mode.into()).map_err(refused)?;
    Ok(Settings::of(runtime))
}

/// Changes a class, wholly or not at all.
pub(crate) fn change_class(runtime: &Handle, name: &str, change: ClassChange) -> Changed {
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
    runtime.set_class(class, config).map_err(refused)?;
    Ok(Settings::of(runtime))
}
