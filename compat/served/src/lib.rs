//! A service that Evenkeel serves, and a client that it connects.

use std::error::Error;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::routing::get;
use evenkeel::hyper::{Connector, Executor, Timer};
use evenkeel::net::TcpListener;
use evenkeel::serve::Served;
use evenkeel::task;
use http_body_util::{BodyExt, Empty};
use hyper_util::client::legacy::Client;
use tokio::sync::oneshot;

/// What came of a request, and of the server that answered it.
#[derive(Debug)]
pub struct Outcome {
    /// The body of the answer.
    pub answer: String,
    /// What the server has done when it was told to end.
    pub served: Served,
}

/// Says the class of the task that serves the request, and waits by Tokio's timer, if asked to.
fn routes(by_tokio: bool) -> Router {
    let answer = async move || {
        if by_tokio {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        format!("{:?}", task::class())
    };
    Router::new().route("/", get(answer))
}

/// Serves one request, and ends.
///
/// # Errors
///
/// Those of the connection.
pub async fn serve_one(by_tokio: bool) -> Result<Outcome, Box<dyn Error>> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let to = listener.local_addr()?;
    let (stop, stopped) = oneshot::channel::<()>();
    let serve = evenkeel::serve(listener, routes(by_tokio)).max_connections(2);
    let serve = serve.with_graceful_shutdown(async { _ = stopped.await });
    let server = evenkeel::spawn(serve.into_future());
    let client: Client<_, Empty<Bytes>> = Client::builder(Executor)
        .timer(Timer)
        .pool_timer(Timer)
        .build(Connector::new());
    let answer = client.get(format!("http://{to}/").parse()?).await?;
    let body = answer.into_body().collect().await?.to_bytes();
    drop(client);
    _ = stop.send(());
    Ok(Outcome {
        answer: String::from_utf8_lossy(&body).into_owned(),
        served: server.await?,
    })
}
