//! The epoch, which is kept in the stream's settings: whoever opens the stream goes by it, and all
//! servers of a stream agree on it.
//!
//! It is in the metadata. NATS before 2.10 has none, and there it is at the end of the description.
//! A stream in which no loss was noticed has neither: its epoch is the time of its creation.

use serde_json::{Value, json};

use super::connection::Connection;
use super::error::NatsError;
use super::stream::{Settings, ask, info_of};

/// The key in the metadata.
const KEY: &str = "txlog-epoch";

/// How the epoch stands in a description.
const BEGIN: &str = "(txlog-epoch ";
const END: &str = ")";

/// The epoch that was written into a stream, if one was.
pub(super) fn kept(settings: &Settings) -> Option<u64> {
    let metadata = settings.metadata.as_ref().and_then(|all| all[KEY].as_str());
    let in_metadata = metadata.and_then(|text| text.parse().ok());
    in_metadata.max(described(&settings.description).map(|(_, epoch)| epoch))
}

/// How often an epoch is written that another server overwrites with its own, at the same time.
const ATTEMPTS: usize = 3;

/// Writes an epoch into the stream, unless it has a later one.
pub(super) async fn keep(
    connection: &Connection,
    stream: &str,
    epoch: u64,
) -> Result<(), NatsError> {
    for _ in 0..ATTEMPTS {
        if has_kept(connection, stream, epoch).await? {
            return Ok(());
        }
    }
    Err(NatsError::Nonsense(format!(
        "the stream {stream} did not take the epoch {epoch} into its settings"
    )))
}

/// Whether the stream has it, or a later one, after an attempt to write it.
async fn has_kept(connection: &Connection, stream: &str, epoch: u64) -> Result<bool, NatsError> {
    let has = |described: &Value| -> Result<bool, NatsError> {
        let found = kept(&info_of(described)?.config);
        Ok(found.is_some_and(|found| found >= epoch))
    };
    let found = ask(connection, "INFO", stream, &Value::Null).await??;
    if has(&found)? {
        return Ok(true);
    }
    // An update has all settings, so these are those of a moment ago.
    let mut settings = found["config"].clone();
    if !settings["metadata"].is_object() {
        settings["metadata"] = json!({});
    }
    settings["metadata"][KEY] = json!(epoch.to_string());
    let updated = ask(connection, "UPDATE", stream, &settings).await??;
    if has(&updated)? {
        return Ok(true);
    }
    let text = found["config"]["description"].as_str().unwrap_or_default();
    let own = described(text).map_or(text, |(own, _)| own).trim_end();
    let text = format!("{own} {BEGIN}{epoch}{END}");
    settings["description"] = json!(text.trim_start());
    let updated = ask(connection, "UPDATE", stream, &settings).await??;
    has(&updated)
}

/// What a description says besides the epoch at its end, and the epoch.
fn described(text: &str) -> Option<(&str, u64)> {
    let (own, epoch) = text.strip_suffix(END)?.rsplit_once(BEGIN)?;
    Some((own, epoch.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(metadata: Value, description: &str) -> Settings {
        let settings = json!({ "metadata": metadata, "description": description });
        serde_json::from_value(settings).unwrap()
    }

    #[test]
    fn an_epoch_is_found_wherever_it_was_written() {
        for (metadata, description, epoch) in [
            (Value::Null, "", None),
            (json!({ "a": "b" }), "orders", None),
            (json!({ "txlog-epoch": "17" }), "orders", Some(17)),
            (Value::Null, "(txlog-epoch 18)", Some(18)),
            (Value::Null, "orders (old) (txlog-epoch 18)", Some(18)),
            (
                json!({ "txlog-epoch": "17" }),
                "a (txlog-epoch 18)",
                Some(18),
            ),
            (
                json!({ "txlog-epoch": "19" }),
                "a (txlog-epoch 18)",
                Some(19),
            ),
            (json!({ "txlog-epoch": "x" }), "(txlog-epoch 18) of", None),
            (json!({ "txlog-epoch": 17 }), "(txlog-epoch )", None),
        ] {
            assert_eq!(
                kept(&settings(metadata, description)),
                epoch,
                "{description}"
            );
        }
    }
}
