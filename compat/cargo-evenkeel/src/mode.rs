//! What is beneath a program that `cargo evenkeel` has built, by its environment.

use serde::Serialize;

/// What is known of a mode's failures holds for the modes after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// All is Tokio's own.
    Off,
    /// Multi-thread runtimes are Evenkeel's.
    Routed,
    /// Current-thread runtimes too.
    Forced,
}

impl Mode {
    /// All modes, in their order.
    pub const ALL: [Self; 3] = [Self::Off, Self::Routed, Self::Forced];

    /// That of this process's environment, which the programs it starts inherit.
    pub fn of_environment() -> Self {
        let is = |name, value| std::env::var_os(name).is_some_and(|found| found == value);
        match (is("EVENKEEL", "off"), is("EVENKEEL_FORCE", "1")) {
            (true, _) => Self::Off,
            (false, true) => Self::Forced,
            (false, false) => Self::Routed,
        }
    }

    /// The variables that make it, with their values.
    pub fn environment(self) -> [(&'static str, &'static str); 2] {
        let (evenkeel, force) = match self {
            Self::Off => ("off", "0"),
            Self::Routed => ("on", "0"),
            Self::Forced => ("on", "1"),
        };
        [("EVENKEEL", evenkeel), ("EVENKEEL_FORCE", force)]
    }

    /// A word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Routed => "routed",
            Self::Forced => "forced",
        }
    }

    /// The same for people.
    pub fn says(self) -> &'static str {
        match self {
            Self::Off => "on Tokio itself",
            Self::Routed => "multi-thread runtimes on Evenkeel",
            Self::Forced => "current-thread runtimes on Evenkeel too",
        }
    }
}
