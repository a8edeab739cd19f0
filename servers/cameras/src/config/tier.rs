//! Where recordings are copied to.

use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use servers_common::values;

use crate::record::tier::{self, PART_BYTES};

/// A store with the interface of S3.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tier {
    /// Its address: `https://HOST` or `http://HOST:PORT`.
    pub endpoint: String,
    /// The bucket, which has to be there.
    pub bucket: String,
    /// As signatures name it.
    #[serde(default = "region")]
    pub region: String,
    /// What keys begin with, such as `site1/`.
    #[serde(default)]
    pub prefix: String,
    /// A file in TOML with `access_key`, `secret_key` and, if there is one, `session_token`;
    /// without it they are `AWS_ACCESS_KEY_ID` and so on in the environment.
    pub credentials: Option<PathBuf>,
    /// Bytes that are in flight at a time.
    #[serde(default = "memory", deserialize_with = "values::size")]
    pub memory: usize,
    /// How long a request may take.
    #[serde(default = "patience", deserialize_with = "values::time")]
    pub patience: Duration,
    /// The longest pause after failures.
    #[serde(default = "retry_max", deserialize_with = "values::time")]
    pub retry_max: Duration,
}

/// Where buckets are that say nothing else, and what most stores of others are called.
fn region() -> String {
    "us-east-1".to_owned()
}

fn memory() -> usize {
    64 << 20
}

fn patience() -> Duration {
    Duration::from_secs(60)
}

fn retry_max() -> Duration {
    Duration::from_secs(60)
}

impl From<&Tier> for tier::Settings {
    fn from(tier: &Tier) -> Self {
        Self {
            endpoint: tier.endpoint.clone(),
            bucket: tier.bucket.clone(),
            region: tier.region.clone(),
            prefix: tier.prefix.clone(),
            credentials: tier.credentials.clone(),
            memory: tier.memory,
            part_bytes: PART_BYTES,
            patience: tier.patience,
            retry_max: tier.retry_max,
        }
    }
}
