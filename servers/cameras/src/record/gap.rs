//! What is missing in a recording, and why.

/// Why something was not recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// The camera sent nothing.
    NoStream,
    /// The disk took longer than the memory for what waits for it lasts.
    SlowDisk,
    /// The disk refused to write.
    WriteFailed,
    /// The disk was full, and nothing could be deleted.
    DiskFull,
    /// The server was too busy to take it in time.
    Lagged,
    /// The samples cannot be stored: their parameters cannot be read.
    Unusable,
}

impl Reason {
    /// All reasons, by their codes.
    pub const ALL: [Self; 6] = [
        Self::NoStream,
        Self::SlowDisk,
        Self::WriteFailed,
        Self::DiskFull,
        Self::Lagged,
        Self::Unusable,
    ];

    /// Its name in answers and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::NoStream => "no_stream",
            Self::SlowDisk => "slow_disk",
            Self::WriteFailed => "write_failed",
            Self::DiskFull => "disk_full",
            Self::Lagged => "lagged",
            Self::Unusable => "unusable",
        }
    }

    pub(super) fn code(self) -> u8 {
        self as u8
    }

    pub(super) fn from_code(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code)).copied()
    }
}

/// Groups of pictures that are missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// Why.
    pub reason: Reason,
    /// How many.
    pub gops: u32,
    /// Their bytes.
    pub bytes: u64,
    /// When the first one came, by the system's clock, in microseconds.
    pub from_us: i64,
    /// When the last one had come.
    pub until_us: i64,
}

impl Gap {
    /// Both together, as they are next to each other. The first reason counts.
    pub fn and(self, other: Self) -> Self {
        Self {
            reason: self.reason,
            gops: self.gops.saturating_add(other.gops),
            bytes: self.bytes.saturating_add(other.bytes),
            from_us: self.from_us.min(other.from_us),
            until_us: self.until_us.max(other.until_us),
        }
    }
}
