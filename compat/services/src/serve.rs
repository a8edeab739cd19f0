//! The services.

use std::hint::black_box;
use std::thread;
use std::time::{Duration, Instant};

use axum::Router;
use axum::routing::get;
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;

use crate::Error;

async fn listen() -> Result<TcpListener, Error> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("listening on {}", listener.local_addr()?);
    Ok(listener)
}

pub(crate) async fn http() -> Result<(), Error> {
    let service = Router::new()
        .route("/", get(async || "Hello, World!"))
        .route("/healthz", get(async || "ok"))
        .route("/compute", get(async || compute(Duration::from_millis(20))))
        .route(
            "/block",
            get(async || thread::sleep(Duration::from_millis(200))),
        );
    Ok(axum::serve(listen().await?, service).await?)
}

/// Uses the processor for so long, without a look at anything else.
fn compute(length: Duration) {
    let start = Instant::now();
    while start.elapsed() < length {
        black_box((0..1_000).fold(0_u64, |sum, next| sum ^ black_box(next)));
    }
}

pub(crate) async fn grpc() -> Result<(), Error> {
    let (reporter, health) = tonic_health::server::health_reporter();
    reporter
        .set_service_status("", tonic_health::ServingStatus::Serving)
        .await;
    let reflection = tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        .build_v1()?;
    let incoming = TcpListenerStream::new(listen().await?);
    let server = tonic::transport::Server::builder()
        .add_service(health)
        .add_service(reflection);
    Ok(server.serve_with_incoming(incoming).await?)
}

pub(crate) async fn redis() -> Result<(), Error> {
    let listener = listen().await?;
    mini_redis::server::run(listener, std::future::pending::<()>()).await
}
