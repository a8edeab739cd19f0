//! What Prometheus is told of recordings.

use evenkeel_admin::metrics::{Families, Family, Kind, Rows, Value};

use super::Recordings;
use super::disk::Disk;
use super::tier::TierStatus;

const fn counter(
    name: &'static str,
    help: &'static str,
    labels: &'static [&'static str],
) -> Family {
    Family {
        name,
        help,
        kind: Kind::Counter,
        unit: None,
        labels,
    }
}

const fn gauge(
    name: &'static str,
    help: &'static str,
    unit: &'static str,
    labels: &'static [&'static str],
) -> Family {
    Family {
        name,
        help,
        kind: Kind::Gauge,
        unit: Some(unit),
        labels,
    }
}

const WRITTEN: Family = counter(
    "cameras_record_gops_written",
    "Groups of pictures that were written",
    &["camera"],
);
const LOST: Family = counter(
    "cameras_record_gops_lost",
    "Groups of pictures that were not recorded, by reason",
    &["camera", "reason"],
);
const FAILURES: Family = counter(
    "cameras_record_failures",
    "Failures of a disk while it was written",
    &["camera"],
);
const WAITING: Family = gauge(
    "cameras_record_waiting",
    "Bytes that wait for a disk",
    "bytes",
    &["camera"],
);
const HELD: Family = gauge(
    "cameras_volume_held",
    "Bytes of complete segments",
    "bytes",
    &["volume"],
);
const SYNCS: Family = counter("cameras_volume_syncs", "Rounds of syncing", &["volume"]);
const SYNC_FAILURES: Family = counter(
    "cameras_volume_sync_failures",
    "Rounds of syncing that failed",
    &["volume"],
);
const SYNCS_FOR: Family = gauge(
    "cameras_volume_sync_running",
    "For how long the round of syncing under way has been running",
    "seconds",
    &["volume"],
);
const DELETED: Family = counter(
    "cameras_volume_segments_deleted",
    "Segments that were deleted, by reason",
    &["volume", "reason"],
);

const COPIED: Family = counter(
    "cameras_tier_segments_copied",
    "Segments that were copied to a store",
    &["tier"],
);
const COPIED_BYTES: Family = counter("cameras_tier_copied_bytes", "Their bytes", &["tier"]);
const COPY_FAILURES: Family = counter(
    "cameras_tier_failures",
    "Attempts of copying or listing that failed",
    &["tier"],
);
const MISSED: Family = counter(
    "cameras_tier_segments_missed",
    "Segments that a full disk lost before they were copied",
    &["tier"],
);
const READ_BYTES: Family = counter(
    "cameras_tier_read_bytes",
    "Bytes that were read from a store",
    &["tier"],
);
const READ_FAILURES: Family = counter(
    "cameras_tier_read_failures",
    "Reads from a store that failed",
    &["tier"],
);

/// All of them.
#[cfg(test)]
pub(crate) const ALL: [&Family; 15] = [
    &WRITTEN,
    &LOST,
    &FAILURES,
    &WAITING,
    &HELD,
    &SYNCS,
    &SYNC_FAILURES,
    &SYNCS_FOR,
    &DELETED,
    &COPIED,
    &COPIED_BYTES,
    &COPY_FAILURES,
    &MISSED,
    &READ_BYTES,
    &READ_FAILURES,
];

/// Adds what is known of recordings.
pub fn add<D: Disk>(recordings: &Recordings<D>, families: &mut Families<'_>) {
    let cameras = recordings.cameras_status();
    let each = |read: &dyn Fn(&super::recordings::CameraStatus) -> Value, row: &mut Rows<'_>| {
        for status in &cameras {
            row(&[&status.camera], read(status));
        }
    };
    families.add(&WRITTEN, |row| {
        each(&|it| Value::Count(it.reported.gops), row)
    });
    families.add(&FAILURES, |row| {
        each(&|it| Value::Count(it.reported.failures), row)
    });
    families.add(&WAITING, |row| {
        each(&|it| Value::Level(it.waiting.bytes as f64), row)
    });
    families.add(&LOST, |row| {
        for status in &cameras {
            for (reason, count) in &status.reported.lost {
                row(&[&status.camera, reason.name()], Value::Count(*count));
            }
        }
    });
    add_tiers(recordings, families);
    let volumes = recordings.volumes_status();
    families.add(&HELD, |row| {
        for volume in &volumes {
            row(&[&volume.name], Value::Level(volume.bytes as f64));
        }
    });
    families.add(&SYNCS, |row| {
        for volume in &volumes {
            row(&[&volume.name], Value::Count(volume.syncs));
        }
    });
    families.add(&SYNC_FAILURES, |row| {
        for volume in &volumes {
            row(&[&volume.name], Value::Count(volume.sync_failures));
        }
    });
    families.add(&SYNCS_FOR, |row| {
        for volume in &volumes {
            let seconds = volume.syncs_for_ms.unwrap_or(0) as f64 / 1000.0;
            row(&[&volume.name], Value::Level(seconds));
        }
    });
    families.add(&DELETED, |row| {
        for volume in &volumes {
            for (reason, count) in &volume.deleted {
                row(&[&volume.name, reason], Value::Count(*count));
            }
        }
    });
}

fn add_tiers<D: Disk>(recordings: &Recordings<D>, families: &mut Families<'_>) {
    let tiers = recordings.tiers_status();
    let mut add = |family, of: fn(&TierStatus) -> u64| {
        families.add(family, |row| {
            for tier in &tiers {
                row(&[&tier.name], Value::Count(of(tier)));
            }
        });
    };
    add(&COPIED, |tier| tier.copied);
    add(&COPIED_BYTES, |tier| tier.copied_bytes);
    add(&COPY_FAILURES, |tier| tier.failures);
    add(&MISSED, |tier| tier.missed);
    add(&READ_BYTES, |tier| tier.read_bytes);
    add(&READ_FAILURES, |tier| tier.read_failures);
}
