//! What operators plot and are alerted by, for each camera, beside the runtime's own metrics.

use evenkeel_admin::metrics::{Families, Family, Kind, Value};

use crate::cameras::{CameraStatus, Cameras};
use crate::events::Events;
use crate::serve::Doors;
use crate::watch::webrtc::port::{Counts, Port};

/// A family with a row for each camera, and how its value is found.
type OfCamera = (Family, fn(&CameraStatus) -> Value);

const CAMERA: &[&str] = &["camera"];

const fn counter(name: &'static str, help: &'static str) -> Family {
    Family {
        name,
        help,
        kind: Kind::Counter,
        unit: None,
        labels: CAMERA,
    }
}

const fn gauge(name: &'static str, help: &'static str) -> Family {
    Family {
        name,
        help,
        kind: Kind::Gauge,
        unit: None,
        labels: CAMERA,
    }
}

const OF_CAMERAS: [OfCamera; 13] = [
    (
        gauge("cameras_live", "Whether samples come: 1 or 0"),
        |camera| Value::Level(f64::from(u8::from(camera.is_live))),
    ),
    (gauge("cameras_viewers", "Those who watch"), |camera| {
        Value::Level(camera.viewers as f64)
    }),
    (
        gauge("cameras_memory", "Bytes of media in memory, for viewers"),
        |camera| Value::Level(camera.memory as f64),
    ),
    (
        counter("cameras_samples", "Pictures and packets of sound that came"),
        |camera| Value::Count(camera.samples),
    ),
    (counter("cameras_media", "Bytes of these"), |camera| {
        Value::Count(camera.bytes)
    }),
    (
        counter("cameras_gops", "Groups of pictures that were completed"),
        |camera| Value::Count(camera.gops),
    ),
    (
        counter(
            "cameras_no_memory",
            "Samples that were dropped for want of memory",
        ),
        |camera| Value::Count(camera.dropped),
    ),
    (
        counter(
            "cameras_lags",
            "How often a viewer was too slow and was moved on",
        ),
        |camera| Value::Count(camera.lags),
    ),
    (
        counter("cameras_sessions", "Sessions that began"),
        |camera| Value::Count(camera.sessions),
    ),
    (
        counter("cameras_failures", "Sessions that failed or ended"),
        |camera| Value::Count(camera.ingest.failures),
    ),
    (counter("cameras_packets", "Packets that came"), |camera| {
        Value::Count(camera.ingest.packets)
    }),
    (
        counter("cameras_packets_lost", "Packets that never came"),
        |camera| Value::Count(camera.ingest.lost),
    ),
    (
        counter(
            "cameras_damaged",
            "Samples that a loss or a malformed packet took with it",
        ),
        |camera| Value::Count(camera.ingest.dropped),
    ),
];

const fn of_clients(name: &'static str, help: &'static str, kind: Kind) -> Family {
    Family {
        name,
        help,
        kind,
        unit: None,
        labels: &[],
    }
}

const CLIENTS: Family = of_clients("cameras_clients", "Clients by RTSP", Kind::Gauge);
const CONNECTIONS: Family = of_clients(
    "cameras_connections",
    "Connections of clients that were taken",
    Kind::Counter,
);
const REFUSED: Family = of_clients(
    "cameras_connections_refused",
    "Connections that were refused for a limit",
    Kind::Counter,
);
const SLOW: Family = of_clients(
    "cameras_connections_slow",
    "Connections that were ended since the client was too slow",
    Kind::Counter,
);

const UNSENT: Family = of_clients(
    "cameras_datagrams_unsent",
    "Datagrams to viewers that the system did not take",
    Kind::Counter,
);

/// Adds the families of the cameras.
pub(crate) fn add(cameras: &Cameras, families: &mut Families<'_>) {
    let status = cameras.status();
    for (family, value) in &OF_CAMERAS {
        families.add(family, |row| {
            for camera in &status {
                row(&[&camera.name], value(camera));
            }
        });
    }
}

/// Adds those of the clients by RTSP.
pub(crate) fn add_clients(doors: &Doors, families: &mut Families<'_>) {
    let counts = doors.counts();
    families.add(&CLIENTS, |row| {
        row(&[], Value::Level(doors.clients() as f64))
    });
    families.add(&UNSENT, |row| row(&[], Value::Count(doors.unsent())));
    for (family, counter) in [
        (&CONNECTIONS, &counts.connections),
        (&REFUSED, &counts.refused),
        (&SLOW, &counts.slow),
    ] {
        families.add(family, |row| row(&[], Value::Count(counter.total())));
    }
}

const BROWSERS: Family = of_clients(
    "cameras_webrtc_viewers",
    "Sessions of WebRTC that there are",
    Kind::Gauge,
);

/// A family of WebRTC, and which count it is.
type OfWebRtc = (Family, fn(&Counts) -> u64);

