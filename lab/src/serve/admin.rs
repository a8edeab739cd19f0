//! The admin page: a few words on how the server is, answered in a class of its own.

use std::sync::Arc;
use std::time::Instant;

use hyper::{Method, StatusCode};

use super::http::{answer, connection, not_found};
use super::platform::{Platform, accept_loop};

pub(crate) async fn serve<P: Platform>(listener: P::Listener) {
    let started = Arc::new(Instant::now());
    accept_loop::<P, _>("admin", listener, move |stream| {
        let started = Arc::clone(&started);
        connection::<P, _>(stream, move |request| {
            let up = started.elapsed().as_secs();
            async move {
                match (request.method(), request.uri().path()) {
                    (&Method::GET, "/") => answer(
                        StatusCode::OK,
                        "text/plain",
                        format!("{} up {up} s\n", P::NAME),
                    ),
                    _ => not_found("GET /"),
                }
            }
        })
    })
    .await;
}
