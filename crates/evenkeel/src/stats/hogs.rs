//! The tasks whose polls take too long.

use std::borrow::Cow;
use std::time::Duration;

use crate::class::Class;
use crate::sched::kinds::Known;
use crate::sched::shared::Shared;

use super::site::Site;

/// The hogs of one kind: tasks of the same type, name and class, spawned by the same line of
/// source.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(default)
)]
#[non_exhaustive]
pub struct HogStats {
    /// Where they were spawned.
    pub spawned_at: Site,
    /// The type of their future, as the compiler prints it: for people, not for programs.
    pub future: Cow<'static, str>,
    /// The name they were given, if any.
    pub name: Option<Cow<'static, str>>,
    /// Their class.
    #[cfg_attr(feature = "serde", serde(with = "super::index"))]
    pub class: Class,
    /// How many of their polls were too long.
    pub count: u64,
    /// How many of these, as far as they have ended, were blocked and did not compute.
    pub blocked: u64,
    /// The longest of these that has ended, by the clock; since the runtime's start, also in a
    /// difference of two snapshots.
    #[cfg_attr(feature = "serde", serde(with = "super::nanos"))]
    pub longest: Duration,
    /// The sum of all that have ended, by the clock.
    #[cfg_attr(feature = "serde", serde(with = "super::nanos"))]
    pub total: Duration,
    /// Whether new tasks of this kind start in the heavy pool, because nearly all of them hog.
    pub in_pool: bool,
}

impl HogStats {
    pub(super) fn kind(&self) -> impl PartialEq + '_ {
        (&self.spawned_at, &self.future, &self.name, self.class)
    }
}

pub(super) fn read(shared: &Shared) -> Vec<HogStats> {
    let mut rows = shared.kinds.rows();
    rows.sort_by_key(|(row, _)| std::cmp::Reverse(row.total));
    rows.into_iter()
        .map(|(row, known)| HogStats {
            spawned_at: row.kind.spawned_at.into(),
            future: row.kind.future.name().into(),
            name: row.kind.name.map(Cow::Borrowed),
            class: row.kind.class,
            count: row.count,
            blocked: row.blocked,
            longest: shared.clock.to_duration(row.longest),
            total: shared.clock.to_duration(row.total),
            in_pool: matches!(known, Known::NearlyAll { .. }) && row.kind.class != Class::URGENT,
        })
        .collect()
}