const fn of_webrtc(name: &'static str, help: &'static str) -> Family {
    of_clients(name, help, Kind::Counter)
}

const OF_WEBRTC: [OfWebRtc; 8] = [
    (
        of_webrtc("cameras_webrtc_sessions", "Sessions that began"),
        |counts| counts.sessions.total(),
    ),
    (
        of_webrtc(
            "cameras_webrtc_refused",
            "Sessions that were refused for a limit",
        ),
        |counts| counts.refused.total(),
    ),
    (
        of_webrtc("cameras_webrtc_packets", "Packets that were sent"),
        |counts| counts.packets.total(),
    ),
    (
        of_webrtc(
            "cameras_webrtc_packets_lost",
            "Packets that browsers report as lost",
        ),
        |counts| counts.lost.total(),
    ),
    (
        of_webrtc(
            "cameras_webrtc_rewinds",
            "How often a browser was sent the newest key frame once more",
        ),
        |counts| counts.rewinds.total(),
    ),
    (
        of_webrtc("cameras_webrtc_strange", "Datagrams of no session"),
        |counts| counts.strange.total(),
    ),
    (
        of_webrtc(
            "cameras_webrtc_dropped",
            "Datagrams of a session for which too many waited",
        ),
        |counts| counts.dropped.total(),
    ),
    (
        of_webrtc(
            "cameras_webrtc_unsent",
            "Datagrams to browsers that the system did not take",
        ),
        |counts| counts.unsent.total(),
    ),
];

/// Adds those of browsers by WebRTC.
pub(crate) fn add_webrtc(port: &Port, families: &mut Families<'_>) {
    families.add(&BROWSERS, |row| {
        row(&[], Value::Level(port.sessions() as f64));
    });
    for (family, count) in &OF_WEBRTC {
        families.add(family, |row| row(&[], Value::Count(count(port.counts()))));
    }
}

const fn of_hooks(name: &'static str, help: &'static str, kind: Kind) -> Family {
    Family {
        name,
        help,
        kind,
        unit: None,
        labels: &["webhook", "host"],
    }
}

const HOOK_WAITING: Family = of_hooks(
    "cameras_webhook_waiting",
    "Events that a webhook has not been told yet",
    Kind::Gauge,
);
const HOOK_COUNTS: [Family; 3] = [
    of_hooks(
        "cameras_webhook_told",
        "Events that a webhook was told",
        Kind::Counter,
    ),
    of_hooks(
        "cameras_webhook_failed",
        "Attempts to tell a webhook that failed",
        Kind::Counter,
    ),
    of_hooks(
        "cameras_webhook_dropped",
        "Events that a webhook was not told: too many waited, or too many attempts failed",
        Kind::Counter,
    ),
];

/// Adds those of webhooks.
pub(crate) fn add_events(events: &Events, families: &mut Families<'_>) {
    let counts = events.hooks().iter().enumerate();
    let counts: Vec<_> = counts
        .map(|(place, hook)| (place.to_string(), hook.host(), hook.counts()))
        .collect();
    families.add(&HOOK_WAITING, |row| {
        for (place, host, (waiting, ..)) in &counts {
            row(&[place, host], Value::Level(*waiting as f64));
        }
    });
    for (index, family) in HOOK_COUNTS.iter().enumerate() {
        families.add(family, |row| {
            for (place, host, (_, told, failed, dropped)) in &counts {
                let count = [*told, *failed, *dropped][index];
                row(&[place, host], Value::Count(count));
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use evenkeel_admin::metrics::table_of;
    use servers_common::testing::alerts;

    use super::*;
    use crate::record::metrics::ALL;

    /// All of them as a table for people.
    fn page() -> String {
        let cameras = OF_CAMERAS.iter().map(|(family, _)| family);
        let clients = [&CLIENTS, &CONNECTIONS, &REFUSED, &SLOW, &UNSENT];
        let webrtc = OF_WEBRTC.iter().map(|(family, _)| family);
        let browsers = [&BROWSERS].into_iter().chain(webrtc);
        let hooks = [&HOOK_WAITING].into_iter().chain(&HOOK_COUNTS);
        let all = cameras.chain(ALL).chain(clients);
        table_of(all.chain(browsers).chain(hooks))
    }

    #[test]
    fn the_page_of_the_docs_is_what_the_code_says() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/METRICS.md");
        let file = std::fs::read_to_string(path).unwrap();
        let table = file.find("| name |").map_or("", |at| &file[at..]);
        assert_eq!(table, page(), "put the right side into {path}");
    }

    #[test]
    fn the_alerts_are_about_metrics_that_there_are_and_fire_as_their_tests_say() {
        let deploy = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy");
        alerts::hold(&deploy, &page(), "cameras_");
    }
}
