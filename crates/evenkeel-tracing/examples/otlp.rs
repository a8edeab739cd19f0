//! Spans exported by OTLP over HTTP, from a program on the runtime: hogs, log and exported spans
//! side by side.
//!
//! ```sh
//! docker run --rm -p 4318:4318 otel/opentelemetry-collector
//! cargo run --example otlp -p evenkeel-tracing -- http://127.0.0.1:4318
//! ```
//!
//! OpenTelemetry's SDK gathers spans on a thread of its own, and there calls a client. This one
//! sends each batch from a task of class `BULK`, so that exporting never holds up requests. No
//! runtime of Tokio's is needed.
//!
//! Each span has the class that it began in as an attribute, since the program records it. The hog
//! at the end is reported by the runtime, as an event of the target `evenkeel::hog`; the layer of
//! this crate tells the runtime within which span it was.

use std::error::Error;
use std::time::Duration;

use async_trait::async_trait;
use evenkeel::hyper::{Connector, Executor, Timer};
use evenkeel::runtime::{Builder, Handle, within};
use evenkeel::{Class, task, time};
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::client::legacy::Client;
use opentelemetry::trace::TracerProvider;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing::level_filters::LevelFilter;
use tracing::{Instrument, info, info_span};
use tracing_subscriber::prelude::*;
use tracing_subscriber::{fmt, registry};

/// How long an export may take.
const LIMIT: Duration = Duration::from_secs(10);
/// How long an answer of the collector may be, in bytes: it only has to say that all is well.
const ANSWER_MAX: usize = 64 << 10;

/// A client that sends from tasks of a runtime, whichever thread calls it.
#[derive(Debug)]
struct OnRuntime {
    runtime: Handle,
    client: Client<Connector, Full<Bytes>>,
}

#[async_trait]
impl HttpClient for OnRuntime {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let client = self.client.clone();
        let send = async move {
            let answer = client.request(request.map(Full::new)).await?;
            let (head, body) = answer.into_parts();
            let body = Limited::new(body, ANSWER_MAX).collect().await?.to_bytes();
            Ok(Response::from_parts(head, body))
        };
        // The caller's thread belongs to no runtime, so it waits for a task.
        let task = self
            .runtime
            .spawn_in(Class::BULK, time::timeout(LIMIT, send));
        task.await??
    }
}

fn exporter(runtime: &Handle, endpoint: &str) -> Result<SdkTracerProvider, Box<dyn Error>> {
    let client = OnRuntime {
        runtime: runtime.clone(),
        client: Client::builder(Executor)
            .timer(Timer)
            .pool_timer(Timer)
            .build(Connector::new()),
    };
    let exporter = SpanExporter::builder()
        .with_http()
        .with_http_client(client)
        .with_endpoint(format!("{endpoint}/v1/traces"))
        .with_timeout(LIMIT)
        .build()?;
    let resource = Resource::builder().with_service_name("evenkeel-example");
    Ok(SdkTracerProvider::builder()
        .with_batch_exporter(exporter)
        .with_resource(resource.build())
        .build())
}

async fn request(uri: &'static str) {
    task::yield_now().await;
    info!("answered");
    if uri == "/compute" {
        // A hog: a thread that does not return to its other tasks.
        std::thread::sleep(Duration::from_millis(50));
        info!(within = within::here(), "computed for too long");
    }
}

/// A span with the class of the task that is in it.
async fn handle(class: Class, uri: &'static str) -> Result<(), task::JoinError> {
    let span = info_span!("request", uri, class = %class);
    evenkeel::spawn_in(class, request(uri).instrument(span)).await
}

fn main() -> Result<(), Box<dyn Error>> {
    let endpoint = std::env::args().nth(1);
    let endpoint = endpoint.unwrap_or_else(|| "http://127.0.0.1:4318".to_owned());
    let runtime = Builder::new().build()?;
    let provider = exporter(runtime.handle(), &endpoint)?;
    let spans = tracing_opentelemetry::layer().with_tracer(provider.tracer("evenkeel"));
    registry()
        .with(LevelFilter::INFO)
        .with(fmt::layer().event_format(evenkeel_tracing::with_class(fmt::format())))
        .with(evenkeel_tracing::layer())
        .with(spans)
        .init();
    runtime.block_on(async {
        handle(Class::URGENT, "/health").await?;
        handle(Class::NORMAL, "/compute").await
    })?;
    // Sends what is left, on the runtime, which therefore ends after it.
    provider.shutdown()?;
    runtime.shutdown(LIMIT)?;
    Ok(())
}
