//! The API: one call that computes for long, beside whatever else the server does.

use std::time::Instant;

use hyper::body::Incoming;
use hyper::{Method, Request, StatusCode};
use serde::Serialize;

use super::camera::Cameras;
use super::http::{Answer, answer, not_found};
use super::platform::{Platform, micros};
use super::services::Server;
use super::work::compute;

/// Microseconds of computing between two checkpoints.
const STEP_US: u64 = 100;

/// The answer of `GET /parse`.
#[derive(Debug, Serialize)]
struct Parsed {
    /// How long the call took, from its first step to its last.
    took_us: u64,
    /// How long it would have taken with a core for itself.
    work_us: u64,
    /// What the sink and the cameras saw meanwhile.
    deliveries_per_s: f64,
    /// Mean length of those deliveries; 0 when there was none.
    bytes_per_delivery: f64,
}

pub(crate) async fn call<P: Platform>(request: Request<Incoming>, server: &Server<P>) -> Answer {
    match (request.method(), request.uri().path()) {
        (&Method::GET, "/parse") => json(&parse::<P>(server.args.api_us, &server.cameras).await),
        (&Method::GET, "/stats") => json(&server.platform.stats()),
        (&Method::GET, "/camera") => json(&server.cameras.stats()),
        (&Method::GET, "/stat") => match server.disk.stat::<P>().await {
            Ok(stats) => json(&stats),
            Err(error) => failed(&error),
        },
        _ => not_found("GET /parse, GET /stats, GET /camera and GET /stat"),
    }
}

async fn parse<P: Platform>(api_us: u64, cameras: &Cameras<P>) -> Parsed {
    let start = Instant::now();
    let (deliveries_before, bytes_before) = cameras.deliveries.read();
    let mut left_us = api_us;
    while left_us > 0 {
        let step_us = left_us.min(STEP_US);
        compute(step_us);
        left_us -= step_us;
        P::checkpoint().await;
    }
    let took = start.elapsed();
    let (deliveries, bytes) = cameras.deliveries.read();
    let deliveries = deliveries.saturating_sub(deliveries_before) as f64;
    let bytes = bytes.saturating_sub(bytes_before) as f64;
    Parsed {
        took_us: micros(took),
        work_us: api_us,
        deliveries_per_s: deliveries / took.as_secs_f64().max(f64::EPSILON),
        bytes_per_delivery: bytes / deliveries.max(1.0),
    }
}

fn json(value: &impl Serialize) -> Answer {
    match serde_json::to_vec(value) {
        Ok(body) => answer(StatusCode::OK, "application/json", body),
        Err(error) => failed(&error),
    }
}

fn failed(error: &dyn std::error::Error) -> Answer {
    let words = error.to_string();
    answer(StatusCode::INTERNAL_SERVER_ERROR, "text/plain", words)
}
