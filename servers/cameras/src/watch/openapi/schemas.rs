//! What is sent and what is answered, by the schemas of OpenAPI's document.

use serde_json::{Map, Value, json};

/// All schemas, by their names.
pub(super) fn schemas() -> Map<String, Value> {
    let mut all = sent();
    all.extend(of_cameras());
    all.extend(of_disks());
    all.into_iter()
        .map(|(name, schema)| (name.to_owned(), schema))
        .collect()
}

fn text() -> Value {
    json!({ "type": "string" })
}

fn said(description: &str) -> Value {
    json!({ "type": "string", "description": description })
}

fn number() -> Value {
    json!({ "type": "integer", "minimum": 0 })
}

fn counted(description: &str) -> Value {
    json!({ "type": "integer", "minimum": 0, "description": description })
}

fn list(of: &str) -> Value {
    json!({ "type": "array", "items": named(of) })
}

pub(super) fn named(schema: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{schema}") })
}

/// The same, or nothing.
fn or_null(schema: Value) -> Value {
    json!({ "anyOf": [schema, { "type": "null" }] })
}

/// Numbers by name.
fn by_name(description: &str) -> Value {
    json!({ "type": "object", "additionalProperties": number(), "description": description })
}

/// An object which has all of these keys, except those that are named, and no others.
fn object(properties: Value, optional: &[&str]) -> Value {
    let keys = properties.as_object().into_iter().flatten();
    let required: Vec<_> = keys
        .map(|(key, _)| key)
        .filter(|key| !optional.contains(&key.as_str()))
        .collect();
    json!({ "type": "object", "additionalProperties": false, "required": required,
        "properties": properties })
}

fn sent() -> Vec<(&'static str, Value)> {
    let record = object(
        json!({ "volume": said("A volume of the configuration."),
            "keep": said("How long, such as `12h` or `7d`; else what the volume says."),
            "size": said("Bytes of the camera at most, such as `20GiB`.") }),
        &["keep", "size"],
    );
    let camera = json!({
        "url": said("rtsp://HOST/PATH, or rtsps; without it and `onvif` the camera publishes."),
        "onvif": said("Where it is asked by ONVIF for the address of its streams."),
        "profile": said("The name or token of a profile of ONVIF; without it the first."),
        "user": said("What the camera asks for, with `password`."),
        "password": text(),
        "fingerprint": said("SHA-256 of a certificate that the camera made itself."),
        "delivery": said("How long packets may be held back, such as `350ms`."),
        "transport": { "enum": ["tcp", "udp"] },
        "record": record,
    });
    let optional = camera.as_object().into_iter().flatten();
    let optional: Vec<&str> = optional.map(|(key, _)| key.as_str()).collect();
    vec![
        ("Description", text()),
        ("Problem", object(json!({ "error": text() }), &[])),
        (
            "Login",
            json!({ "oneOf": [
                object(json!({ "token": text() }), &[]),
                object(json!({ "user": text(), "password": text() }), &[]),
            ] }),
        ),
        ("Camera", object(camera.clone(), &optional)),
        (
            "Protect",
            object(
                json!({ "from_ms": number(), "until_ms": number(),
                    "note": said("For people; 500 bytes at most.") }),
                &["note"],
            ),
        ),
    ]
}

fn of_cameras() -> Vec<(&'static str, Value)> {
    let size = json!({ "type": "array", "items": number(), "minItems": 2, "maxItems": 2 });
    let track = json!({
        "codec": text(),
        "is_video": { "type": "boolean" },
        "is_playable": { "type": "boolean", "description": "By browsers, as MP4." },
        "size": or_null(size),
    });
    let recording = json!({
        "volume": text(), "bytes": number(), "oldest_ms": or_null(number()),
        "waiting_gops": number(), "waiting_bytes": number(),
        "busy_for_ms": or_null(counted("Of a write that has not returned.")),
        "error": or_null(text()), "gops": number(), "written_bytes": number(),
        "lost_gops": by_name("Groups of pictures, by reason."),
        "gaps": list("Gap"),
    });
    let reasons = crate::record::gap::Reason::ALL.map(|reason| reason.name());
    let gap = json!({ "from_ms": number(), "until_ms": number(), "gops": number(),
        "reason": { "enum": reasons } });
    let cameras = json!({ "now_ms": number(), "cameras": list("CameraState") });
    vec![
        ("Cameras", object(cameras, &[])),
        ("CameraState", camera_state()),
        ("Track", object(track, &[])),
        ("Recording", object(recording, &[])),
        ("Gap", object(gap, &[])),
    ]
}

fn camera_state() -> Value {
    let mut states = vec!["receiving", "waiting", "connecting", "pausing", "expecting"];
    let ingest = json!({
        "state": { "enum": states }, "since_ms": counted("When that began."),
        "last_error": or_null(said("Why the last session ended.")), "failures": number(),
        "packets": number(), "lost": number(), "late": number(), "dropped": number(),
        "malformed": number(),
    });
    let details = json!({ "url": or_null(text()), "ingest": object(ingest, &[]),
        "memory": number() });
    states.extend(["live", "offline"]);
    let state = json!({
        "name": text(),
        "state": { "enum": states },
        "error": or_null(said("Why it is not live.")),
        "details": or_null(object(details, &[])),
        "tracks": list("Track"),
        "silent_for_ms": or_null(counted("Since its last sample.")),
        "viewers": number(), "samples": number(), "bytes": number(), "sessions": number(),
        "recording": or_null(named("Recording")),
    });
    object(state, &[])
}

fn of_disks() -> Vec<(&'static str, Value)> {
    let range = json!({ "from_ms": number(), "until_ms": number(), "bytes": number() });
    let protection = json!({ "id": text(), "from_ms": number(), "until_ms": number(),
        "note": text() });
    let names = json!({ "type": "array", "items": text() });
    vec![
        ("Nothing", object(json!({}), &[])),
        ("Named", object(json!({ "name": text() }), &[])),
        ("Identified", object(json!({ "id": text() }), &[])),
        ("Range", object(range, &[])),
        (
            "Recordings",
            object(
                json!({ "ranges": list("Range"), "gaps": list("Gap"),
                    "tier_unreachable": { "type": "boolean",
                        "description": "What only the store has is missing here." } }),
                &[],
            ),
        ),
        ("Protection", object(protection, &[])),
        (
            "Protections",
            object(json!({ "protected": list("Protection") }), &[]),
        ),
        (
            "Volumes",
            object(
                json!({ "volumes": list("Volume"), "tiers": list("Tier"),
                    "waiting_bytes": number() }),
                &[],
            ),
        ),
        (
            "Volume",
            object(
                json!({ "name": text(), "bytes": number(), "is_counted": { "type": "boolean" },
                    "syncs_for_ms": or_null(counted("Of a sync that has not returned.")),
                    "error": or_null(text()), "syncs": number(), "sync_failures": number(),
                    "deleted": by_name("Segments, by reason."), "deleted_bytes": number() }),
                &[],
            ),
        ),
        (
            "Tier",
            object(
                json!({ "name": text(), "copied": number(), "copied_bytes": number(),
                    "resumed": number(), "failures": number(), "missed": number(),
                    "read_bytes": number(), "read_failures": number(), "error": or_null(text()) }),
                &[],
            ),
        ),
        (
            "Changes",
            object(
                json!({ "added": names, "changed": names, "removed": names,
                    "needs_restart": names }),
                &[],
            ),
        ),
    ]
}
