//! What Prometheus scrapes: each metric, with what it says.
//!
//! Names are those of that ecosystem: base units, the unit and `_total` in the name. Counters begin
//! with the runtime. A histogram's buckets double.

mod table;

use std::fmt::{self, Write};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};

use crate::snapshot::Snapshot;
use table::METRICS;

/// The type of what is scraped.
pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// A metric.
struct Metric {
    /// Without unit and `_total`.
    name: &'static str,
    help: &'static str,
    sort: Sort,
    unit: Option<&'static str>,
    labels: &'static [&'static str],
    read: fn(&Snapshot, &mut Rows<'_>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sort {
    Counter,
    Gauge,
    Histogram,
}

/// A value of a metric.
enum Value {
    Count(u64),
    Level(f64),
    /// A counter of time.
    Seconds(f64),
    Histogram {
        sum: f64,
        /// The upper end of each bucket, and what is in it alone.
        buckets: Vec<(f64, u64)>,
    },
}

/// Takes the rows of a metric: the values of its labels, in order, and the value.
type Rows<'a> = dyn FnMut(&[&str], Value) + 'a;

/// A snapshot as OpenMetrics text.
pub(crate) fn text(snapshot: Snapshot) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Scrape(snapshot)));
    let mut text = String::new();
    let written = prometheus_client::encoding::text::encode(&mut text, &registry);
    debug_assert!(written.is_ok(), "a string takes all");
    text
}

/// All metrics as a table for people: name, type, labels, what it says.
pub fn page() -> String {
    let mut page = String::from("| name | type | labels | |\n|---|---|---|---|\n");
    for metric in METRICS {
        let labels: Vec<_> = (metric.labels.iter())
            .map(|label| format!("`{label}`"))
            .collect();
        let (name, labels) = (metric.full_name(), labels.join(", "));
        let (sort, help) = (metric.sort.name(), metric.help);
        let written = writeln!(page, "| `{name}` | {sort} | {labels} | {help} |");
        debug_assert!(written.is_ok(), "a string takes all");
    }
    page
}

impl Sort {
    fn name(self) -> &'static str {
        match self {
            Sort::Counter => "counter",
            Sort::Gauge => "gauge",
            Sort::Histogram => "histogram",
        }
    }

    fn of_client(self) -> MetricType {
        match self {
            Sort::Counter => MetricType::Counter,
            Sort::Gauge => MetricType::Gauge,
            Sort::Histogram => MetricType::Histogram,
        }
    }
}

impl Metric {
    fn full_name(&self) -> String {
        let mut name = self.name.to_owned();
        if let Some(unit) = self.unit {
            name.push('_');
            name.push_str(unit);
        }
        if self.sort == Sort::Counter {
            name.push_str("_total");
        }
        name
    }

    fn encode(&self, snapshot: &Snapshot, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let sort = self.sort.of_client();
        let unit = self.unit.map(|unit| Unit::Other(unit.to_owned()));
        let mut encoder = encoder.encode_descriptor(self.name, self.help, unit.as_ref(), sort)?;
        let mut written = Ok(());
        (self.read)(snapshot, &mut |values, value| {
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

#[derive(Debug)]
struct Scrape(Snapshot);

impl Collector for Scrape {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        METRICS
            .iter()
            .try_for_each(|metric| metric.encode(&self.0, &mut encoder))
    }
}
