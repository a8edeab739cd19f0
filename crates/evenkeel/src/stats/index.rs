//! Classes as their index, for `serde`: `#[serde(with = "index")]`.

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::class::{CLASSES_MAX, Class};

pub(super) fn serialize<S: Serializer>(class: &Class, to: S) -> Result<S::Ok, S::Error> {
    class.index().serialize(to)
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Class, D::Error> {
    let index = usize::deserialize(from)?;
    if index >= CLASSES_MAX {
        let message = format!(
            "class {index} is one too many: they are 0 to {}",
            CLASSES_MAX - 1
        );
        return Err(Error::custom(message));
    }
    Ok(Class::at(index))
}
