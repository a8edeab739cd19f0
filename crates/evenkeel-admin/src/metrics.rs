//! What Prometheus scrapes: each metric, with what it says.
//!
//! Names are those of that ecosystem: base units, the unit and `_total` in the name. Counters begin
//! with the runtime. A histogram's buckets double.

mod table;

use std::fmt::{self, Write};
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};

use crate::snapshot::Snapshot;
use table::METRICS;

/// The type of what is scraped.
pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// A metric of the runtime.
struct Metric {
    family: Family,
    read: fn(&Snapshot, &mut Rows<'_>),
}

/// A family of metrics, such as a program [adds](crate::Builder::metrics) to those of the runtime.
///
/// # Examples
///
/// ```
/// use evenkeel_admin::metrics::{Family, Kind};
///
/// const JOBS: Family = Family {
///     name: "app_jobs",
///     help: "Jobs that were done",
///     kind: Kind::Counter,
///     unit: None,
///     labels: &["queue"],
/// };
/// assert_eq!(JOBS.full_name(), "app_jobs_total");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Family {
    /// Without unit and `_total`. Those of the runtime begin with `evenkeel_`, and no other may.
    pub name: &'static str,
    /// What it says, in a sentence.
    pub help: &'static str,
    /// What it counts, or measures.
    pub kind: Kind,
    /// In what: `seconds` or `bytes`; `None` for a number of things.
    pub unit: Option<&'static str>,
    /// The names of its labels.
    pub labels: &'static [&'static str],
}

/// The sort of a [`Family`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only grows, from the program's start on.
    Counter,
    /// Goes up and down.
    Gauge,
    /// How often something was of which size.
    Histogram,
}

/// A value of a metric.
#[derive(Clone, Debug)]
pub enum Value {
    /// Of a counter of things.
    Count(u64),
    /// Of a gauge.
    Level(f64),
    /// Of a counter of time.
    Seconds(f64),
    /// Of a histogram.
    Histogram {
        /// The sum of all that was measured.
        sum: f64,
        /// The upper end of each bucket, and what is in it alone. The last one ends at infinity.
        buckets: Vec<(f64, u64)>,
    },
}

/// Takes the rows of a metric: the values of its labels, in order, and the value.
pub type Rows<'a> = dyn FnMut(&[&str], Value) + 'a;

/// Takes the families that a program [adds](crate::Builder::metrics).
pub struct Families<'a> {
    encode: &'a mut Encode<'a>,
}

type Encode<'a> = dyn FnMut(&Family, &mut dyn FnMut(&mut Rows<'_>)) + 'a;

impl fmt::Debug for Families<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Families").finish_non_exhaustive()
    }
}

impl Families<'_> {
    /// Adds a family with the rows that `read` gives: once for each combination of labels.
    pub fn add(&mut self, family: &Family, mut read: impl FnMut(&mut Rows<'_>)) {
        (self.encode)(family, &mut read);
    }
}

/// What a program adds when metrics are asked for.
pub(crate) type Added = Arc<dyn Fn(&mut Families<'_>) + Send + Sync>;

/// A snapshot as OpenMetrics text, with what the program adds.
pub(crate) fn text(snapshot: Snapshot, added: Option<Added>) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Scrape { snapshot, added }));
    let mut text = String::new();
    let written = prometheus_client::encoding::text::encode(&mut text, &registry);
    debug_assert!(written.is_ok(), "a string takes all");
    text
}

/// All metrics of the runtime as a table for people: name, type, labels, what it says.
pub fn page() -> String {
    table_of(METRICS.iter().map(|metric| &metric.family))
}

/// Such a table of a program's own families.
pub fn table_of<'a>(families: impl IntoIterator<Item = &'a Family>) -> String {
    let mut page = String::from("| name | type | labels | |\n|---|---|---|---|\n");
    for family in families {
        let labels: Vec<_> = (family.labels.iter())
            .map(|label| format!("`{label}`"))
            .collect();
        let (name, labels) = (family.full_name(), labels.join(", "));
        let (kind, help) = (family.kind.name(), family.help);
        let written = writeln!(page, "| `{name}` | {kind} | {labels} | {help} |");
        debug_assert!(written.is_ok(), "a string takes all");
    }
    page
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        }
    }

    fn of_client(self) -> MetricType {
        match self {
            Kind::Counter => MetricType::Counter,
            Kind::Gauge => MetricType::Gauge,
            Kind::Histogram => MetricType::Histogram,
        }
    }
}

impl Family {
    /// As it is scraped, with the unit and `_total`.
    pub fn full_name(&self) -> String {
        let mut name = self.name.to_owned();
        if let Some(unit) = self.unit {
            name.push('_');
            name.push_str(unit);
        }
        if self.kind == Kind::Counter {
            name.push_str("_total");
        }
        name
    }

    fn encode(
        &self,
        encoder: &mut DescriptorEncoder<'_>,
        read: &mut dyn FnMut(&mut Rows<'_>),
    ) -> fmt::Result {
        let kind = self.kind.of_client();
        let unit = self.unit.map(|unit| Unit::Other(unit.to_owned()));
        let mut encoder = encoder.encode_descriptor(self.name, self.help, unit.as_ref(), kind)?;
        let mut written = Ok(());
        read(&mut |values, value| {
            debug_assert_eq!(values.len(), self.labels.len(), "{}", self.name);
            if written.is_ok() {
                written = encode_row(&mut encoder, self.labels, values, &value);
            }
        });
        written
    }
}

fn encode_row(
    encoder: &mut MetricEncoder<'_>,
    labels: &[&'static str],
    values: &[&str],
    value: &Value,
) -> fmt::Result {
    if labels.is_empty() {
        return encode_value(encoder, value);
    }
    let labels: Vec<_> = labels.iter().copied().zip(values.iter().copied()).collect();
    let labels = labels.as_slice();
    encode_value(&mut encoder.encode_family(&labels)?, value)
}

fn encode_value(encoder: &mut MetricEncoder<'_>, value: &Value) -> fmt::Result {
    /// No labels of exemplars, as there are none.
    type None = prometheus_client::encoding::NoLabelSet;
    match value {
        Value::Count(count) => encoder.encode_counter::<None, _, u64>(count, Option::None),
        Value::Seconds(seconds) => encoder.encode_counter::<None, _, f64>(seconds, Option::None),
        Value::Level(level) => encoder.encode_gauge(level),
        Value::Histogram { sum, buckets } => {
            let count = buckets.iter().map(|(_, count)| count).sum();
            encoder.encode_histogram::<None>(*sum, count, buckets, Option::None)
        }
    }
}

struct Scrape {
    snapshot: Snapshot,
    added: Option<Added>,
}

impl fmt::Debug for Scrape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scrape").finish_non_exhaustive()
    }
}

impl Collector for Scrape {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for metric in METRICS {
            let mut read = |row: &mut Rows<'_>| (metric.read)(&self.snapshot, row);
            metric.family.encode(&mut encoder, &mut read)?;
        }
        let mut written = Ok(());
        if let Some(added) = &self.added {
            let mut encode = |family: &Family, read: &mut dyn FnMut(&mut Rows<'_>)| {
                if written.is_ok() {
                    written = family.encode(&mut encoder, read);
                }
            };
            added(&mut Families {
                encode: &mut encode,
            });
        }
        written
    }
}
