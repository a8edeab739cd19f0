//! Durations as whole nanoseconds, for `serde`: `#[serde(with = "nanos")]`.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

pub(super) fn serialize<S: Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
    nanos(*time).serialize(to)
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    u64::deserialize(from).map(Duration::from_nanos)
}

/// Durations that may be unknown.
pub(super) mod option {
    use super::*;

    pub(in super::super) fn serialize<S: Serializer>(
        time: &Option<Duration>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        time.map(nanos).serialize(to)
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Duration>, D::Error> {
        Ok(Option::deserialize(from)?.map(Duration::from_nanos))
    }
}

/// Lists of durations.
pub(super) mod list {
    use super::*;

    pub(in super::super) fn serialize<S: Serializer>(
        times: &[Duration],
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.collect_seq(times.iter().copied().map(nanos))
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Vec<Duration>, D::Error> {
        let times: Vec<u64> = Vec::deserialize(from)?;
        Ok(times.into_iter().map(Duration::from_nanos).collect())
    }
}

/// Buckets, as pairs of the upper end and the count.
pub(super) mod buckets {
    use super::*;

    pub(in super::super) fn serialize<S: Serializer>(
        buckets: &[(Duration, u64)],
        to: S,
    ) -> Result<S::Ok, S::Error> {
        to.collect_seq(buckets.iter().map(|&(upper, count)| (nanos(upper), count)))
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Vec<(Duration, u64)>, D::Error> {
        let buckets: Vec<(u64, u64)> = Vec::deserialize(from)?;
        let bucket = |(upper, count)| (Duration::from_nanos(upper), count);
        Ok(buckets.into_iter().map(bucket).collect())
    }
}
